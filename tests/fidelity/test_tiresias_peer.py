"""Every reference case of the public Tiresias simulator, job by job, by way of the examples.

The reference figures and traces are not part of Shunter; they are looked for in ../shared.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from shunter.config import load_config
from shunter.core import percentile
from shunter.run import simulate
from tests.peers.tiresias_literal import PeerJob, peer_run

pytestmark = pytest.mark.fidelity

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
TRACES = SHARED / "traces" / "tiresias"
REFERENCE = SHARED / "reference" / "tiresias.json"
EXAMPLES = ROOT / "examples" / "peers" / "tiresias"
ABSENT = pytest.mark.skip(
    reason="needs the results of the peer as ../shared/reference/tiresias.json"
)

C2 = ((8, 0, 5000), (4, 1000, 8000), (8, 1625, 250))
C3 = ((8, 0, 2000), (8, 500, 1000), (4, 1500, 1000))


def reference_cases() -> list[Any]:
    """Return all cases by name, or one that is skipped and says why."""
    if not REFERENCE.is_file():
        return [pytest.param({}, marks=ABSENT, id="none")]
    cases = json.loads(REFERENCE.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=named(case)) for case in cases]


def named(case: dict[str, Any]) -> str:
    size = f"{case['servers']}x{case['gpus_per_server']}"
    return f"{case['trace']}-{size}-{case['schedule']}"


def trace_of(case: dict[str, Any]) -> Path:
    trace = TRACES / f"{case['trace']}_job.csv"
    if not trace.is_file():
        pytest.skip(f"needs the trace of the peer as ../shared/traces/tiresias/{trace.name}")
    return trace


def run_example(schedule: str, trace: Path, servers: int, gpus: int) -> Any:
    """Run the example of a schedule as its head says, with a log in memory."""
    width = len(str(servers))
    overrides = [
        f"workload.trace={trace}",
        f"cluster.nodes.0.name=n[{1:0{width}d}-{servers}]",
        f"cluster.nodes.0.gpus={gpus}",
        "log.url=memory:",
    ]
    loaded = load_config(EXAMPLES / f"{schedule}.toml", [("--set", o) for o in overrides], {})
    return simulate(loaded)


@pytest.mark.parametrize("case", reference_cases())
def test_every_job_ends_when_the_public_simulator_says(case: dict[str, Any]) -> None:
    result = run_example(case["schedule"], trace_of(case), case["servers"], case["gpus_per_server"])

    stories = list(result.stories())
    ends_us = {str(story.job_id): story.end_us for story in stories}
    assert ends_us == {job: end_s * 1_000_000 for job, end_s in case["end_time_s"].items()}
    document = result.document
    assert document["jobs"]["finished"] == case["jobs"]
    assert document["preemptions"] == case["preemptions"]
    assert document["jct_s"]["mean"] == pytest.approx(case["avg_jct_s"], rel=1e-12)
    assert document["makespan_s"] == case["makespan_s"]
    assert document["wait_s"]["mean"] == pytest.approx(case["avg_pending_s"], rel=1e-12, abs=1e-9)
    times_s = sorted(story.jct_us / 1e6 for story in stories)
    for q in (50, 95, 99):
        assert percentile(times_s, q) == pytest.approx(case[f"p{q}_jct_s"], rel=1e-9)


@pytest.mark.parametrize("case", reference_cases())
def test_literal_simulator_gives_the_same_ends_and_counts(case: dict[str, Any]) -> None:
    with trace_of(case).open(encoding="utf-8", newline="") as file:
        jobs = [
            PeerJob(
                row["job_id"],
                int(row["num_gpu"]),
                int(row["submit_time"]),
                int(float(row["duration"])),
            )
            for row in csv.DictReader(file)
        ]
    with (TRACES / "yarn-gput1000.csv").open(encoding="utf-8", newline="") as file:
        samples = [int(row["duration"]) for row in csv.DictReader(file)]

    gpus = case["servers"] * case["gpus_per_server"]
    found = peer_run(jobs, gpus, case["schedule"], samples=samples)

    assert found.ends_s == case["end_time_s"]
    assert (found.preemptions, found.promotions) == (case["preemptions"], case["promotions"])


@pytest.mark.parametrize(
    ("rows", "ends_s"), [(C2, (10522, 13250, 2250)), (C3, (3500, 1500, 2500))], ids=["C2", "C3"]
)
def test_small_trace_comes_out_of_the_example_as_of_the_peer(
    rows: tuple[tuple[int, int, int], ...], ends_s: tuple[int, ...], tmp_path: Path
) -> None:
    lines = ["job_id,num_gpu,submit_time,iterations,model_name,duration,interval"]
    lines += [f"{n},{gpus},{at},1,vgg16,{lasts},0" for n, (gpus, at, lasts) in enumerate(rows)]
    trace = tmp_path / "job.csv"
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")

    result = run_example("dlas-gpu-1", trace, 1, 8)

    ended = {int(story.job_id): story.end_us // 1_000_000 for story in result.stories()}
    assert ended == dict(enumerate(ends_s))
