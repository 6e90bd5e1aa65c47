"""Jobs and hosts that say what nobody should take, over real sshd: the scheduler goes on."""

from collections.abc import Callable
from pathlib import Path

import pytest
from anyio import to_thread

from shunter.backends.node import FILE_BYTES_MOST
from shunter.daemon import Site
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    CheckpointSaved,
    Event,
    JobId,
    JobSuspended,
    MessagesDropped,
    NodeUnreachable,
    Outcome,
)
from shunter.events.log import read_log
from tests.live.poison import GOOD, WRONG, saying, saying_all
from tests.live.site.sites import NOBODY, Seen, at_work, events_until, of, wait_for
from tests.live.ssh.bench import Bench
from tests.live.ssh.site import cluster, worker
from tests.live.ssh.test_site import all_end, working

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

# Writes beside its supervisor, whose user it is here: what one of an earlier version has left.
FILLS_JOURNAL = """
with open(os.environ["SHUNTER_FOLDER"] + "/journal", "a") as journal:
    for number in range(1000):
        journal.write('{"what": "saved", "checkpoint": "%s", "at_ns": 5}' % ("x" * 60000) + "\\n")
"""
SAVES = """
for step in range(60):
    say('{"what": "saved", "checkpoint": "c", "step": %d}' % step)
    time.sleep(0.05)
"""


async def everybody_works(site: Site, bench: Bench) -> None:
    """Run a job on each host."""
    names = [
        await site.submit(worker(bench.folder, f"after-{number}", 0.1), NOBODY)
        for number in range(2)
    ]
    assert await all_end(site, names) == [Outcome.finished] * 2


async def told(root: Path, kind: type[Seen]) -> list[Seen]:
    async with read_log(str(root / "log.db")) as reader:
        await reader.verify(schema=True)
        return [event async for event in reader.events() if isinstance(event, kind)]


async def test_wrong_messages_over_ssh_are_dropped_and_told(bench: Bench) -> None:
    async with working(bench) as site:
        job_id = await site.submit(saying_all(*WRONG, GOOD), NOBODY)
        await events_until(site, lambda seen: bool(of(seen, CheckpointSaved)))
        await everybody_works(site, bench)
        await site.tell(site.commands.suspend(job_id, NOBODY))
        await events_until(site, lambda seen: bool(of(seen, JobSuspended)))
    assert await told(bench.folder, NodeUnreachable) == []
    notes = await told(bench.folder, MessagesDropped)
    assert notes[-1].count == len(WRONG)
    async with working(bench) as site:
        await everybody_works(site, bench)


async def test_journal_of_60_megabytes_is_not_sent_and_the_job_can_leave(bench: Bench) -> None:
    """Old supervisors noted whole lines: a look sent them all, and the host seemed silent."""
    async with working(bench) as site:
        job_id = await site.submit(saying(FILLS_JOURNAL), NOBODY)
        await events_until(site, lambda seen: bool(of(seen, MessagesDropped)))
        await everybody_works(site, bench)
        await site.tell(site.commands.suspend(job_id, NOBODY))
        await events_until(site, lambda seen: bool(of(seen, JobSuspended)))
    assert await told(bench.folder, NodeUnreachable) == []
    most = FILE_BYTES_MOST // 60_000 + 2
    assert len(await told(bench.folder, MessagesDropped)) <= most


async def test_notes_are_facts_once_over_restarts_and_journals_are_trimmed(bench: Bench) -> None:
    loaded = cluster(bench.farm, bench.folder)
    async with at_work(loaded) as site:
        job_id = await site.submit(saying(SAVES), NOBODY)
        await events_until(site, lambda seen: len(of(seen, CheckpointSaved)) >= 5)
    for count in (20, 40, 60):
        async with at_work(loaded) as site:
            await events_until(site, saved(count))
    (journal,) = sorted(bench.folder.glob(f"*/clusters/*/jobs/{job_id}/1/journal"))
    async with at_work(loaded) as site:
        await to_thread.run_sync(wait_for, lambda: '"trimmed": 60' in journal.read_text())
        assert len(journal.read_text().splitlines()) == 1
        await site.tell(site.commands.suspend(job_id, NOBODY))
        await events_until(site, lambda seen: bool(of(seen, JobSuspended)))
        await site.tell(site.commands.cancel(job_id, NOBODY))
    steps = [one.step for one in await told(bench.folder, CheckpointSaved)]
    assert steps == list(range(60))


def saved(count: int) -> Callable[[list[Event]], bool]:
    return lambda seen: len(of(seen, CheckpointSaved)) >= count


async def test_gang_that_is_set_aside_over_ssh_ends_on_all_hosts(bench: Bench) -> None:
    async with working(bench) as site:
        job_id = await site.submit(worker(bench.folder, "gang", 600.0, gpus=2), NOBODY)
        await events_until(site, lambda seen: bool(of(seen, AttemptStarted)))
        await site.tell(site.commands.set_aside(job_id, NOBODY))
        seen = await events_until(site, lambda seen: bool(of(seen, AttemptLost)))
        assert of(seen, AttemptLost)[0].cause == "set aside"
        await everybody_works(site, bench)
        await site.tell(site.commands.cancel(JobId(job_id), NOBODY))
    bench.assert_nothing_twice()
