"""Snapshots as large as the cluster is busy, and those of older versions, which were larger."""

import asyncio
import sqlite3
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import orjson
import pytest

from shunter.ask import fold_events, fold_log, state_at, verify_log
from shunter.config import make_config
from shunter.core import State, state_digest
from shunter.errors import IllegalEventError, LogDamagedError
from shunter.events import Dependency, JobId, JobSubmitted, Outcome
from shunter.events.log import open_log, pack_bytes, read_log
from shunter.run import past_of, rebuild, simulate, snapshot_of_state, state_of
from tests.contracts.event_logs import query
from tests.factories import World, job_id, policy, run, servers, trace_job

JOBS = tuple(trace_job(number, 1 + number % 3, at=5 * number, lasts=12) for number in range(40))
EVENTS = run(World(servers=servers(3, 2), jobs=JOBS, round_us=5), policy("fifo")).events
EVERY = 20
OLD_LOG = Path(__file__).parents[2] / "replay" / "golden" / "before-past-jobs.sql"
NEWEST_AWAY = """
DELETE FROM snapshots WHERE seq = (SELECT max(seq) FROM snapshots WHERE seq <= ?)
"""
OLD_ENDS = {
    "j1": "finished",
    "j2": "failed",
    "j3": "finished",
    "j4": "cancelled",
    **dict.fromkeys(("j5", "j6", "j7", "j8"), "finished"),
    **dict.fromkeys(("j9", "j10", "j11"), "failed"),
}


async def written(path: Path) -> None:
    """Write a log with snapshots on the way."""
    state = State()
    async with open_log(str(path), frame_events=None) as log:
        for first in range(0, len(EVENTS), EVERY):
            step = EVENTS[first : first + EVERY]
            log.append(step)
            fold_events(state, step)
            await log.save_snapshot(snapshot_of_state(state, b"[]"))


@pytest.fixture
def old_log(tmp_path: Path) -> Path:
    """A live log of two terms, written by the version before: its state had all that ended."""
    path = tmp_path / "log.db"
    connection = sqlite3.connect(path)
    connection.executescript(OLD_LOG.read_text(encoding="utf-8"))
    connection.close()
    return path


def test_state_of_every_snapshot_is_that_of_the_events(tmp_path: Path) -> None:
    async def compare() -> int:
        await written(tmp_path / "log.db")
        async with read_log(str(tmp_path / "log.db")) as reader:
            found = await reader.snapshots()
            for snapshot in found:
                state = State()
                fold_events(state, EVENTS[: snapshot.seq])
                assert state_digest(await state_of(reader, snapshot)) == state_digest(state)
                assert await past_of(reader, snapshot) is None
            assert (await fold_log(reader)).snapshots == len(found)
            assert (await reader.verify()).snapshots == len(found)
            last = await state_at(reader, len(EVENTS))
            assert sum(last.outcomes.values()) == len(JOBS)
        return len(found)

    assert asyncio.run(compare()) > 5


