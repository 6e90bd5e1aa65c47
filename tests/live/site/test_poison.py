"""Jobs that say what no scheduler should take: it goes on, says so, and its log stays sound."""

import json
from pathlib import Path

import pytest

from shunter.ask import read_histories
from shunter.daemon import Caller, Site
from shunter.errors import NotFoundError, RefusedError
from shunter.events import (
    AttemptLost,
    AttemptSetAside,
    AttemptStarted,
    CheckpointSaved,
    Event,
    JobHeld,
    JobId,
    MessagesDropped,
)
from shunter.events.log import read_log
from tests.contracts.local_backends import empty
from tests.live.poison import GOOD, WRONG, saying, saying_all
from tests.live.site.sites import (
    NOBODY,
    at_work,
    config,
    events_until,
    machine,
    of,
    outcome,
    program,
    verified,
)
from tests.live.site.test_commands import SLEEPS, runs

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

STRANGER = Caller("somebody", None)


async def dropped(site: Site, job_id: JobId, count: int) -> MessagesDropped:
    """Wait until so many messages of a job were dropped; return the last word on it."""

    def done(seen: list[Event]) -> bool:
        return any(one.count >= count and one.job_id == job_id for one in of(seen, MessagesDropped))

    return of(await events_until(site, done), MessagesDropped)[-1]


@pytest.mark.parametrize("line", WRONG, ids=lambda line: line[:50])
async def test_wrong_message_is_counted_and_everything_goes_on(tmp_path: Path, line: str) -> None:
    async with machine(tmp_path) as site:
        job_id = await site.submit(saying_all(line, GOOD), NOBODY)

        def done(seen: list[Event]) -> bool:
            return bool(of(seen, CheckpointSaved) and of(seen, MessagesDropped))

        seen = await events_until(site, done)
        (note,) = of(seen, MessagesDropped)
        assert (note.job_id, note.count) == (job_id, 1)
        (saved,) = of(seen, CheckpointSaved)
        assert (saved.checkpoint, saved.step, saved.bytes) == ("after it all", 7, 8)
        assert await outcome(site, await site.submit(program("pass"), NOBODY)) == "finished"
    async with read_log(str(tmp_path / "log.db")) as reader:
        await reader.verify(schema=True)
    assert (await verified(tmp_path)).divergence is None


async def test_show_says_how_many_messages_were_dropped_and_why(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        job_id = await site.submit(saying_all(*WRONG), NOBODY)
        await dropped(site, job_id, 10)
        await site.tell(site.commands.suspend(job_id, NOBODY))
        note = await dropped(site, job_id, len(WRONG))
        assert note.count == len(WRONG), "at the end all are told"
    async with read_log(str(tmp_path / "log.db")) as reader:
        life = (await read_histories(reader, [job_id]))[job_id]
    document = life.attempts[0].document(str)
    assert document["messages_dropped"] == len(WRONG)
    assert "bytes" in str(document["dropped_because"])


async def test_flood_of_notes_costs_the_log_little_and_no_other_job(tmp_path: Path) -> None:
    """A thousand checkpoints at once: a hundred are noted, the rest is counted."""
    flood = f"[say({GOOD!r}) for _ in range(1000)]"
    async with machine(tmp_path) as site:
        job_id = await site.submit(saying(flood), NOBODY)
        note = await dropped(site, job_id, 100)
        assert "messages at once" in note.cause
        assert await outcome(site, await site.submit(program("pass"), NOBODY)) == "finished"
        seen = await events_until(site, lambda seen: len(seen) >= site.committed)
        assert len(of(seen, CheckpointSaved)) < 150


async def test_progress_bar_with_a_number_of_a_thousand_digits_is_no_step(tmp_path: Path) -> None:
    bar = f"print('{'9' * 1000}/1 [00:10<00:12, 43.2it/s]', flush=True); import time; time.sleep(3)"
    async with machine(tmp_path, backend={"kind": "local", "local": local(tmp_path)}) as site:
        assert await outcome(site, await site.submit(program(bar), NOBODY)) == "finished"


def local(tmp_path: Path) -> dict[str, object]:
    return {"root": str(tmp_path / "attempts"), "grace": 0.3, "patrol": 0.2, "sample": 0.2}


async def test_records_that_a_job_writes_over_are_no_records(tmp_path: Path) -> None:
    """A job of the daemon's own user can write where its supervisor does."""
    spoils = """
import json, os, sys, time
folder = os.environ["SHUNTER_FOLDER"]
with open(folder + "/journal", "a") as file:
    file.write('{"what": "saved", "step": "x", "at_ns": 1}\\n' + "[" * 5000 + "\\n\\xff\\n")
    file.write('{"what": "escalated", "mode": "sesame", "at_ns": 99999999999999999999999}\\n')
for name in ("sample", "status"):
    os.mkfifo(folder + "/" + name) if name == "sample" else None
os.rename(folder + "/started", folder + "/started.old")
with open(folder + "/started", "w") as file:
    json.dump({"pid": "x", "boot": 7, "ranks": None}, file)
time.sleep(1)
os.rename(folder + "/started.old", folder + "/started")
"""
    async with machine(tmp_path) as site:
        job_id = await site.submit(program(spoils), NOBODY)
        assert await outcome(site, job_id) == "finished"
        assert await outcome(site, await site.submit(program("pass"), NOBODY)) == "finished"
        seen = await events_until(site, lambda seen: len(seen) >= site.committed)
        assert of(seen, MessagesDropped)


async def test_attempt_that_is_set_aside_ends_unread_and_its_job_waits(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        job_id = await runs(site, program(SLEEPS))
        with pytest.raises(RefusedError):
            await site.tell(site.commands.set_aside(job_id, STRANGER))
        with pytest.raises(NotFoundError):
            await site.tell(site.commands.set_aside(JobId("j99"), NOBODY))
        await site.tell(site.commands.set_aside(job_id, NOBODY))
        seen = await events_until(site, lambda seen: bool(of(seen, AttemptLost)))
        assert of(seen, AttemptLost)[0].cause == "set aside"
        assert site.state.jobs[job_id].is_on_hold
        assert site.state.jobs[job_id].since_us is None
        with pytest.raises(RefusedError):
            await site.tell(site.commands.set_aside(job_id, NOBODY))
        await site.tell(site.commands.resume(job_id, NOBODY))
        await events_until(site, lambda seen: len(of(seen, AttemptStarted)) == 2)
    assert (await verified(tmp_path)).divergence is None


async def test_daemon_can_start_with_an_attempt_set_aside(tmp_path: Path) -> None:
    """Whatever the attempt left: nothing of it is read, and it ends."""
    try:
        async with at_work(config(tmp_path)) as site:
            job_id = await runs(site, program(SLEEPS))
        folder = tmp_path / "attempts" / "jobs" / job_id / "1"
        (folder / "journal").write_text(json.dumps({"what": "saved"}) + "\n")
        async with at_work(config(tmp_path), [job_id]) as site:
            seen = await events_until(site, lambda seen: bool(of(seen, AttemptLost)))
            assert [one.attempt for one in of(seen, AttemptSetAside)] == [1]
            assert of(seen, JobHeld)[-1].by == "operator"
            assert not of(seen, CheckpointSaved)
        async with at_work(config(tmp_path)) as site:
            assert site.state.jobs[job_id].is_on_hold
    finally:
        empty(str(tmp_path / "attempts"))
