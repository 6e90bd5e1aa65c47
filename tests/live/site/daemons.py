"""A scheduler as a process of its own, which can be killed at any instant.

The process is forked from one that has imported everything already, so that it is at work within
milliseconds. What it is told to do, it does through its Site, as the API would.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import anyio

from shunter.config import LoadedConfig
from shunter.daemon import Site
from shunter.errors import ShunterError
from tests.live.site.sites import at_work

Deed = Callable[[Site], Awaitable[None]]

PATIENCE_S = 180.0
STRIKES = 4  # in one cluster


class Daemon:
    """A running scheduler process."""

    def __init__(
        self, loaded: LoadedConfig, deed: Deed, prepared: Callable[[], None] = lambda: None
    ) -> None:
        self.code: int | None = None
        self._begun_s = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            prepared()
            os._exit(_serve(loaded, deed))

    def kill(self) -> None:
        """Kill it with SIGKILL and wait until it is gone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait for its end; return its exit code, or minus the signal that killed it."""
        while not self.has_ended():
            time.sleep(0.005)
        assert self.code is not None, "a process that has ended has a code"
        return self.code

    def has_ended(self) -> bool:
        """Look whether it has ended; kill it and fail if that takes too long."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
            return True
        if time.monotonic() - self._begun_s > PATIENCE_S:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise AssertionError("the daemon did not come to its end")
        return False


def together(cases: Iterable[Iterator[Daemon]], at_once: int) -> None:
    """Carry cases out, some at a time: each yields one process after another, once it has ended."""
    waiting, busy = list(cases), list[tuple[Iterator[Daemon], Daemon]]()
    while waiting or busy:
        while waiting and len(busy) < at_once:
            steps = waiting.pop(0)
            busy.append((steps, next(steps)))
        for entry in list(busy):
            steps, daemon = entry
            if daemon.has_ended():
                busy.remove(entry)
                following = next(steps, None)
                if following is not None:
                    busy.append((steps, following))
        time.sleep(0.005)


def far_apart(points: Sequence[str], strikes: int) -> list[tuple[str, ...]]:
    """Return groups of points that a run comes to in their order, with many others between."""
    count = -(-len(points) // strikes)
    return [tuple(points[first::count]) for first in range(count)]


def _serve(loaded: LoadedConfig, deed: Deed) -> int:
    """Run a site and do a deed with it; return the exit code of the process."""

    async def serve() -> None:
        async with at_work(loaded) as site:
            await deed(site)

    try:
        anyio.run(serve)
    except ShunterError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    except BaseException:  # noqa: BLE001 it is told, and the process ends
        traceback.print_exc()
        return 99
    return 0
