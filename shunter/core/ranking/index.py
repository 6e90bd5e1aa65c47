"""What makes one index policy: a rank, and when it changes next."""

from enum import StrEnum
from typing import Protocol

from shunter.core.state import Job
from shunter.core.view import View


class Misfit(StrEnum):
    """What follows if a job does not fit: stop, go on, or go on but keep its promise."""

    stops = "stops"
    skipped = "skipped"
    reserved = "reserved"


class Index(Protocol):
    """Orders jobs; lower ranks run first, equal ones in the order of submission.

    Where ranks drift, the rank of a job with an allocation is the instant at which it reaches zero.
    """

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
    def drifts(self) -> bool:
        """Whether the rank of a running job falls by one a microsecond.

        Then the rank of a placed job is told as the instant at which it would reach zero. Where it
        does not fall at that pace (no progress yet, or another speed), it is told anew at a plan.
        """

    @property
    def misfit(self) -> Misfit:
        """What happens after a job that does not fit."""

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return a job's rank now, and when it becomes another one by itself.

        That instant is later than now; None means never.
        """
