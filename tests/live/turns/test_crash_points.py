"""Every point at which turns are given, taken or told, with a SIGKILL of whoever comes to it.

One run writes down the points it comes to. Then each is tried, some that lie apart in one cluster:
whoever comes to it is killed, a scheduler that is gone is started again, and the jobs are driven on
to their ends. So are the points at which two jobs are packed, measured, kept and parted.
"""

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from shunter.backends.node import arm_failpoint
from shunter.daemon import Site
from shunter.events import JOB_ENDS, Outcome, TrialKept, TurnStarted
from shunter.events.log import read_log
from tests.contracts.local_backends import empty
from tests.live.site.daemons import Daemon, together
from tests.live.site.sites import NOBODY, config, events_until, of, verified
from tests.live.turns.ledger import batches_in, beside_in, doubles_in, goes_on, noting
from tests.live.turns.packs import pairs_in, shared_unpacked

pytestmark = [pytest.mark.live, pytest.mark.long]

TOGETHER = 5
ENDS = Counter({Outcome.finished: 2, Outcome.cancelled: 1})
SUPERVISORS = ("attempt told to turn", "attempt noted turn_started", "attempt noted turn_ended")
Drive = Callable[[Site, Path], Awaitable[None]]


@dataclass(frozen=True)
class Kind:
    """Jobs on two GPUs, what is done with them, and the points at which that may end.

    Each entry of `points` is of one cluster, in the order in which a run comes to them. Those of
    `late` are struck from the instant on at which `drive` arms them.
    """

    drive: Drive
    points: tuple[tuple[str, ...], ...]
    policy: dict[str, Any]
    late: tuple[str, ...] = ()


async def drive_sliced(site: Site, root: Path) -> None:
    """Have two jobs share a GPU, give one a priority, end a third, and then the rest."""
    first, alone, second = [await site.submit(noting(root, str(key)), NOBODY) for key in range(3)]
    if alone in site.state.jobs and not site.state.jobs[alone].end_cause:
        await to_thread.run_sync(goes_on, root, first, alone, second)
        await events_until(site, lambda seen: sum(e.can_move for e in of(seen, TurnStarted)) > 2)
        await site.tell(site.commands.set_priority(second, 1, NOBODY))
        await to_thread.run_sync(goes_on, root, first, second)
        await site.tell(site.commands.cancel(alone, NOBODY))
    if not (root / "enough").exists():
        await to_thread.run_sync(goes_on, root, first, second)
        await anyio.sleep(1.0)  # one of them gets the GPU that is free for its own


async def drive_packed(site: Site, root: Path) -> None:
    """Have two of three jobs packed, end the third, and so part them again."""
    names = [await site.submit(noting(root, str(key)), NOBODY) for key in range(3)]
    await events_until(site, lambda seen: bool(of(seen, TrialKept)))
    jobs = [site.state.jobs[name] for name in names if name in site.state.jobs]
    left = [job for job in jobs if not job.end_cause]
    if (marker := root / "struck.0").exists() and not marker.read_text():
        marker.unlink()
    if len(left) == len(names):
        alone = next((job for job in left if not job.packed_with), left[0])
        await site.tell(site.commands.cancel(alone.job_id, NOBODY))
        left.remove(alone)
    await events_until(site, lambda _: not any(j.packed_with for j in site.state.jobs.values()))
    if not (root / "enough").exists():
        await to_thread.run_sync(goes_on, root, *[job.job_id for job in left])


SLICED: dict[str, Any] = {"name": "gandiva", "slicing": {"quantum": 0.3}, "trigger": "event"}
KINDS = {
    "sliced": Kind(
        drive_sliced,
        (
            *((point,) for point in (*SUPERVISORS, "attempt told to slice")),
            *(("append TurnStarted", "to Weigh", "to ReshapeAttempt"), ("append TurnEnded",)),
            *(("durable TurnStarted", "done Weigh", "done ReshapeAttempt"), ("durable TurnEnded",)),
        ),
        SLICED,
    ),
    "packed": Kind(
        drive_packed,
        (
            *((point,) for point in (*SUPERVISORS, "attempt told to slice")),
            ("append TrialStarted", "append TrialKept", "append TrialReverted"),
            ("durable TrialStarted", "durable TrialKept", "durable TrialReverted"),
            *(("to ShareTurns",), ("done ShareTurns",)),
        ),
        {**SLICED, "params": {"gandiva": {"packing": {"probe": 6.0}}}},
        SUPERVISORS,
    ),
}


