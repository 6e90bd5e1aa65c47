"""What only a running job needs is gone once it has ended: the values its submitter gave it."""

from shunter.app.live.backends import LiveBackend
from shunter.app.live.feed import Feed
from shunter.events.facts.jobs import JOB_ENDS

__all__ = ["forget_environments"]


async def forget_environments(feed: Feed, backend: LiveBackend) -> None:
    """Remove the environment of each job whose end is durable, until the log closes.

    Raises:
        BackendError: it cannot be removed.
    """
    async for _, event in feed.follow(feed.committed):
        if isinstance(event, JOB_ENDS):
            await backend.equip(event.job_id, {})
