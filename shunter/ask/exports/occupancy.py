"""Which attempt had which GPUs when, read off the state after each event.

Jobs that share a GPU at the same time have lanes of it. One that takes turns on GPUs has those of
its turn, and none between turns.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from shunter.core.state import Job, State
from shunter.events.facts.execution import TurnStarted
from shunter.events.values.allocation import Share, Sharing
from shunter.events.values.ids import JobId, NodeName

_SLICED = Sharing.sliced


@dataclass(frozen=True, slots=True)
class Spot:
    """A GPU of a server, and the lane of it for one of those that share it."""

    node: NodeName
    gpu: int
    lane: int


@dataclass(slots=True)
class _Tenancy:
    """What an attempt has now."""

    attempt: int
    shares: tuple[Share, ...]
    spots: list[Spot] = field(default_factory=list)


class Occupancy:
    """All GPUs with those that have them; `used` counts GPUs that anybody has."""

    def __init__(self) -> None:
        self.used = 0
        self._tenancies: dict[JobId, _Tenancy] = {}
        self._lanes: dict[tuple[NodeName, int], list[JobId | None]] = {}

    def take(self, job_id: JobId, event: Any, state: State) -> tuple[list[Spot], list[Spot]]:
        """Return the spots that a job has left and has taken with an event about it.

        Args:
            job_id: the job.
            event: what was folded last.
            state: the state after it.
        """
        before, job = self._tenancies.get(job_id), state.jobs.get(job_id)
        attempt = 0 if job is None else job.attempt
        shares = () if job is None else _shares(job, event, before)
        if before is None:
            if not shares:
                return [], []
        elif before.shares == shares and before.attempt == attempt:
            return [], []
        left = [] if before is None else before.spots
        for spot in left:
            self._leave(spot)
        if not shares:
            self._tenancies.pop(job_id, None)
            return left, []
        taken = [self._enter(job_id, share.node, gpu) for share, gpu in _gpus(shares)]
        self._tenancies[job_id] = _Tenancy(attempt, shares, taken)
        return left, taken

    def left_over(self) -> Iterator[Spot]:
        """Yield the spots that are taken now."""
        for tenancy in self._tenancies.values():
            yield from tenancy.spots

    def _enter(self, job_id: JobId, node: NodeName, gpu: int) -> Spot:
        lanes = self._lanes.setdefault((node, gpu), [])
        self.used += not any(lanes)
        for lane, tenant in enumerate(lanes):
            if tenant is None:
                lanes[lane] = job_id
                return Spot(node, gpu, lane)
        lanes.append(job_id)
        return Spot(node, gpu, len(lanes) - 1)

    def _leave(self, spot: Spot) -> None:
        lanes = self._lanes[spot.node, spot.gpu]
        lanes[spot.lane] = None
        self.used -= not any(lanes)


def _shares(job: Job, event: Any, before: _Tenancy | None) -> tuple[Share, ...]:
    """Return what a job has of GPUs after an event."""
    if job.held.sharing is not _SLICED:
        return job.held.shares
    if job.is_spread:
        return job.held.shares if job.gpus else ()
    if type(event) is TurnStarted and event.job_id == job.job_id:
        return event.shares
    return before.shares if before is not None and job.gpus else ()


def _gpus(shares: tuple[Share, ...]) -> Iterator[tuple[Share, int]]:
    for share in shares:
        mask = share.gpu_mask
        while mask:
            yield share, (mask & -mask).bit_length() - 1
            mask &= mask - 1
