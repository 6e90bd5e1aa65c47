"""A live scheduler within the process of a benchmark."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from shunter.config import LoadedConfig
from shunter.daemon import Caller, Site, open_site
from shunter.events import Event, JobCancelled, JobId

WHOEVER = Caller("", None)
SAYS_WHEN = "import time; print(time.monotonic_ns(), flush=True)"
"""A program that prints when its first line runs, in ns of the machine's monotonic clock."""


@asynccontextmanager
async def at_work(loaded: LoadedConfig) -> AsyncIterator[Site]:
    """Run a scheduler, and end all its jobs."""
    async with open_site(loaded) as site, anyio.create_task_group() as tasks:
        tasks.start_soon(site.run)
        try:
            yield site
        finally:
            left, after = set(site.state.jobs), site.committed
            for job_id in sorted(left):
                await site.tell(site.commands.cancel(job_id, WHOEVER))
            await comes(site, after, JobCancelled, left)
            site.stop()


async def comes(site: Site, after: int, kind: type[Event], names: set[JobId]) -> None:
    """Wait for an event of a kind about each of some jobs."""
    left = set(names)
    if not left:
        return
    async for _, event in site.follow(after):
        if isinstance(event, kind):
            left.discard(event.job_id)  # type: ignore[union-attr]  # all kinds asked for have one
        if not left:
            return
