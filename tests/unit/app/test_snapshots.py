"""Snapshots as large as the cluster is busy: the jobs that ended are kept once, beside them."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from shunter.app.config.loading import make_config
from shunter.app.replaying.folding import fold_events, fold_log, state_at
from shunter.app.runs.simulation import simulate
from shunter.app.snapshots import snapshot_of_state, state_of
from shunter.core.digest import state_digest
from shunter.core.state import State
from shunter.errors import LogDamagedError
from shunter.events.codec import encode_record
from shunter.events.log import Outcomes, Snapshot, open_log, read_log
from tests.contracts.event_logs import query
from tests.factories import World, policy, run, servers, trace_job

JOBS = tuple(trace_job(number, 1 + number % 3, at=5 * number, lasts=12) for number in range(40))
EVENTS = run(World(servers=servers(3, 2), jobs=JOBS, round_us=5), policy("fifo")).events
EVERY = 20


async def written(path: Path, old: int = 0) -> None:
    """Write a log with snapshots on the way, the first ones as older versions wrote them."""
    state = State()
    async with open_log(str(path), frame_events=None) as log:
        for first in range(0, len(EVENTS), EVERY):
            step = EVENTS[first : first + EVERY]
            log.append(step)
            fold_events(state, step)
            if state.seq <= old:
                full = Snapshot.of(state.seq, state.now_us, encode_record(state), b"[]")
                await log.save_snapshot(full)
            else:
                await log.save_snapshot(*snapshot_of_state(state, b"[]", log.outcomes_kept))


@pytest.mark.parametrize("old", [0, 3 * EVERY])
def test_state_of_every_snapshot_is_that_of_the_events(tmp_path: Path, old: int) -> None:
    async def compare() -> int:
        await written(tmp_path / "log.db", old)
        async with read_log(str(tmp_path / "log.db")) as reader:
            found = await reader.snapshots()
            for snapshot in found:
                state = State()
                fold_events(state, EVENTS[: snapshot.seq])
                restored = await state_of(reader, snapshot)
                assert state_digest(restored) == state_digest(state)
                assert [*restored.ended.items()] == [*state.ended.items()]
            assert (await fold_log(reader)).snapshots == len(found)
            assert (await reader.verify()).snapshots == len(found)
            assert len((await state_at(reader, len(EVENTS))).ended) == len(JOBS)
        return len(found)

    assert asyncio.run(compare()) > 5


def test_outcome_of_a_job_is_kept_once(tmp_path: Path) -> None:
    asyncio.run(written(tmp_path / "log.db"))
    assert query(tmp_path / "log.db", "SELECT sum(count) FROM outcomes") == [(len(JOBS),)]
    states = query(tmp_path / "log.db", "SELECT length(state) FROM snapshots ORDER BY seq")
    assert int(str(states[-1][0])) < int(str(states[len(states) // 2][0]))


def test_outcomes_go_on_where_an_earlier_writer_ended(tmp_path: Path) -> None:
    async def went_on() -> int:
        await written(tmp_path / "log.db")
        async with open_log(str(tmp_path / "log.db"), frame_events=None, resume=True) as log:
            return log.outcomes_kept

    assert asyncio.run(went_on()) == len(JOBS)


def test_outcomes_of_another_story_are_damage() -> None:
    """What is sound by its digest is still held to the events."""

    async def folded() -> None:
        state = State()
        fold_events(state, EVENTS)
        snapshot, ended = snapshot_of_state(state, b"[]", 0)
        pairs = [(job_id, "failed") for job_id, _ in ended.items()]
        async with open_log("memory:") as log:
            log.append(EVENTS)
            await log.save_snapshot(snapshot, Outcomes.of(snapshot.seq, 0, pairs))
        async with read_log(log) as reader:
            await fold_log(reader)

    with pytest.raises(LogDamagedError, match="outcomes of jobs at sequence number"):
        asyncio.run(folded())


def test_missing_outcomes_are_damage(tmp_path: Path) -> None:
    async def read() -> None:
        await written(tmp_path / "log.db")
        query(tmp_path / "log.db", "DELETE FROM outcomes WHERE first = 0")
        async with read_log(str(tmp_path / "log.db")) as reader:
            await state_at(reader, len(EVENTS))

    with pytest.raises(LogDamagedError, match="are not whole"):
        asyncio.run(read())


def test_snapshots_do_not_bloat_a_log(tmp_path: Path) -> None:
    """A log with snapshots all the way is a third larger at most, however many jobs ended."""

    def size(name: str, every: int) -> int:
        path = tmp_path / name
        simulate(
            make_config(
                {
                    "cluster": {"nodes": [{"name": "n", "count": 4, "gpus": 8}]},
                    "workload": {"generate": {"jobs": 6_000, "load": 0.8}},
                    "policy": {"name": "las"},
                    "log": {"url": str(path), "snapshot_every": every},
                }
            )
        )
        connection = sqlite3.connect(path)
        connection.execute("VACUUM")
        connection.close()
        return path.stat().st_size

    assert size("with.db", 1_000) < 1.33 * size("without.db", 0)
