"""What-if of the same policy against what happened on this machine (tests/live/what_if.py)."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from shunter.events.facts.execution import JobSuspended, TurnEnded
from shunter.events.kinds import Event
from tests.live.site.sites import machine
from tests.live.what_if import GANDIVA, LAS, assert_close, run_jobs

pytestmark = pytest.mark.live


async def ran(root: Path, policy: dict[str, Any]) -> list[Event]:
    local = {"root": str(root / "attempts"), "grace": 0.3, "patrol": 0.2, "sample": 1}
    async with machine(root, policy=policy, backend={"local": local}) as site:
        return await run_jobs(site)


@pytest.mark.parametrize(
    ("policy", "leaves"), [(LAS, JobSuspended), (GANDIVA, TurnEnded)], ids=["las", "gandiva"]
)
def test_same_policy_is_within_five_percent_of_what_happened(
    policy: dict[str, Any], leaves: type[Event], tmp_path: Path
) -> None:
    events = anyio.run(ran, tmp_path, policy)
    assert_close(tmp_path / "log.db", events, leaves)