@dataclass
class Case:
    """A cluster of its own, and the points at which somebody is killed; none: all are noted."""

    kind: Kind
    root: Path
    points: tuple[str, ...]

    def run(self) -> Iterator[Daemon]:
        """Yield one scheduler after another, until one has come to its end."""
        self.root.mkdir()
        if {*self.points} & {*self.kind.late}:
            self._marker(0).touch()
        settings = [f"{point}:{self._marker(place)}" for place, point in enumerate(self.points)]
        yield (daemon := self._started(settings.pop(0) if settings else f":{self.traced}"))
        while daemon.code:
            assert daemon.code == -9, self.points
            yield (daemon := self._started(settings.pop(0) if settings else ""))

    @property
    def traced(self) -> Path:
        return self.root / "points"

    @property
    def missed(self) -> list[str]:
        """The points that nobody came to."""
        markers = [self._marker(place) for place in range(len(self.points))]
        struck = [marker.exists() and bool(marker.read_text()) for marker in markers]
        return [point for point, was in zip(self.points, struck, strict=True) if not was]

    def _marker(self, place: int) -> Path:
        return self.root / f"struck.{place}"

    def _started(self, setting: str) -> Daemon:
        """Start a scheduler under a setting of SHUNTER_CRASH."""
        nodes = {"nodes": [{"name": "n0", "gpus": 2}]}
        loaded = config(self.root, policy=self.kind.policy, cluster=nodes)

        async def deed(site: Site) -> None:
            await self.kind.drive(site, self.root)
            (self.root / "enough").touch()
            count = ENDS.total()
            await events_until(
                site, lambda seen: sum(isinstance(e, JOB_ENDS) for e in seen) == count
            )

        def armed() -> None:
            os.environ["SHUNTER_CRASH"] = setting
            arm_failpoint(setting)

        return Daemon(loaded, deed, armed)

    async def wrongs(self) -> list[str]:
        """Return what went wrong: jobs that are lost, or had a GPU that was another's."""
        verdict = await verified(self.root)
        async with read_log(str(self.root / "log.db")) as reader:
            events = [event async for event in reader.events()]
        ends = Counter(verdict.past.outcome(job) for job in verdict.past.keys.values())
        found = [f"decided again otherwise: {verdict.divergence}"] if verdict.divergence else []
        found += [] if ends == ENDS else [f"jobs ended otherwise: {ends}"]
        found += [f"together unpacked: {each}" for each in shared_unpacked(events)]
        found += [f"double: {line}" for line in doubles_in(self.root, pairs_in(events).keys())]
        return [f"{' then '.join(self.points)}: {each}" for each in found]


@pytest.mark.rotating("name")
@pytest.mark.parametrize("name", KINDS)
def test_every_crash_point_of_turns_is_survived(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    cases = [
        Case(kind, tmp_path / str(number), points)
        for number, points in enumerate(((), *kind.points))
    ]
    try:
        together([case.run() for case in cases], TOGETHER)
    finally:
        for case in cases:
            empty(str(case.root / "attempts"))
    wrongs = [each for case in cases for each in anyio.run(case.wrongs)]
    points = {point for case in cases for point in case.points}
    missed = [point for case in cases for point in case.missed]
    batches = sum(batches_in(case.root).total() for case in cases)
    print(f"crash points of {name} jobs: {len(points)}, not come to: {missed}")
    print(f"mini-batches: {batches}, beside another: {sum(beside_in(case.root) for case in cases)}")
    print(f"wrongs: {len(wrongs)}")
    known = set(cases[0].traced.read_text().splitlines())
    assert points <= known, f"{points - known} are no points any more"
    assert not wrongs
    assert len(missed) <= 2, missed
