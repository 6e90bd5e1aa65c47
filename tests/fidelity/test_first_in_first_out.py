"""First in, first out on the public Philly trace, against figures others agree on.

The three means are those on which three independent simulators agree (issue 1 of the project,
its fourth acceptance). The other slices are compared job by job with the literal simulator beside
this file.
"""

from pathlib import Path

import pytest

from shunter.config import make_config
from shunter.run import RunResult, simulate
from shunter.workloads import Trace, load_trace
from tests.fidelity.literal import finish_times_us

pytestmark = pytest.mark.fidelity

PHILLY = Path(__file__).resolve().parents[2].parent / "shared" / "traces" / "philly.csv"


def philly(first: int, end: int) -> Trace:
    """Return a slice of the Philly trace, or skip where it is not at hand."""
    if not PHILLY.is_file():
        pytest.skip("needs the public Philly trace as ../shared/traces/philly.csv")
    return load_trace(PHILLY, rows=(first, end))


def run(trace: Trace, policy: str, servers: int) -> RunResult:
    """Run a trace on servers of four GPUs, decisions on every event, gangs anywhere."""
    node = {"name": f"gpu[001-{servers:03d}]", "gpus": 4, "type": "v100"}
    tree = {
        "schema": 1,
        "seed": 7,
        "cluster": {"nodes": [node]},
        "workload": {"trace": str(PHILLY)},
        "policy": {"name": policy, "trigger": "event", "placement": "first_fit"},
    }
    return simulate(make_config(tree), trace=trace)


@pytest.mark.parametrize(
    ("policy", "servers", "mean_s"),
    [
        ("fifo", 100, 3676.907),
        ("fifo_backfill", 100, 3676.907),
        ("fifo", 16, 7573.747),
        ("fifo_backfill", 16, 6964.036),
    ],
)
def test_mean_completion_time_is_the_one_others_found(
    policy: str, servers: int, mean_s: float
) -> None:
    result = run(philly(40_000, 41_000), policy, servers)
    assert result.document["jct_s"]["mean"] == pytest.approx(mean_s, abs=5e-4)
    assert result.document["jobs"]["finished"] == 1000


@pytest.mark.parametrize("policy", ["fifo", "fifo_backfill"])
@pytest.mark.parametrize(
    ("first", "end", "servers"), [(0, 3000, 24), (20_000, 22_000, 20), (60_000, 64_000, 40)]
)
def test_every_job_ends_when_the_literal_simulator_says(
    policy: str, first: int, end: int, servers: int
) -> None:
    trace = philly(first, end)
    fits = [job for job in trace.jobs if job.spec.gpus <= servers * 4]
    expected = finish_times_us(fits, servers * 4, skips=policy == "fifo_backfill")
    result = run(trace, policy, servers)
    ended = {s.job_id: s.end_us for s in result.stories() if s.status == "finished"}
    assert ended == expected
