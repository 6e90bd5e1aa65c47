"""What makes one index policy: a rank, and when it changes next."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from shunter.core.performance.sensitivity import SensitivityTable
from shunter.core.planning.guards import Band
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.records import record
from shunter.events.values import JobId

# A rank as one integer: guard band, priority, the policy's rank, submission ordinal.
#
# Integers compare ten times faster than tuples, and the order is total because it ends in the
# ordinal. Running jobs of a policy whose ranks drift with time (SRTF) are keyed by the instant at
# which their rank would reach zero; a waiting job is compared with them after adding `drift(now)`.

ORDINAL_BITS = 40
RANK_BITS = 80
PRIORITY_BITS = 24

ORDINAL_MASK = (1 << ORDINAL_BITS) - 1
_RANK_SHIFT = ORDINAL_BITS
_PRIORITY_SHIFT = _RANK_SHIFT + RANK_BITS
_BAND_SHIFT = _PRIORITY_SHIFT + PRIORITY_BITS
_PRIORITY_ZERO = 1 << (PRIORITY_BITS - 1)

LEVEL = 1 << 64  # what lifts a rank above all of another level; those of an index are smaller
PRIORITY_MOST = _PRIORITY_ZERO - 1
RANK_MOST = (1 << (RANK_BITS - 1)) - 1


def pack(band: int, priority: int, rank: int, ordinal: int) -> int:
    """Return the key by which jobs are ordered.

    A lower band, a higher priority, a lower rank, an earlier job goes first.
    """
    first = (band << PRIORITY_BITS) + _PRIORITY_ZERO - priority
    return (((first << RANK_BITS) + rank) << ORDINAL_BITS) + ordinal


def ordinal_of(key: int) -> int:
    """Return the submission ordinal of the job with this key."""
    return key & ORDINAL_MASK


def band_of(key: int) -> int:
    """Return the guard band in a key."""
    return key >> _BAND_SHIFT


def unguarded(key: int) -> int:
    """Return the key that a guarded job would have without its guard."""
    return key + (Band.normal - Band.pinned << _BAND_SHIFT)


def rank_of(key: int) -> int:
    """Return the policy's rank in a key."""
    rank = key >> _RANK_SHIFT & ((1 << RANK_BITS) - 1)
    return rank if rank <= RANK_MOST else rank - (1 << RANK_BITS)


def drift(now_us: int) -> int:
    """Return what to add to a waiting job's key to compare it with running ones."""
    return now_us << _RANK_SHIFT


LAST = 1 << (_BAND_SHIFT + 8)
FIRST = -LAST


# What an index remembers of jobs, where their state alone does not say where they stand.
#
# Multi-level feedback queues need it: when a job entered its queue, and what it had used and waited
# when it was last promoted (Gu et al., Tiresias, NSDI 2019). So do policies that learn: what the
# jobs used that have finished.


@record
class Note:
    """A job in a feedback queue.

    It entered its queue at `entered_us`. `service_us` and `held_us` are what it had attained when
    it was last promoted, in GPU-microseconds and microseconds; `waited_us` is how long it has
    waited since, up to the stretch that began at `waits_from_us` (None: none counts now).
    """

    entered_us: int
    queue: int = 0
    service_us: int = 0
    held_us: int = 0
    waited_us: int = 0
    waits_from_us: int | None = None


@dataclass(slots=True)
class Notes:
    """The notes of all jobs that have not ended.

    `levels` are those of the jobs that have risen by waiting, and of those on their turn.
    `finished` is the service of each job that finished, in GPU-microseconds and in the order of
    their ends; the first `learned` of them are in use.
    """

    jobs: dict[JobId, Note] = field(default_factory=dict)
    levels: dict[JobId, int] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)
    learned: int = 0


class Misfit(StrEnum):
    """What follows if a job does not fit: stop, go on, or go on but keep its promise."""

    stops = "stops"
    skipped = "skipped"
    reserved = "reserved"


class Measure(StrEnum):
    """What one number of a rank counts.

    Times are in microseconds, unless the name says otherwise.
    `dominant_share` is in parts of `sizing.WHOLE`. `load` is that of a server, GPUs asked for over
    its own; the GPUs of a user, queue or group are those that a plan does not divide.
    """

    submission = "submission"
    level = "level"
    queue = "queue"
    entered_us = "entered_us"
    attained_gpu_us = "attained_gpu_us"
    duration_us = "duration_us"
    remaining_us = "remaining_us"
    remaining_gpu_us = "remaining_gpu_us"
    expected_gpu_us = "expected_gpu_us"
    gittins = "gittins"
    rho_step = "rho_step"
    gpus = "gpus"
    dominant_share = "dominant_share"
    cluster_ns = "cluster_ns"
    user_gpus = "user_gpus"
    queue_gpus = "queue_gpus"
    group_gpus = "group_gpus"
    load = "load"


class Ranks(Protocol):
    """Says where jobs stand.

    Lower ranks run first, equal ones in the order of submission.
    Where ranks drift, the rank of a job with an allocation is the instant at which it reaches zero.
    """

    @property
    def drifts(self) -> bool:
        """Whether the rank of a running job falls by one a microsecond.

        Then the rank of a placed job is told as the instant at which it would reach zero. Where it
        does not fall at that pace (no progress yet, or another speed), it is told anew at a plan.
        """

    @property
    def wanders(self) -> bool:
        """Whether the rank of a running job falls at a pace of its own.

        Then it is told anew at every plan. Such a job only improves, so no plan is due for it.
        """

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return a job's rank now, and when it becomes another one by itself.

        That instant is later than now; None means never.
        """


class Index(Ranks, Protocol):
    """Orders jobs."""

    @property
    def name(self) -> str:
        """The policy's name."""

    @property
    def version(self) -> str:
        """The version of its rules."""

    @property
    def oracle(self) -> bool:
        """Whether it needs to know how long jobs will run."""

    @property
    def preemptive(self) -> bool:
        """Whether running jobs must leave for those ranked before them."""

    @property
    def misfit(self) -> Misfit:
        """What happens after a job that does not fit."""


class NotedRanks(Ranks, Protocol):
    """Says where jobs stand by notes of what they did before."""

    def ended(self, job: Job, *, finished: bool) -> bool:
        """Forget a job; say whether the ranks of others are other ones now."""


@runtime_checkable
class Remembering(Protocol):
    """An index that keeps notes of jobs in the policy's memory."""

    def ranks(self, notes: Notes) -> NotedRanks:
        """Return the ranks by these notes, which it keeps up to date from then on."""


@runtime_checkable
class Telling(Protocol):
    """An index whose ranks stand for several numbers."""

    def numbers(self, rank: int) -> tuple[int, ...]:
        """Return what a rank says, most important first; each of 64 bits."""


@runtime_checkable
class Relative(Protocol):
    """An index that may rank jobs by what they are of the whole cluster."""

    @property
    def is_relative(self) -> bool:
        """Whether it does: then ranks are other ones once a server has joined or left."""


@runtime_checkable
class Weighing(Protocol):
    """An index that goes by what makes models fastest, where somebody knows."""

    def knowing(self, table: SensitivityTable) -> Index:
        """Return the index by a table."""


@runtime_checkable
class Measured(Protocol):
    """An index or policy that says what its numbers count."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What each number of a rank counts, in the order in which they are told."""