def test_snapshot_does_not_grow_with_the_jobs_that_ended(tmp_path: Path) -> None:
    asyncio.run(written(tmp_path / "log.db"))
    states = query(tmp_path / "log.db", "SELECT length(state) FROM snapshots ORDER BY seq")
    assert int(str(states[-1][0])) < int(str(states[len(states) // 2][0]))
    assert query(tmp_path / "log.db", "SELECT count(*) FROM outcomes") == [(0,)]


def test_old_snapshots_hold_what_the_events_lead_to(old_log: Path) -> None:
    async def compare() -> list[int]:
        async with read_log(str(old_log)) as reader:
            folded = await fold_log(reader)
            assert {**folded.past.outcomes} == OLD_ENDS
            assert folded.past.keys == {"/alpha": "j1", "/beta": "j6"}
            for snapshot in await reader.snapshots():
                assert snapshot.has_past
                upto = await fold_log(reader, snapshot.seq)
                restored, past = await state_of(reader, snapshot), await past_of(reader, snapshot)
                assert state_digest(restored) == state_digest(upto.state)
                assert past is not None
                assert [*past.outcomes.items()] == [*upto.past.outcomes.items()]
                assert past.keys == upto.past.keys
            report = await reader.verify(schema=True)
        return [folded.snapshots, report.snapshots]

    assert asyncio.run(compare()) == [4, 4]


def test_oldest_snapshots_whose_state_names_the_jobs_are_read_too(old_log: Path) -> None:
    """As the first version kept them: no tables for it, and the digest before it had a form."""
    seqs = [int(str(seq)) for (seq,) in query(old_log, "SELECT seq FROM snapshots ORDER BY seq")]

    async def oldest(seq: int) -> tuple[bytes, bytes, str]:
        async with read_log(str(old_log)) as reader:
            snapshot = await reader.snapshot_at(seq)
            assert snapshot is not None
            row = orjson.loads(snapshot.state)
            ends = await reader.outcomes(snapshot.ended or 0)
        row.insert(10, [pair for each in ends for pair in each.items()])
        state = orjson.dumps(row)
        place = orjson.dumps([snapshot.seq, snapshot.at_us, None, len(state)])
        digest = blake2b(place + state + snapshot.memory, digest_size=32).hexdigest()
        return pack_bytes(state), pack_bytes(snapshot.memory), f"2:{digest}"

    made = [(*asyncio.run(oldest(seq)), seq) for seq in seqs]
    connection = sqlite3.connect(old_log)
    with connection:
        connection.executemany(
            "UPDATE snapshots SET state = ?, memory = ?, digest = ? WHERE seq = ?", made
        )
        connection.execute("DELETE FROM outcomes")
    connection.close()
    test_old_snapshots_hold_what_the_events_lead_to(old_log)


def test_old_log_verifies_and_its_past_is_the_same_from_any_snapshot(old_log: Path) -> None:
    async def verified() -> tuple[object, list[str]]:
        async with read_log(str(old_log)) as reader:
            verdict = await verify_log(reader, rebuild)
            head = await reader.head()
            states = [state_digest(await state_at(reader, head.seq)), state_digest(verdict.state)]
        return verdict.divergence, states

    divergence, states = asyncio.run(verified())
    assert divergence is None
    assert states[0] == states[1]


@pytest.mark.parametrize("seq", [12, 24, 40, 55, 60, 79])
def test_submissions_of_an_old_log_are_completed_wherever_reading_begins(
    old_log: Path, seq: int
) -> None:
    """Method: snapshots are taken away, so that the same point is reached from another one."""

    async def digests() -> set[str]:
        found = set()
        for _ in range(5):
            async with read_log(str(old_log)) as reader:
                found.add(state_digest(await state_at(reader, seq)))
            connection = sqlite3.connect(old_log)
            with connection:
                connection.execute(NEWEST_AWAY, [seq])
            connection.close()
        return found

    assert len(asyncio.run(digests())) == 1


def test_outcomes_of_another_story_are_damage(old_log: Path) -> None:
    """What is sound by its digest is still held to the events."""
    pairs = orjson.dumps([["j1", "failed"], ["j2", "failed"]])
    digest = blake2b(orjson.dumps([16, 0, 2]) + pairs, digest_size=32).hexdigest()
    connection = sqlite3.connect(old_log)
    with connection:
        connection.execute(
            "UPDATE outcomes SET pairs = ?, digest = ? WHERE first = 0", (pack_bytes(pairs), digest)
        )
    connection.close()

    async def folded() -> None:
        async with read_log(str(old_log)) as reader:
            await fold_log(reader)

    with pytest.raises(LogDamagedError, match="outcomes of jobs at sequence number 16"):
        asyncio.run(folded())


def test_missing_outcomes_are_damage(old_log: Path) -> None:
    async def read() -> None:
        query(old_log, "DELETE FROM outcomes WHERE first = 0")
        async with read_log(str(old_log)) as reader:
            await state_at(reader, 79)

    with pytest.raises(LogDamagedError, match="are not whole"):
        asyncio.run(read())


@pytest.mark.parametrize(
    ("name", "ended", "what"),
    [
        (JOBS[0].job_id, (), "job j0 was submitted twice"),
        (job_id(99), ((JOBS[0].job_id, Outcome.failed),), "by the log j0 has finished"),
    ],
)
def test_submission_that_the_log_contradicts_is_found(
    name: JobId, ended: tuple[tuple[JobId, Outcome], ...], what: str
) -> None:
    """A fold asks nobody, so that of a whole log holds submissions to what came before them."""
    last = next(event for event in reversed(EVENTS) if isinstance(event, JobSubmitted))
    spec = replace(last.spec, depends_on=(Dependency(JOBS[0].job_id),))
    strange = JobSubmitted(last.at_us, name, spec, ended=ended)

    async def fold() -> None:
        async with open_log("memory:") as log:
            log.append([*EVENTS[: EVENTS.index(last)], strange])
        async with read_log(log) as reader:
            await fold_log(reader)

    with pytest.raises(IllegalEventError, match=what):
        asyncio.run(fold())


def test_snapshots_do_not_bloat_a_log(tmp_path: Path) -> None:
    """A log with snapshots all the way is a third larger at most, however many jobs ended."""

    def size(name: str, every: int) -> int:
        path = tmp_path / name
        simulate(
            make_config(
                {
                    "cluster": {"nodes": [{"name": "n", "count": 4, "gpus": 8}]},
                    "workload": {"generate": {"jobs": 2_000, "load": 0.8}},
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


@pytest.mark.parametrize("is_changed", [False, True], ids=["older", "changed"])
def test_snapshot_that_does_not_know_for_whom_jobs_left_is_of_an_older_version(
    is_changed: bool, tmp_path: Path
) -> None:
    """Seen with a log of commit 7db48e7c under `tiresias`, which no longer verified."""
    jobs = tuple(trace_job(number, 2, at=5 * number, lasts=90 - 20 * number) for number in range(4))
    events = run(World(servers=servers(1, 2), jobs=jobs, round_us=5), policy("srtf")).events
    state = State()
    for count in range(1, len(events)):
        fold_events(state, events[count - 1 : count])
        if any(job.left_for for job in state.jobs.values()):
            break
    assert any(job.left_for for job in state.jobs.values())
    for job in state.jobs.values():
        job.left_for = None
        job.moves += is_changed

    async def folded() -> int:
        path = str(tmp_path / "log.db")
        async with open_log(path, frame_events=None) as log:
            log.append(events[:count])
            await log.save_snapshot(snapshot_of_state(state, b"[]"))
        async with read_log(path) as reader:
            return (await fold_log(reader)).snapshots

    if is_changed:
        with pytest.raises(LogDamagedError, match="is not the state that the events"):
            asyncio.run(folded())
    else:
        assert asyncio.run(folded()) == 1
