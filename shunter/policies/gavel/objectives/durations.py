"""Objectives over the time jobs still need: makespan, and finish-time fairness.

Narayanan et al., OSDI 2020, section 4.2; finish-time fairness is Themis's (NSDI 2020, section 3).
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shunter.events.values.ids import JobId
from shunter.policies.gavel.mechanism.targets import Demands, Fractions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Makespan:
    """All jobs done as early as possible."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all shares with the least makespan."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.fairness import least_total_duration

        found = arrays_of(demands, agnostic=self.agnostic)
        return divided(demands, found, [found.left], least_total_duration, packed=self.packed)


@dataclass(slots=True)
class FinishTimes:
    """The worst ratio of finish times, here over alone, is the least.

    `alone_s` is how long a job would have taken so far on its own part, as that has changed;
    `rates` and `left` are those of the last time, by which that goes on. A job's time alone is
    counted from when it is first seen.
    """

    agnostic: bool = False
    packed: bool = False
    alone_s: dict[JobId, float] = field(default_factory=dict)
    rates: dict[JobId, float] = field(default_factory=dict)
    left: dict[JobId, int] = field(default_factory=dict)

    def note(self, demands: Demands) -> None:
        """Count the time alone on, up to now; right before fractions are asked for."""
        alone_s = {}
        for request in demands.requests:
            job_id = request.job_id
            alone_s[job_id] = self.alone_s.get(job_id, 0.0)
            if job_id in self.left:
                alone_s[job_id] += (self.left[job_id] - request.left) / self.rates[job_id]
        self.rates = dict(zip(alone_s, self.rates_alone(demands), strict=True))
        self.alone_s = alone_s
        self.left = {request.job_id: request.left for request in demands.requests}

    def rates_alone(self, demands: Demands) -> list[float]:
        """Return the steps a second of each job on its own part."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, isolated_rates

        rates: list[float] = isolated_rates(arrays_of(demands, agnostic=self.agnostic)).tolist()
        return rates

    def whole_s(self, demands: Demands) -> "NDArray[np.float64]":
        """Return how long each job takes in all on its own part, as noted.

        Shape (claims,), in seconds.
        """
        import numpy as np

        return np.array(
            [
                self.alone_s[request.job_id] + request.left / self.rates[request.job_id]
                for request in demands.requests
            ]
        )

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all shares with the least worst ratio."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.finish_times import finish_time_fairness

        found = arrays_of(demands, agnostic=self.agnostic)
        columns = [found.ages_s, found.left, self.whole_s(demands)]
        return divided(demands, found, columns, finish_time_fairness, packed=self.packed)
