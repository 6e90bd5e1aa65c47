"""The scheduler killed at the points it comes to, with attempts that are jobs of a real Slurm.

Goal and method are those of the pilots' test beside this one. In this mode what an agent does
elsewhere the scheduler does itself, so it is struck between sbatch and claim, order and look, too.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.live.site.daemons import STRIKES, Daemon, far_apart, together
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.crashes.cases import Case
from tests.live.slurm.jobs import JobBench
from tests.live.slurm.pilots import LIVING

pytestmark = [pytest.mark.live, pytest.mark.slurm, pytest.mark.xdist_group("slurm-jobs")]

NODES = ("n1", "n2", "n3", "n4")
# In the order in which a run comes to them.
POINTS = (
    ("term taken", "asked start", "order SuspendAttempt", "durable JobSuspended"),
    ("backend taken over", "to Launch", "done Launch", "done SuspendAttempt"),
    ("durable AllocationChanged", "supervisors answered", "adopted", "done Terminate"),
    ("append AttemptStarted", "attempts seen", "settled", "durable AttemptEnded"),
)
STRUCK_LEAST = 13
POINTS_LEAST = 40
PARTS = 3  # each within the time that a test may take
TRIES = 2


def strike(slurm: SlurmBench, folder: Path, groups: Sequence[Sequence[str]]) -> list[Case]:
    """Strike a cluster of its own at each group of points, and hold that all came well."""
    cases = [
        Case(JobBench(slurm, folder / f"case{number}"), NODES[number % 4], points, "per-job")
        for number, points in enumerate(groups)
    ]

    def on_node(first: int) -> Iterator[Daemon]:
        for case in cases[first :: len(NODES)]:
            yield from case.run()

    try:
        together([on_node(first) for first in range(min(len(NODES), len(cases)))], len(NODES))
    finally:
        for case in cases:
            if case.bench.folder.exists():
                case.bench.clean()
        slurm.wait_for(lambda: not cases[0].bench.pilots(*LIVING), "the end of all Slurm jobs")
    for case in cases:
        case.assert_well()
    return cases


def struck_in(cases: Sequence[Case]) -> list[str]:
    return [point for case in cases for point in case.struck]


@pytest.mark.rotating(among="crash points in Slurm")
def test_scheduler_killed_anywhere_leaves_batch_jobs_in_order(
    slurm: SlurmBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    struck = struck_in(strike(slurm, tmp_path, POINTS))
    print(f"struck: {len(struck)} of {sum(map(len, POINTS))}: {struck}")
    assert len(struck) >= STRUCK_LEAST


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(PARTS))
def test_scheduler_killed_at_every_point_leaves_batch_jobs_in_order(
    part: int, slurm: SlurmBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run writes down all the points it comes to; what is missed is tried again, alone.

    Whether a run comes to a point may hang on who is quicker, and on an earlier strike.
    """
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    undisturbed = Case(JobBench(slurm, tmp_path / "undisturbed"), "n1", (), "per-job")
    undisturbed.bench.folder.mkdir()
    traced = tmp_path / "points"
    assert undisturbed.start(f":{traced}").wait() == 0
    undisturbed.bench.clean()
    every = list(dict.fromkeys(traced.read_text().splitlines()))
    assert len(every) >= POINTS_LEAST
    groups = far_apart(every, STRIKES)[part::PARTS]
    points = [point for group in groups for point in group]
    struck = struck_in(strike(slurm, tmp_path / "all", groups))
    for turn in range(TRIES):
        missed = [point for point in points if point not in struck]
        if missed:
            struck += struck_in(strike(slurm, tmp_path / f"again{turn}", [(p,) for p in missed]))
    missed = [point for point in points if point not in struck]
    print(f"struck: {len(struck)} of {len(points)}; missed: {missed}")
    assert missed == []
