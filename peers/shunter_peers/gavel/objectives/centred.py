"""The forms of problem by our own method: the centre of the optimal face, residues included.

An interior-point solver leaves 1e-9 where a fraction is 0. In the public code such residues are
targets, in the order of what little they cost, and they decide who gets GPUs that are left over.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shunter.errors import PlanError
from shunter.events import GpuType
from shunter.policies.gavel import Demands, FinishTimes, Fractions
from shunter_peers.gavel.forms import Form, Kind

if TYPE_CHECKING:
    from shunter.policies.gavel import Arrays, Floats, Problem


@dataclass(frozen=True, slots=True)
class Centred:
    """A form that remembers nothing, with dollars an hour of a GPU by type."""

    form: Form
    prices: dict[GpuType, float]

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of the optimal face.

        Raises:
            PlanError: a GPU type has no price, or there is no answer.
        """
        from shunter.policies.gavel import max_min_fairness, water_filling
        from shunter_peers.gavel.arrays import rated
        from shunter_peers.gavel.objectives.relaxed import relaxed_total_duration

        found, form = rated(self.form, demands), self.form
        if form.kind is Kind.level:
            return _divided(form, demands, found, [found.weights], max_min_fairness)
        if form.kind is Kind.filling:
            return _divided(form, demands, found, [found.weights], water_filling)
        if form.kind is Kind.duration:
            return _divided(form, demands, found, [found.left], relaxed_total_duration)
        assert form.kind is Kind.sum, "finish times are noted, so they have a class of their own"
        return _divided(form, demands, found, [self._demand(demands)], self._largest_sum(found))

    def _demand(self, demands: Demands) -> "Floats":
        """Return the steps a second that deadlines ask for; none if it is over."""
        import numpy as np

        return np.array(
            [
                request.left / request.deadline_s
                if self.form.deadlines and request.deadline_s is not None and request.deadline_s > 0
                else 0.0
                for request in demands.requests
            ]
        )

    def _largest_sum(self, found: "Arrays") -> "Problem":
        """Return what solves for the largest sum, per dollar if priced.

        Where not all deadlines can be met, none is asked for.
        """
        import numpy as np

        from shunter.policies.gavel import Groups, Shares, Status, max_sum_throughput, min_cost

        form = self.form
        unknown = [name for name in found.types if form.priced and name not in self.prices]
        if unknown:
            raise PlanError(f"no price is known of {', '.join(unknown)}; give it in prices")
        prices = np.array([self.prices[name] if form.priced else 1.0 for name in found.types])

        def solve(groups: Groups, demand: "Floats | None") -> Shares:
            if form.priced:
                return min_cost(groups, prices, demand)
            return max_sum_throughput(groups, demand)

        def largest(groups: Groups, demand: "Floats") -> Shares:
            shares = solve(groups, demand if form.deadlines else None)
            return solve(groups, None) if shares.status is Status.infeasible else shares

        return largest


@dataclass(slots=True)
class CentredFinishTimes(FinishTimes):
    """The worst ratio of finish times; rates are those on `everywhere`, if named."""

    everywhere: GpuType | None = None

    @property
    def form(self) -> Form:
        """The problem."""
        return Form(Kind.finish_times, packed=self.packed, everywhere=self.everywhere)

    def rates_alone(self, demands: Demands) -> list[float]:
        """Return the steps a second of each job on its own part, to the last digit."""
        from shunter_peers.gavel.arrays import isolated_rates, rated

        rates: list[float] = isolated_rates(rated(self.form, demands)).tolist()
        return rates

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all shares with the least worst ratio."""
        from shunter.policies.gavel import finish_time_fairness
        from shunter_peers.gavel.arrays import rated

        found = rated(self.form, demands)
        columns = [found.ages_s, found.left, self.whole_s(demands)]
        return _divided(self.form, demands, found, columns, finish_time_fairness)


def _divided(
    form: Form, demands: Demands, found: "Arrays", columns: "list[Floats]", problem: "Problem"
) -> Fractions:
    from shunter.policies.gavel import divided
    from shunter_peers.gavel.arrays import every_pair

    return divided(
        demands, found, columns, problem, packed=form.packed, idle=True, spread=every_pair
    )
