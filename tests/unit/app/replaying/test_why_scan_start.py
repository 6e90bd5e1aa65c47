"""Stories read from a snapshot on: the same as those read from the beginning of the log."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shunter.ask import fold_events
from shunter.ask.why import document, explain
from shunter.core import ResizeJob, State
from shunter.core.speeds import SpeedModel
from shunter.errors import NotFoundError
from shunter.events import Event, encode_record
from shunter.events.log import Frame, LogReader, Snapshot, open_log, read_log
from tests.commanded import Commanded
from tests.factories import (
    World,
    configuration,
    node_name,
    policy,
    quota,
    run,
    scheduler_started,
    servers,
    trace_job,
)
from tests.replay.recording import rebuilt

JOBS = tuple(
    trace_job(number, 1 + number % 4, at=7 * number, lasts=20 + 9 * (number % 3), queue=queue)
    for number in range(24)
    for queue in [("a", "b")[number % 2]]
)
WORLD = World(servers=servers(4, 2), jobs=JOBS, queues=(quota("a", 3),), round_us=5)
EVERY = 9


ELASTIC = replace(
    WORLD,
    jobs=tuple(replace(job, spec=replace(job.spec, gpus_min=1, gpus_max=5)) for job in JOBS),
    speeds=SpeedModel({node_name(0): configuration(4), node_name(1): configuration(2)}),
)
RESIZES = [
    ResizeJob(job.submit_us + 4, job.job_id, 1 + number % 5, "ana")
    for number, job in enumerate(JOBS)
]


def two_terms(world: World = WORLD, orders: Sequence[ResizeJob] = ()) -> list[Event]:
    """Return the events of a run in whose middle another scheduler begins."""
    events = run(world, policy("las"), wrapped=lambda backend: Commanded(backend, orders)).events
    half = len(events) // 2
    at_us = events[half - 1].at_us
    return [*events[:half], scheduler_started(2, at_us, "las"), *events[half:]]


async def written(path: Path, events: Sequence[Event], every: int | None) -> None:
    """Write a live log in two terms, with snapshots between steps."""
    second = next(
        n
        for n, event in enumerate(events)
        if n and event == scheduler_started(2, event.at_us, "las")
    )
    state = State()
    for part in (events[:second], events[second:]):
        async with open_log(str(path), frame_events=None, resume=True) as log:
            for first in range(0, len(part), 4):
                step = part[first : first + 4]
                log.append(step)
                await log.commit()
                fold_events(state, step)
                if every is not None and state.seq % every < len(step):
                    taken = Snapshot.of(state.seq, state.now_us, encode_record(state), b"")
                    await log.save_snapshot(taken)


async def told(reader: LogReader, seq: int, at_us: int) -> list[object]:
    """Return what is told of each job at a point of the log."""
    rebuild = rebuilt(policy("las"), WORLD.rules(instant=True))
    found: list[object] = []
    for job in JOBS:
        try:
            said = document(await explain(reader, job.job_id, seq, at_us, rebuild))
        except NotFoundError as error:
            found.append(str(error).partition(" in ")[0])
        else:
            del said["log"]
            found.append(said)
    return found


@pytest.mark.parametrize(("world", "orders"), [(WORLD, []), (ELASTIC, RESIZES)])
def test_what_is_told_does_not_depend_on_snapshots(
    tmp_path: Path, world: World, orders: list[ResizeJob]
) -> None:
    events = two_terms(world, orders)

    async def compare() -> None:
        await written(tmp_path / "plain.db", events, None)
        await written(tmp_path / "snapshots.db", events, EVERY)
        async with (
            read_log(str(tmp_path / "plain.db")) as plain,
            read_log(str(tmp_path / "snapshots.db")) as quick,
        ):
            for seq in (len(events) // 3, len(events) * 2 // 3, len(events)):
                at_us = events[seq - 1].at_us
                assert await told(quick, seq, at_us) == await told(plain, seq, at_us)

    asyncio.run(compare())


class Counted:
    """How much of a log is parsed: events and snapshots, not where bytes are looked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events = self.snapshots = 0
        rows, rows_with = Frame.rows, Frame.rows_with
        events, snapshot_at = Frame.events, LogReader.snapshot_at

        def counted_rows(frame: Frame) -> list[list[Any]]:
            self.events += frame.count
            return rows(frame)

        def counted_events(frame: Frame, after: int = 0, to: int | None = None) -> Sequence[Event]:
            self.events += frame.count
            return events(frame, after, to)

        async def counted_snapshot_at(reader: LogReader, seq: int) -> Snapshot | None:
            self.snapshots += 1
            return await snapshot_at(reader, seq)

        def counted_rows_with(
            frame: Frame,
            kinds: Collection[bytes] = (),
            words: Collection[bytes] = (),
            mark: bytes = b"",
        ) -> Iterator[tuple[int, list[Any]]]:
            for found in rows_with(frame, kinds, words, mark):
                self.events += 1
                yield found

        monkeypatch.setattr(Frame, "rows", counted_rows)
        monkeypatch.setattr(Frame, "rows_with", counted_rows_with)
        monkeypatch.setattr(Frame, "events", counted_events)
        monkeypatch.setattr(LogReader, "snapshot_at", counted_snapshot_at)

    def taken(self) -> tuple[int, int]:
        """Return what was counted since the last time."""
        found = self.events, self.snapshots
        self.events = self.snapshots = 0
        return found


@pytest.mark.parametrize("waits_in_all", [False, True])
def test_snapshots_are_never_a_burden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits_in_all: bool
) -> None:
    """Goal: with snapshots less is parsed, also where somebody of the job's class always waits."""
    jobs = tuple(
        trace_job(number, 2 if waits_in_all else 1 + number % 4, at=9 * number, lasts=40)
        for number in range(60)
    )
    events = run(replace(WORLD, jobs=jobs), policy("las")).events
    events[len(events) // 2 : len(events) // 2] = [
        scheduler_started(2, events[len(events) // 2 - 1].at_us, "las")
    ]
    rebuild = rebuilt(policy("las"), WORLD.rules(instant=True))

    async def compare() -> None:
        await written(tmp_path / "plain.db", events, None)
        await written(tmp_path / "snapshots.db", events, EVERY)
        counted, sums = Counted(monkeypatch), [0, 0]
        for job in jobs[::3]:
            for place, name in enumerate(("plain.db", "snapshots.db")):
                async with read_log(str(tmp_path / name)) as reader:
                    await explain(reader, job.job_id, len(events), events[-1].at_us, rebuild)
                parsed, snapshots = counted.taken()
                assert snapshots <= 2
                sums[place] += parsed
        assert sums[1] < 0.6 * sums[0]

    asyncio.run(compare())
