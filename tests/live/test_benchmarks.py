"""Every benchmark that needs no trace still runs: each uses insides that may change under it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.slurm.bench import lacking
from tests.live.ssh.farm import LACKING

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
# Those of real traces, or that take minutes on one core, are left to `make bench`.
LEFT_OUT = {"philly", "tiresias", "synergy", "sizing_trace", "gavel_runs", "why", "demo"}
NAMES = [
    "startup",
    "counts",
    "rounds",
    "gavel_solve",
    "sizing_rounds",
    "slicing",
    "million",
    "replay",
    "log_verify",
    "gangs_approvals",
    "analysis_runs",
    "analysis_forecasts",
    "live_append",
    "live_fork",
    "live_jobs",
    "live_ssh",
    "live_slurm",
    "live_long_queue",
    "live_short_jobs",
    "live_turns",
    "live_submissions",
    "live_api",
    "live_dry_run",
    "live_year",
    "sdk_step",
    "sdk_save",
]


@pytest.mark.rotating("name")
@pytest.mark.parametrize("name", NAMES)
def test_benchmark_runs_and_measures_what_its_table_shows(name: str, tmp_path: Path) -> None:
    if name == "live_ssh" and LACKING:
        pytest.skip(LACKING)
    if name == "live_slurm" and (lack := lacking(tmp_path)):
        pytest.skip(lack)
    words = [sys.executable, "-m", "benchmarks.run", "--quick", "--json", "--only", name]
    done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    documents = json.loads(done.stdout)
    assert all(document["loop_cpu_s"] > 0 for document in documents)
    _, *rows = done.stderr.splitlines()
    assert rows, "a row of the table for each number that has a budget"
    assert all(row.startswith(name) for row in rows)


def test_every_benchmark_is_tried_here_or_named_as_left_out() -> None:
    listing = [sys.executable, "-m", "benchmarks.run", "--list"]
    done = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True)
    assert {*done.stdout.split()} == {*NAMES} | LEFT_OUT


def test_ratios_are_of_equal_runs_and_what_is_not_measured_is_not_met() -> None:
    words = [sys.executable, "-m", "benchmarks.ratios", "--quick", "--before", str(ROOT)]
    words += ["--trace", str(ROOT / "tests" / "data" / "traces" / "philly.csv")]
    words += ["--only", "loops,peers,verification"]
    done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    unmeasured = [row.split("  ")[0] for row in done.stdout.splitlines() if "  not met" in row]
    # Not asked for, and so not met.
    process = "Philly fifo, whole process, against bare loop of"
    assert unmeasured == [f"{process} SimPy", f"{process} SimGrid"]
    assert done.stdout.count("digests equal") == 4
