"""The largest sum of throughputs, per second or per dollar, with or without deadlines.

Narayanan et al., OSDI 2020, section 4.2. Throughputs are steps a second of different models, added
as they are; whoever makes few steps a second gets what is left.
"""

from dataclasses import dataclass, field

from shunter.errors import PlanError
from shunter.events.values.ids import GpuType
from shunter.policies.gavel.mechanism.targets import Demands, Fractions


@dataclass(frozen=True, slots=True)
class ThroughputSum:
    """Steps a second; or steps a dollar, by `prices` in dollars an hour of a GPU.

    With `deadlines`, jobs that have one get the throughput they need for it; if not all can be
    met, none is asked for, as in the public code.
    """

    prices: dict[GpuType, float] = field(default_factory=dict)
    deadlines: bool = False
    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of the optimal face.

        Raises:
            PlanError: a GPU type has no price.
        """
        import numpy as np

        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.groups import Groups, Shares, Status
        from shunter.policies.gavel.solving.interior import Floats
        from shunter.policies.gavel.solving.sums import max_sum_throughput, min_cost

        found = arrays_of(demands, agnostic=self.agnostic)
        unknown = [name for name in found.types if name not in self.prices]
        if self.prices and unknown:
            raise PlanError(
                f"no price is known of {', '.join(unknown)}; give it one in the policy's prices"
            )
        prices = np.array([self.prices.get(name, 1.0) for name in found.types])
        demand = np.array(
            [_demand(request.left, request.deadline_s) for request in demands.requests]
        )

        def largest(groups: Groups, demand: Floats) -> Shares:
            asked = demand if self.deadlines else None
            shares = _solve(groups, asked)
            if shares.status is Status.infeasible:
                shares = _solve(groups, None)
            return shares

        def _solve(groups: Groups, demand: Floats | None) -> Shares:
            if self.prices:
                return min_cost(groups, prices, demand)
            return max_sum_throughput(groups, demand)

        columns = [demand if self.deadlines else np.zeros(len(demand))]
        return divided(demands, found, columns, largest, packed=self.packed)


def _demand(left: int, deadline_s: float | None) -> float:
    """Return the steps a second a deadline asks for; none that is over asks for any."""
    return left / deadline_s if deadline_s is not None and deadline_s > 0 else 0.0
