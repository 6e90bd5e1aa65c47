"""Requests that reach a scheduler that has ended: connections outlive it by some seconds."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from shunter.daemon import Site
from shunter.errors import UnreachableError
from shunter.events import JobId
from tests.live.site.sites import NOBODY, machine, program

pytestmark = [pytest.mark.asyncio, pytest.mark.live]


async def alone(site: Site) -> object:
    return await site.submit(program("pass", key="again"), NOBODY)


async def together(site: Site) -> object:
    return await site.submit_together([program("pass", key="again")], NOBODY)


async def look(site: Site) -> object:
    return site.knows(JobId("j7"))


@pytest.mark.parametrize("ask", [alone, together, look])
async def test_scheduler_that_has_ended_says_so_and_takes_nothing(
    tmp_path: Path, ask: Callable[[Site], Awaitable[object]]
) -> None:
    async with machine(tmp_path) as site:
        pass
    with pytest.raises(UnreachableError, match="the scheduler has stopped"):
        await ask(site)
