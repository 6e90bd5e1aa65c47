"""How long is kept what jobs have left: their variables to their end, their output as configured.

Only jobs whose end is in the log, durable, are looked at; whatever else lies in a folder of
attempts is left alone. And nothing is removed anywhere while a server does not answer: what it has
of a job may be younger.
"""

from collections.abc import Callable
from contextlib import suppress

import anyio

from shunter.core.state import State
from shunter.daemon.backends import LiveBackend
from shunter.daemon.feed import Feed
from shunter.errors import BackendError, UnreachableError
from shunter.events.facts import JOB_ENDS
from shunter.events.past_jobs import PastJobs

LOOK_S = 3600.0
"""How often it is looked what has become old."""


async def keep_for(
    keep_s: float,
    backend: LiveBackend,
    state: State,
    past: PastJobs,
    feed: Feed,
    tell: Callable[[str], None],
) -> None:
    """Remove what is older than so long, for ever.

    Args:
        keep_s: seconds since anything of a job changed.
        backend: where attempts lie.
        state: what is true; read on the thread of the loop only, as `past` is.
        past: which jobs have ended.
        feed: says what of it is durable.
        tell: told what could not be removed, once for each time that it changes.
    """
    told = ""
    while True:
        try:
            await _remove(keep_s, backend, state, past, feed)
            said = ""
        except BackendError as error:  # the next look tries again; nobody waits for it
            said = f"old output and records cannot be removed: {error}"
        if said and said != told:
            tell(said)
        told = said
        await anyio.sleep(min(LOOK_S, keep_s))


async def _remove(
    keep_s: float, backend: LiveBackend, state: State, past: PastJobs, feed: Feed
) -> None:
    """Remove what is old now.

    Raises:
        BackendError: something cannot be removed.
    """
    old = await backend.old_jobs(keep_s)
    ended, seq = [job for job in old if past.outcome(job) is not None], state.seq
    if ended:
        with suppress(UnreachableError):  # the log closes
            await feed.reached(seq)
            await backend.remove_attempts(ended)


async def forget_environments(feed: Feed, backend: LiveBackend) -> None:
    """Remove the environment of each job whose end is durable, until the log closes.

    Raises:
        BackendError: it cannot be removed.
    """
    async for _, event in feed.follow(feed.committed):
        if isinstance(event, JOB_ENDS):
            await backend.store_environments({event.job_id: {}})
