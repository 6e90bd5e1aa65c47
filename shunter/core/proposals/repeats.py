"""Proposals of callers that are rejected again within a round: counted, and told once at its end.

The first rejection of a job in a round is recorded with its proposal. Further ones change nothing,
so what is recorded of them is how many there were and why the last of them was rejected. Otherwise
whoever proposes in a loop would fill the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shunter.core.proposals.approval import Refused
from shunter.core.state import Job, State
from shunter.events.facts import Event, GangRejected
from shunter.events.values import REPEATED, JobId

WINDOW_US = 60_000_000
"""What counts as a round where plans are made at events."""


@dataclass(slots=True)
class _Counted:
    """The rejections of a job in a round that were not recorded, and the last."""

    count: int
    refused: Refused
    version: int
    over_us: int


class Repeats:
    """The rejections that are still to be told; it begins empty with each term."""

    __slots__ = ("_counted", "_state", "_window_us")

    def __init__(self, state: State, round_us: int) -> None:
        self._state = state
        self._window_us = round_us or WINDOW_US
        self._counted: dict[JobId, _Counted] = {}

    @property
    def is_set(self) -> bool:
        """Whether any rejection is still to be told."""
        return bool(self._counted)

    def is_again(self, job_id: JobId, now_us: int) -> bool:
        """Say whether a rejection of a job has been recorded in this round."""
        last = self._state.proposals.rejections.get(job_id)
        return last is not None and self._number(last.at_us) == self._number(now_us)

    def count(self, job: Job, refused: Refused, now_us: int) -> None:
        """Count a rejection that is not recorded by itself."""
        before = self._counted.get(job.job_id)
        over_us = (self._number(now_us) + 1) * self._window_us if before is None else before.over_us
        count = 1 if before is None else before.count + 1
        self._counted[job.job_id] = _Counted(count, refused, self._state.seq, over_us)

    def next_us(self) -> int | None:
        """Return when rejections are told next; None: there are none."""
        return min((one.over_us for one in self._counted.values()), default=None)

    def due(self, jobs: Mapping[JobId, Job], now_us: int) -> GangRejected | None:
        """Take out the next fact that is due; of jobs that have ended nothing is told."""
        over = [job_id for job_id, one in self._counted.items() if one.over_us <= now_us]
        for job_id in over:
            one = self._counted.pop(job_id)
            if job_id in jobs:
                refused = one.refused
                return GangRejected(
                    *(now_us, job_id, one.version, refused.reason, refused.conflicts),
                    *(REPEATED, refused.detail),
                    count=one.count,
                )
        return None

    def _number(self, at_us: int) -> int:
        return at_us // self._window_us


def only_counts(event: Event) -> bool:
    """Say whether a fact tells how many rejections there were, and no more.

    It is taken as observed, since nothing else in a log says so. The scheduler itself tells it once
    its round is over, and no plan is due by that.
    """
    return isinstance(event, GangRejected) and event.cause == REPEATED
