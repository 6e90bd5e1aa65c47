"""What jobs warn their owners of, and what becomes of those that end with 0 when asked to leave."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shunter.ask import read_histories
from shunter.daemon import Site
from shunter.events import Event, JobFinished, JobSuspended, JobWarned, SuspendMode
from shunter.events.log import read_log
from tests.contracts.local_backends import empty
from tests.live.poison import saying_all
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

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

WARNED = '{"what": "warned", "text": "the order\\u001b[2J is drawn again", "step": 7}'
OTHER = '{"what": "warned", "text": "another thing"}'
SAYS = """
import json, os, signal, sys, time
def say(what, **said):
    with open(os.environ["SHUNTER_CHANNEL"], "w") as channel:
        channel.write(json.dumps({"what": what, **said}) + "\\n")
def progress(state):
    say("progress", rank=0, step=7, state=state)
def wait_for_the_file():
    while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
        time.sleep(0.01)
def leave_on(number, *_):
    sys.exit(0)
"""


async def test_warnings_are_in_the_log_once_and_outlive_the_daemon(tmp_path: Path) -> None:
    """The next one reads the journal again, and has each warning once."""
    try:
        async with at_work(config(tmp_path)) as site:
            said = saying_all(WARNED, WARNED, OTHER, WARNED)
            job_id = await site.submit(said, NOBODY)
            await events_until(site, lambda seen: len(of(seen, JobWarned)) == 2)
        async with at_work(config(tmp_path)) as site:
            await site.tell(site.commands.suspend(job_id, NOBODY))
            seen = await events_until(site, lambda seen: bool(of(seen, JobSuspended)))
            told = [(one.text, one.step, one.attempt) for one in of(seen, JobWarned)]
            assert told == [("the order [2J is drawn again", 7, 1), ("another thing", None, 1)]
    finally:
        empty(str(tmp_path / "attempts"))
    async with read_log(str(tmp_path / "log.db")) as reader:
        await reader.verify(schema=True)
        history = (await read_histories(reader, [job_id]))[job_id]
    assert [(one["text"], one["step"]) for one in history.warned(str)] == [
        ("the order [2J is drawn again", 7),
        ("another thing", None),
    ]
    assert (await verified(tmp_path)).divergence is None


async def test_flood_of_warnings_costs_the_log_little(tmp_path: Path) -> None:
    lines = [json.dumps({"what": "warned", "text": f"number {each}"}) for each in range(500)]
    async with machine(tmp_path) as site:
        job_id = await site.submit(saying_all(*lines), NOBODY)
        await site.tell(site.commands.suspend(job_id, NOBODY))
        seen = await events_until(site, lambda seen: bool(of(seen, JobSuspended)))
        assert 0 < len(of(seen, JobWarned)) <= 32


class Case(NamedTuple):
    """A job that ends with 0, and what follows."""

    text: str
    mode: SuspendMode
    what: type[JobFinished | JobSuspended]
    warning: str
    suspend_signal: str = "SIGUSR1"


FINISHED, GOES_ON = JobFinished, JobSuspended
COOPERATIVE, SIGNAL, RESTART = SuspendMode.cooperative, SuspendMode.signal, SuspendMode.restart
TRAINS, SAVED = "progress('training'); ", "say('saved', step=1); "
CASES = {
    "it had not yet seen the file": Case(
        TRAINS + "wait_for_the_file()", COOPERATIVE, FINISHED, "counts as finished"
    ),
    "it had seen the file": Case(
        TRAINS + "wait_for_the_file(); say('acknowledged', step=7)",
        COOPERATIVE,
        GOES_ON,
        "not saved",
    ),
    "its 75 is hidden": Case(
        TRAINS + "wait_for_the_file(); say('acknowledged'); say('saved', checkpoint='c', step=7)",
        COOPERATIVE,
        GOES_ON,
        "where 75 was expected",
    ),
    "its loop had ended": Case(
        TRAINS + "progress('completed'); wait_for_the_file()", COOPERATIVE, FINISHED, ""
    ),
    "a handler of its own, without the SDK": Case(
        "signal.signal(signal.SIGUSR1, leave_on); " + SAVED + "time.sleep(60)",
        SIGNAL,
        FINISHED,
        "counts as finished",
    ),
    "a handler of its own, with the SDK": Case(
        f"signal.signal(signal.SIGUSR1, leave_on); {TRAINS}time.sleep(60)",
        SIGNAL,
        GOES_ON,
        "not saved",
    ),
    "SIGTERM, without the SDK": Case(
        "signal.signal(signal.SIGTERM, leave_on); " + SAVED + "time.sleep(60)",
        SIGNAL,
        GOES_ON,
        "SIGTERM",
        "SIGTERM",
    ),
    "SIGTERM by restart": Case(
        f"signal.signal(signal.SIGTERM, leave_on); {TRAINS}time.sleep(60)", RESTART, GOES_ON, ""
    ),
    "SIGTERM by restart when all was done": Case(
        f"signal.signal(signal.SIGTERM, leave_on); progress('done'); {SAVED}time.sleep(60)",
        RESTART,
        FINISHED,
        "",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_status_of_0_when_asked_to_leave_is_not_believed_blindly(
    tmp_path: Path, case: Case
) -> None:
    local = {"suspend_signal": case.suspend_signal, "restart": 10.0}
    first = "if 'SHUNTER_RESUME' in os.environ: sys.exit(0)\n"
    async with machine(tmp_path, backend=backend(tmp_path, **local)) as site:
        job = program(SAYS + first + case.text, suspend_mode=case.mode)
        job_id = await site.submit(job, NOBODY)
        await speaks(site)
        await site.tell(site.commands.suspend(job_id, NOBODY))
        seen = await events_until(
            site, lambda seen: bool(of(seen, JobSuspended) or of(seen, JobFinished))
        )
        assert type(seen[-1]) is case.what
        warnings = [one.text for one in of(seen, JobWarned)]
        assert len(warnings) == bool(case.warning)
        assert all(case.warning in one for one in warnings)
        if isinstance(seen[-1], JobSuspended):
            assert seen[-1].exit_code == (0 if case.warning else None)
            await site.tell(site.commands.resume(job_id, NOBODY))
        assert await outcome(site, job_id) == "finished"
    stderr = (tmp_path / "attempts" / "jobs" / job_id / "1" / "stderr.0").read_text()
    assert ("shunter: warning: it ended" in stderr or "it saved" in stderr) == bool(case.warning)
    assert (await verified(tmp_path)).divergence is None


async def speaks(site: Site) -> None:
    """Wait until a job has said something."""

    def done(seen: list[Event]) -> bool:
        return any(type(one).__name__ in ("CheckpointSaved", "TrainingStarted") for one in seen)

    await events_until(site, done)


def backend(tmp_path: Path, **local: Any) -> dict[str, Any]:
    settings = {"root": str(tmp_path / "attempts"), "grace": 0.3, "patrol": 0.2, **local}
    return {"kind": "local", "local": settings}
