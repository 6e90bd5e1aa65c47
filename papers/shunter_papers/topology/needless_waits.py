"""Which gangs wait in vain, and which run too slowly, by what their owners could have said.

A gang waits needlessly if it still waits after a plan though GPUs are free on which it would go as
fast as its owner asks for (`CURVES`, `FLOOR`). It runs too slowly if it was given others than such.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shunter.core import Observers, View
from shunter.events import AllocationChanged, JobId, RoundPlanned
from shunter_papers.topology.scenes import CURVES, FLOOR

GANG = 4
"""The gangs of which curves are published."""


@dataclass
class NeedlessWaits:
    """Follows gangs of four: who ever waited needlessly, and who ran too slowly."""

    jobs: set[JobId] = field(default_factory=set)
    slow: set[JobId] = field(default_factory=set)
    _at_us: int = 0
    _last: set[JobId] = field(default_factory=set)

    def observers(self) -> Observers:
        """Return what it listens to."""
        return {RoundPlanned: self._planned, AllocationChanged: self._changed}

    def _planned(self, event: RoundPlanned, view: View) -> None:
        """Count those for whom the plan before has done nothing."""
        if event.at_us > self._at_us:
            self.jobs |= self._last
        self._at_us = event.at_us
        self._look(view)

    def _changed(self, event: AllocationChanged, view: View) -> None:
        job = view.jobs[event.job_id]
        pieces = [share.gpus for share in event.allocation.shares]
        if pieces and job.spec.gpus == GANG and tuple(sorted(pieces)) not in _near(job.spec.model):
            self.slow.add(event.job_id)
        self._look(view)

    def _look(self, view: View) -> None:
        free = [mask.bit_count() for pool in view.pools.values() for mask in pool.free]
        has_place = {model: any(fits(free, shape) for shape in _near(model)) for model in CURVES}
        self._last = {
            job.job_id
            for job in view.jobs.values()
            if job.spec.gpus == GANG and not job.allocation.shares and has_place[job.spec.model]
        }


def fits(free: Sequence[int], shape: Sequence[int]) -> bool:
    """Say whether servers with so many free GPUs have one for each part of a gang."""
    largest = sorted(free, reverse=True)[: len(shape)]
    parts = sorted(shape, reverse=True)
    return len(largest) == len(parts) and all(
        part <= there for part, there in zip(parts, largest, strict=True)
    )


def _near(model: str) -> list[tuple[int, ...]]:
    """Return the splits at which a gang is as fast as its owner asks for."""
    return [tuple(sorted(shape)) for shape, speed in CURVES[model] if speed >= FLOOR]
