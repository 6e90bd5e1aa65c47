"""The published averages of the public Blox simulator, to the last digit, by way of the examples.

All is read off the file that `--jobs-out` writes. The averages count the tracked ids only. A
job's completion time is `jct_s`; its responsiveness is `first_start_s + 300 - submit_s`, since the
peer notes a start when its first round is over.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from shunter.config import load_config
from shunter.run import simulate, write_jobs

pytestmark = pytest.mark.fidelity

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
REFERENCE = SHARED / "reference" / "blox.json"
EXAMPLES = ROOT / "examples" / "peers" / "blox"
PLAYED_BY = {"Fifo": "fifo", "Las": "las", "Srtf": "srtf", "Tiresias": "las"}
ROUND_S = 300


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    if not REFERENCE.is_file():
        pytest.skip("needs the results of the peer as ../shared/reference/blox.json")
    found: dict[str, Any] = json.loads(REFERENCE.read_text(encoding="utf-8"))["set"]
    return found


@pytest.mark.parametrize("scheduler", PLAYED_BY)
def test_averages_over_the_tracked_jobs_are_the_published_ones(
    scheduler: str, reference: dict[str, Any], tmp_path: Path
) -> None:
    published = next(run for run in reference["blox"] if run["scheduler"] == scheduler)
    trace = SHARED / reference["trace"]
    if not trace.is_file():
        pytest.skip(f"needs the trace of the peer as ../shared/{reference['trace']}")
    overrides = [
        f"workload.trace={trace}",
        f"cluster.nodes.0.name=n[01-{reference['machines']}]",
        "log.url=memory:",
    ]
    example = EXAMPLES / f"{PLAYED_BY[scheduler]}.toml"
    result = simulate(load_config(example, [("--set", o) for o in overrides], {}))
    jobs_out = tmp_path / "jobs.csv"
    write_jobs(jobs_out, result.stories(), len(result.trace.jobs))

    first, last = reference["tracked"]
    with jobs_out.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if first <= int(row["job_id"]) <= last]
    assert len(rows) == published["jobs"]
    times_s = sorted(int(row["jct_s"]) for row in rows)
    assert sum(times_s) / len(rows) == published["avg_jct_s"]
    assert times_s[len(rows) // 2] == published["median_jct_s"]
    assert times_s[len(rows) * 99 // 100] == published["p99_jct_s"]
    starts_s = [int(row["first_start_s"]) + ROUND_S - int(row["submit_s"]) for row in rows]
    assert sum(starts_s) / len(rows) == published["avg_responsiveness_s"]
    # The peer looks once more, at the end of the round in which the last tracked job ended.
    assert max(int(row["finish_s"]) for row in rows) == (published["rounds"] - 1) * ROUND_S
