"""What a live cluster says of jobs that have ended: the same before and after whatever happens."""

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from shunter.daemon import Site, Submission
from shunter.errors import ConflictError, NotFoundError, RefusedError
from shunter.events import Dependency, DependsWhen, JobId, JobSpec, JobSubmitted, number_of
from shunter.events.log import PastUpto, open_log, read_log, reindex_log
from tests.contracts.event_logs import query
from tests.live.site.sites import NOBODY, machine, of, outcome, verified

pytestmark = [pytest.mark.live, pytest.mark.asyncio]

OLD_LOG = Path(__file__).parents[2] / "replay" / "golden" / "before-past-jobs.sql"
SNAPSHOTS = {"log": {"snapshot_every": 10, "seal_after": 20}}
J1, J2 = JobId("j1"), JobId("j2")
PAST = "SELECT seq, job_id, outcome FROM past_jobs ORDER BY seq"
KEYS = "SELECT seq, key, job_id FROM past_keys ORDER BY seq"
UPTO = "SELECT seq, last_number FROM past_upto"
BEHIND = """
DELETE FROM past_jobs WHERE seq > 20; DELETE FROM past_keys WHERE seq > 20;
UPDATE past_upto SET seq = 20, last_number = 2, digest = '{digest}';
"""


def run(command: str, key: str = "", *after: Dependency) -> Submission:
    return Submission(JobSpec(command=(command,), depends_on=after), key=key)


async def filled(root: Path) -> None:
    """Let j1 finish and j2 fail, under keys, and some more come and go."""
    async with machine(root, **SNAPSHOTS) as site:
        for request in (run("true", "alpha"), run("false", "beta"), *[run("true")] * 4):
            await outcome(site, await site.submit(request, NOBODY))


async def of_old_version(root: Path) -> None:
    """Put the log of an older version there, in which j1 finished under a key, and j2 failed."""
    connection = sqlite3.connect(root / "log.db")
    connection.executescript(OLD_LOG.read_text(encoding="utf-8"))
    connection.close()


async def answers(site: Site) -> None:
    """Ask of jobs that ended long ago what can be asked."""
    used = {each.job_id for each in site.past.ended_before(site.state.seq + 1, 1_000)}
    assert len(used) == site.state.submitted, "all jobs have ended, and each is known"
    assert (str(site.past.outcome(J1)), str(site.past.outcome(J2))) == ("finished", "failed")
    assert await site.submit(run("true", "alpha"), NOBODY) == J1
    with pytest.raises(ConflictError, match="the key 'alpha' was used for job j1"):
        await site.submit(run("false", "alpha"), NOBODY)
    with pytest.raises(NotFoundError, match="there is no job j99 to wait for"):
        await site.submit(run("true", "", Dependency(JobId("j99"))), NOBODY)
    with pytest.raises(RefusedError, match="job j2 has ended already: failed"):
        await site.tell(site.commands.cancel(J2, NOBODY))
    ends = {
        "finished": [Dependency(J1), Dependency(J2, DependsWhen.any)],
        "cancelled": [Dependency(J1), Dependency(J2)],
    }
    for expected, needs in ends.items():
        job_id = await site.submit(run("true", "", *needs), NOBODY)
        assert number_of(job_id) > max(map(number_of, used)), "an id was used twice"
        assert await outcome(site, job_id) == expected


def forget(root: Path) -> None:
    """Take all that is derived away."""
    connection = sqlite3.connect(root / "log.db")
    connection.executescript("DELETE FROM past_jobs; DELETE FROM past_keys; DELETE FROM past_upto")
    connection.close()


def fall_behind(root: Path) -> None:
    """Leave the tables as they were some events ago."""
    connection = sqlite3.connect(root / "log.db")
    connection.executescript(BEHIND.format(digest=PastUpto(20, 2).digest))
    connection.close()


def damage_note(root: Path) -> None:
    """Have the tables say that they are complete, by a row that is not what was written."""
    fall_behind(root)
    query(root / "log.db", "UPDATE past_upto SET seq = 10000")


def change_nothing(root: Path) -> None:
    assert (root / "log.db").exists()


@pytest.mark.parametrize(
    ("made", "harm"),
    [
        *((of_old_version, harm) for harm in (change_nothing, forget, fall_behind, damage_note)),
        *((filled, harm) for harm in (change_nothing, damage_note)),
        *(
            pytest.param(filled, harm, marks=pytest.mark.thorough)
            for harm in (forget, fall_behind)  # as of an older log
        ),
    ],
)
async def test_past_jobs_are_known_after_a_restart(
    tmp_path: Path, made: Callable[[Path], Awaitable[None]], harm: Callable[[Path], None]
) -> None:
    await made(tmp_path)
    if made is filled:
        harm(tmp_path)
    for _ in range(2):
        async with machine(tmp_path, **SNAPSHOTS) as site:
            await answers(site)
        if made is of_old_version:
            harm(tmp_path)
    verdict = await verified(tmp_path)
    assert verdict.divergence is None
    async with open_log(str(tmp_path / "log.db"), frame_events=None, resume=True):
        pass  # which heals the tables
    stored = {str(job): str(ended) for _, job, ended in query(tmp_path / "log.db", PAST)}
    assert stored == verdict.past.outcomes
    async with read_log(str(tmp_path / "log.db")) as reader:
        await reader.verify(schema=True)


async def test_submission_records_how_its_dependencies_had_ended(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with machine(tmp_path) as site:
        holder = await site.submit(Submission(JobSpec(command=("sleep", "600"), gpus=4)), NOBODY)
        needs = (Dependency(J1), Dependency(holder), Dependency(J2, DependsWhen.any))
        await site.submit(run("true", "", *needs), NOBODY)
        async with read_log(str(tmp_path / "log.db")) as reader:
            events = [event async for event in reader.events()]
        await site.tell(site.commands.cancel(holder, NOBODY))
    submitted = of(events, JobSubmitted)
    assert submitted[-1].ended == ((J1, "finished"), (J2, "failed"))
    assert {event.ended for event in submitted[:-1]} == {()}


async def test_reindexing_makes_the_same_tables(tmp_path: Path) -> None:
    await filled(tmp_path)
    path = tmp_path / "log.db"
    before = [query(path, sql) for sql in (PAST, KEYS)]
    assert [len(rows) for rows in before] == [6, 2]
    damage_note(tmp_path)
    await reindex_log(str(path))
    assert [query(path, sql) for sql in (PAST, KEYS)] == before
    async with read_log(str(path)) as reader:
        head = await reader.head()
        await reader.verify()
    assert query(path, UPTO) == [(head.seq, 6)]


async def test_history_is_read_page_by_page(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with machine(tmp_path) as site:
        pages, before = [], site.state.seq + 1
        while page := site.past.ended_before(before, 4):
            pages.append([str(each.job_id) for each in page])
            before = page[-1].seq
        assert pages == [["j6", "j5", "j4", "j3"], ["j2", "j1"]]
        assert sum(site.state.outcomes.values()) == 6
        assert site.past.job_of("nobody/alpha") is None, "users do not share keys"
