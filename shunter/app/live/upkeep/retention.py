"""How long what jobs printed is kept once they have ended, where the config bounds it.

Only jobs that ended, by the log, are looked at; whatever else lies in the folder of attempts is
left alone. What is old is measured by the scheduler's clock, which follows no step of the wall
clock.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import anyio
from anyio import to_thread

from shunter.backends.local.pruning import over_since, remove
from shunter.core.state import State
from shunter.events.values.ids import JobId

__all__ = ["keep_for"]

LOOK_S = 3600.0
"""How often it is looked what has become old."""


async def keep_for(keep_s: float, root: str, state: State, now: Callable[[], datetime]) -> None:
    """Remove what is older than so long, for ever.

    Args:
        keep_s: seconds since anything of a job changed.
        root: the folder of attempts.
        state: what is true; read on the thread of the loop only.
        now: tells the date and time.
    """
    while True:
        before_s = now().timestamp() - keep_s
        with suppress(OSError):  # the next look tries again; nobody waits for it
            old = await to_thread.run_sync(over_since, root, before_s)
            ended = [job for job in old if JobId(job) in state.ended]
            await to_thread.run_sync(remove, root, ended)
        await anyio.sleep(min(LOOK_S, keep_s))
