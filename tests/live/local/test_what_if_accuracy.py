"""What-if of the same policy against what happened on this machine (tests/live/what_if.py)."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from shunter.ask.forks import Scenario, run_scenario
from shunter.events import AttemptStarted, Event, JobFinished, JobId, JobSuspended, TurnEnded
from tests.live.site.sites import NOBODY, events_until, machine, of, program
from tests.live.what_if import GANDIVA, LAS, assert_close, run_jobs

pytestmark = pytest.mark.live


async def ran(root: Path, policy: dict[str, Any]) -> list[Event]:
    local = {"root": str(root / "attempts"), "grace": 0.3, "patrol": 0.2, "sample": 1}
    async with machine(root, policy=policy, backend={"local": local}) as site:
        return await run_jobs(site)


@pytest.mark.long
@pytest.mark.rotating("policy", "leaves", among="what-if of the same policy")
@pytest.mark.parametrize(
    ("policy", "leaves"),
    [
        (LAS, JobSuspended),
        (GANDIVA, TurnEnded),
    ],
    ids=["las", "gandiva"],
)
def test_same_policy_is_within_five_percent_of_what_happened(
    policy: dict[str, Any], leaves: type[Event], tmp_path: Path
) -> None:
    events = anyio.run(ran, tmp_path, policy)
    assert_close(tmp_path / "log.db", events, leaves)


async def left_open(root: Path) -> set[JobId]:
    """Let five jobs of half a second end, and leave two that sleep; return these."""
    local = {"root": str(root / "attempts"), "grace": 0.3, "patrol": 0.2}
    async with machine(root, policy={"name": "fifo"}, backend={"local": local}) as site:
        for _ in range(5):
            await site.submit(program("import time; time.sleep(0.5)", gpus=1), NOBODY)
        await events_until(site, lambda seen: len(of(seen, JobFinished)) == 5)
        slow = [program("import time; time.sleep(60)", gpus=1) for _ in range(2)]
        names = {await site.submit(each, NOBODY) for each in slow}
        await events_until(site, lambda seen: {e.job_id for e in of(seen, AttemptStarted)} >= names)
        return names


def test_what_goes_on_at_the_end_of_a_log_is_drawn_from_who_ended_before(tmp_path: Path) -> None:
    names = anyio.run(left_open, tmp_path)
    log = str(tmp_path / "log.db")
    for seed in range(3):
        stories = run_scenario(Scenario(log, seed=seed)).stories
        assert stories.keys() == names
        for each in stories.values():
            assert each.jct_us is not None
            assert each.jct_us < 60_000_000, "it took an hour, as if nobody had ended"
