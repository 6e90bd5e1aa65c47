"""What a daemon and the process that makes a forecast for it say to each other, as JSON."""

import ctypes
import os
import signal
from contextlib import suppress
from typing import Any

import msgspec

from shunter.events import JobId

SAMPLES = 19
"""Runs of a forecast; with 9, 19, 29, … its P50 and P90 are runs of their own; ours."""

MOMENTS = 6
"""Past moments at which forecasts are made again; ours."""


BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from shunter.ask.forks.forecast_child import main; main(sys.argv[1:3])"
)
"""What the process is started with: how many seconds it may take, its parent, and its paths."""


PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> bool:
    """End this process when its parent does; return whether that is still there."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


class Kept(msgspec.Struct, frozen=True):
    """How forecasts of starts held, or those of ends.

    `by_p50` and `by_p90` are for how many it had come by then. `open` are those whose P90 has not
    come yet, or was not foretold: they do not count, not even those that were early, or the others
    would seem to have been foretold too late.
    """

    jobs: tuple[JobId, ...] = ()
    by_p50: int = 0
    by_p90: int = 0
    open: int = 0


class Held(msgspec.Struct, frozen=True):
    """How forecasts of a moment held: of those who waited, and of the ends of all."""

    seq: int
    starts: Kept
    ends: Kept

    @property
    def is_open(self) -> bool:
        """Whether some of them do not count yet."""
        return bool(self.starts.open or self.ends.open)


class Question(msgspec.Struct, frozen=True, tag=True):
    """What is asked of a log.

    `now_us` is the instant it is, if that is later than the last event. `user` is whose jobs; None:
    everybody's. `submitted` is the payload of the submission of a job that is only imagined; then
    it alone is asked about. `known` is what came of past moments before, and of `moments` more it
    is found out.
    """

    address: str
    now_us: int = 0
    user: str | None = None
    submitted: bytes = b""
    known: tuple[Held, ...] = ()
    moments: int = MOMENTS
    samples: int = SAMPLES


class StartsIf(msgspec.Struct, frozen=True, tag=True):
    """What would make a job start that waits, at an instant and after an event."""

    address: str
    job_id: JobId
    seq: int
    at_us: int


class Answer(msgspec.Struct, frozen=True):
    """The document, and how forecasts held at all past moments that were tried."""

    document: dict[str, Any]
    held: tuple[Held, ...]


class Problem(msgspec.Struct, tag=True):
    """Why there is no answer."""

    detail: str


class Tried(msgspec.Struct, tag=True):
    """What would make a job start, as a document; None: it does not wait."""

    document: dict[str, Any] | None


class Found(msgspec.Struct, tag=True):
    """The answer."""

    answer: Answer
