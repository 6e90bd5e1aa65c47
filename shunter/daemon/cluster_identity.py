"""What a log says of its cluster, when it is now in that log, and steps of the wall clock."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

import anyio

from shunter import clock
from shunter.ask import state_at
from shunter.backends.live import Stamped
from shunter.core import State
from shunter.errors import LogDamagedError, UsageError
from shunter.events import ClockStepped, SchedulerStarted
from shunter.events.log import LogReader


@dataclass(frozen=True, slots=True)
class Identity:
    """What stays the same over all terms of a cluster: its id and when time began."""

    cluster_id: str
    origin: datetime

    @classmethod
    def new(cls) -> "Identity":
        """Return that of a cluster which begins now."""
        return cls(uuid4().hex[:12], clock.wall_now())

    def instant_us(self, wall: datetime) -> int:
        """Return a date and time as an instant of the log."""
        since = wall - self.origin
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@dataclass(frozen=True, slots=True)
class TermClock:
    """The instants of a term: one of them, and what the monotonic clock showed at it.

    Both are read at once. A start takes its time after that, to load libraries, say, and the next
    term goes by the wall clock again.
    """

    at_us: int
    monotonic_ns: int

    def now_us(self) -> int:
        """Return the instant it is."""
        return self.at_us + (clock.monotonic_ns() - self.monotonic_ns) // 1000


@dataclass(frozen=True, slots=True)
class History:
    """A cluster with what was true when its log ended."""

    identity: Identity
    state: State


async def read_history(reader: LogReader) -> History:
    """Read a log from its newest snapshot on; an empty one begins a cluster.

    Raises:
        LogDamagedError: the log does not say to which cluster it belongs.
        UsageError: it is the log of a simulation.
    """
    head = await reader.head()
    if not head.seq:
        return History(Identity.new(), State())
    first = await anext(aiter(reader.events(0, 1)))
    if not isinstance(first, SchedulerStarted):
        raise LogDamagedError(f"the log {reader.url} does not begin with a start", 1)
    if first.simulated:
        raise UsageError(f"{reader.url} is the log of a simulation; give a live cluster its own")
    try:
        origin = datetime.fromisoformat(json.loads(first.config)["origin"])
    except (ValueError, LookupError, TypeError) as error:
        raise LogDamagedError(f"the log {reader.url} does not say when it began: {error}", 1) from (
            error
        )
    return History(Identity(first.cluster_id, origin), await state_at(reader, head.seq))


# Steps of the wall clock are recorded, and nothing follows them.

CLOCK_LOOK_S = 5.0
STEP_US = 1_000_000
"""A step of the wall clock is one of more than a second; less is a clock being slewed."""

Ahead = Callable[[], int]


def ahead_us() -> int:
    """Return how far the wall clock is ahead of the monotonic clock."""
    return (clock.wall_ns() - clock.monotonic_ns()) // 1000


async def watch_clock(
    post: Callable[[Stamped], None], ahead: Ahead = ahead_us, look_s: float = CLOCK_LOOK_S
) -> None:
    """Post each step of the wall clock, for ever."""
    before_us = ahead()
    while True:
        await anyio.sleep(look_s)
        now_us = ahead()
        by_us = now_us - before_us
        if abs(by_us) > STEP_US:
            _post_step(post, by_us)
        before_us = now_us  # what it drifts in between is no step


def _post_step(post: Callable[[Stamped], None], by_us: int) -> None:
    post(lambda at_us: ClockStepped(at_us, by_us))
