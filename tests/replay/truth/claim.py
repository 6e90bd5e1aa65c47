"""What `why` said of a waiting job, beside the state of then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shunter.core import Job
from shunter.events import Demand, Event, JobId
from tests.replay.truth.brute_force import Truth, decision_around

__all__ = ["Claim"]


@dataclass
class Claim:
    """What was said of a job, the state of then, and the state after the round that told it."""

    said: dict[str, Any]
    events: Sequence[Event]
    now: Truth

    @property
    def job(self) -> Job:
        return self.now.jobs[JobId(self.said["job"]["id"])]

    @property
    def demand(self) -> Demand:
        return self.job.demand

    @property
    def decision(self) -> tuple[int, int] | None:
        """The first and the last event of the decision that told the reason."""
        told = self.said["decision"]
        return None if told is None else decision_around(self.events, told["seq"])

    @property
    def then(self) -> Truth:
        """What was true right after the round that told the reason; now, if none did."""
        decision = self.decision
        if decision is None:
            return self.now
        at_us = self.events[decision[0] - 1].at_us
        return Truth(self.events[: decision[1]], self.now.run, at_us)

    @property
    def leavers(self) -> list[Job]:
        """The jobs that held GPUs after that round."""
        return self.then.holders()
