"""What jobs that share GPUs in turns get of them: what is theirs by weight, and what they had.

The fair share is a part of the time, of all GPUs of a gang at once. It follows from who takes turns
on a server now: in proportion to the weights of turns (decision 0055), at most all of the time, and
what one cannot use goes to the others (weighted max-min fairness). It is what the rotation of a
server comes to (`backends/node/rotation`) for gangs of one size that may be on any of its GPUs,
and which nobody waits for too long; where sizes differ, it may be less for those that fit badly.

What was used is the service over all GPU time in which a job held its GPUs, in all its attempts:
that of each at the size of gang that it had in it.
"""

from typing import TypedDict

from shunter.ask.waits import stands_still
from shunter.core.state import Job, State
from shunter.core.turn_shares import turn_shares
from shunter.events.values import JobId

__all__ = ["TurnPart", "TurnShares"]


class TurnPart(TypedDict):
    """The turns of a job: whether it has one now, and parts of the time, 0 to 1.

    `used` is of its GPUs in the `held_s` seconds in which it held any; None: it has only just got
    them.
    """

    is_on: bool
    fair_share: float
    used: float | None
    held_s: float


class TurnShares:
    """The turns of all jobs of a state up to an instant, counted on demand."""

    def __init__(self, state: State, now_us: int) -> None:
        self._state = state
        self._now_us = now_us
        self._shares: dict[JobId, float] | None = None

    def of(self, job: Job) -> TurnPart | None:
        """Return the turns of a job; None: it takes none, or not now."""
        if not _takes_turns(job):
            return None
        if self._shares is None:
            self._shares = turn_shares(filter(_takes_turns, self._state.jobs.values()))
        assert job.since_us is not None, "its attempt is under way"
        present_us = self._now_us - job.since_us
        off_us = job.off_turn_gpu_us + (job.held.gpus - job.gpus) * present_us
        used_us = job.service_us(self._now_us)
        return {
            "is_on": not job.awaits_turn,
            "fair_share": self._shares[job.job_id],
            "used": used_us / (used_us + off_us) if used_us + off_us else None,
            "held_s": job.occupied_us(self._now_us) / 1e6,
        }


def _takes_turns(job: Job) -> bool:
    """Say whether a job has turns, or waits for one."""
    return job.takes_turns and not stands_still(job)
