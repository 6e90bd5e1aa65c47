"""What makes one index policy: a rank, and when it changes next."""

from enum import StrEnum
from typing import Protocol, runtime_checkable

from shunter.core.performance.sensitivity import SensitivityTable
from shunter.core.ranking.rank_memory import Notes
from shunter.core.state import Job
from shunter.core.view import View


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
