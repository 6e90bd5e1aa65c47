"""The scheduler killed at every point it comes to, with jobs in pilots of a real Slurm cluster.

Goal: wherever it dies, the next start brings every job to the end it would have had; nothing is
lost, runs twice or shares a GPU, and no node is asked for twice. Method: as for this machine alone
(tests/live/site), where all points are tried; here those at which a pilot comes or goes, and what
lies around them. Four clusters have a node each, and each is struck several times.
"""

from pathlib import Path

import pytest

from tests.live.site.daemons import together
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.crashes.cases import Case
from tests.live.slurm.pilots import PilotBench, most_at_once

pytestmark = [pytest.mark.live, pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

STRUCK_LEAST = 14
# In the order in which a run comes to them.
POINTS = {
    "n1": (
        "term taken",
        "pilot submitted",
        "pilot connected",
        "order SuspendAttempt",
        "done SuspendAttempt",
    ),
    "n2": ("pilot admitted", "backend taken over", "asked start", "append JobSuspended"),
    "n3": ("durable NodeReachable", "supervisors answered", "adopted", "done Terminate"),
    "n4": ("durable AllocationChanged", "to Launch", "settled", "durable AttemptEnded"),
}


@pytest.mark.rotating(among="crash points in Slurm")
def test_scheduler_killed_anywhere_leaves_pilots_in_order(
    slurm: SlurmBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    cases = [
        Case(PilotBench(slurm, tmp_path / node), node, points) for node, points in POINTS.items()
    ]
    try:
        together([case.run() for case in cases], len(cases))
        assert most_at_once(cases[0].bench.pilots().values()) <= 1
    finally:
        for case in cases:
            case.bench.clean()
    for case in cases:
        case.assert_well()
    struck = [point for case in cases for point in case.struck]
    print(f"struck: {len(struck)} of {sum(map(len, POINTS.values()))}: {struck}")
    assert len(struck) >= STRUCK_LEAST
