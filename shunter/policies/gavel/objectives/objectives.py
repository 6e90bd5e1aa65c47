"""The objectives: what shares of GPU types are best for (Narayanan et al., OSDI 2020, section 4).

durations   makespan, and finish-time fairness
fairness    max-min, by levels of a hierarchy
queues      first come, first served, as shares
sums        the largest sum of throughputs, per second or per dollar
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from shunter.errors import PlanError
from shunter.events.values import GpuType, JobId
from shunter.policies.gavel.mechanism.targets import Demands, Fractions, Gang, JobRequest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Objectives over the time jobs still need: makespan, and finish-time fairness.
#
# Narayanan et al., OSDI 2020, section 4.2; finish-time fairness is Themis's (NSDI 2020, section 3).


@dataclass(frozen=True, slots=True)
class Makespan:
    """All jobs done as early as possible."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all shares with the least makespan."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.answers import least_total_duration

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
        from shunter.policies.gavel.solving.answers import finish_time_fairness

        found = arrays_of(demands, agnostic=self.agnostic)
        columns = [found.ages_s, found.left, self.whole_s(demands)]
        return divided(demands, found, columns, finish_time_fairness, packed=self.packed)


# Max-min fairness: the least normalised throughput is the largest, alone or lexicographically.
#
# Narayanan et al., OSDI 2020, sections 4.1 and 4.3. Agnostic, every GPU counts as much for every
# job; packed, two jobs may share GPUs (section 3.1). Across entities (section 4.3) it is water
# filling, in which an entity's water is shared among its jobs by their weights, or goes to the
# first of them that is not full.


@dataclass(frozen=True, slots=True)
class MaxMinFairness:
    """Least attained service as a program: weights, gangs and speeds considered."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of the optimal face."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.answers import max_min_fairness

        found = arrays_of(demands, agnostic=self.agnostic)
        return divided(demands, found, [found.weights], max_min_fairness, packed=self.packed)


@dataclass(frozen=True, slots=True)
class WaterFilling:
    """The least is the largest, then the least of all others, and so on."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all lexicographic optima."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.filling import water_filling

        found = arrays_of(demands, agnostic=self.agnostic)
        return divided(demands, found, [found.weights], water_filling, packed=self.packed)


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """Entities by `weights`, 1 for others; `inside` is how each divides its part."""

    weights: dict[str, float] = field(default_factory=dict)
    inside: Literal["fairness", "fifo"] = "fairness"
    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all lexicographic optima."""
        import numpy as np

        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.filling import hierarchical
        from shunter.policies.gavel.solving.groups import Groups, Shares
        from shunter.policies.gavel.solving.interior import Floats

        names = list(dict.fromkeys(request.entity for request in demands.requests))
        places = {name: float(place) for place, name in enumerate(names)}
        weights = np.array([self.weights.get(name, 1.0) for name in names])
        entity = np.array([places[request.entity] for request in demands.requests])
        found = arrays_of(demands, agnostic=self.agnostic)

        def fair(groups: Groups, entity: Floats, inside: Floats) -> Shares:
            return hierarchical(groups, entity.astype(np.intp), weights, inside)

        def first(groups: Groups, entity: Floats, _order: Floats) -> Shares:
            return hierarchical(groups, entity.astype(np.intp), weights, None)

        if self.inside == "fairness":
            return divided(demands, found, [entity, found.weights], fair, packed=self.packed)
        # One job a group, in the order of arrival: of equal jobs the earlier one goes first.
        order = np.arange(float(len(entity)))
        return divided(demands, found, [entity, order], first, packed=self.packed)


@dataclass(slots=True)
class Isolated:
    """An equal part of each type's GPUs for each job, in time of its whole gang.

    The isolated share is the yardstick of sharing incentive (OSDI 2020, section 4).
    """

    def fractions(self, demands: Demands) -> Fractions:
        """Return N_j / (m s_i), over the sum of the row where that is more than 1."""
        jobs = len(demands.requests)
        found: dict[Gang, dict[GpuType, float]] = {}
        for request in demands.requests:
            row = {name: many / jobs / request.kind.gpus for name, many in demands.gpus.items()}
            whole = max(sum(row.values()), 1.0)
            found[(request.job_id,)] = {name: part / whole for name, part in row.items()}
        return found


@dataclass(slots=True)
class Proportional:
    """All of the time, over the types as their GPUs are."""

    def fractions(self, demands: Demands) -> Fractions:
        """Return N_j / N."""
        whole = sum(demands.gpus.values())
        row = {name: many / whole for name, many in demands.gpus.items()}
        return {(request.job_id,): dict(row) for request in demands.requests}


# Whole GPUs for who is first: in line, or in the queues of the best assignment.
#
# The assignment is AlloX on GPU types (Le et al., EuroSys 2020, section 4). It knows jobs of one
# GPU only: of a gang there is no place in the queue of one GPU. Gangs get what is left over.


@dataclass(frozen=True, slots=True)
class FastestFirst:
    """Each job in turn takes all of the fastest type with room.

    The first that finds no room ends it. A job that cannot run on any type with room (a rate of 0)
    gets nothing and holds nobody up. `shortest` goes by the time left on the fastest type instead
    of arrival, `agnostic` by the room of types instead of their speed.
    """

    shortest: bool = False
    agnostic: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return ones and zeros."""
        free = dict(demands.gpus)
        found: dict[Gang, dict[GpuType, float]] = {
            (request.job_id,): dict.fromkeys(free, 0.0) for request in demands.requests
        }
        for request in self._in_order(demands):
            rooms = [name for name in free if free[name] >= request.kind.gpus]
            if not rooms:
                break
            rates = {name: demands.rate(request, name) for name in rooms}
            if self.agnostic:
                rates = {name: float(free[name]) * (rates[name] > 0) for name in rooms}
            best = max(rooms, key=rates.__getitem__)
            if rates[best] > 0:
                free[best] -= request.kind.gpus
                found[(request.job_id,)][best] = 1.0
        return found

    def _in_order(self, demands: Demands) -> list[JobRequest]:
        if not self.shortest:
            return list(demands.requests)
        fastest = [
            max(demands.rate(request, name) for name in demands.gpus)
            for request in demands.requests
        ]
        left = zip(demands.requests, fastest, strict=True)
        spans = [request.left / rate if rate > 0 else float("inf") for request, rate in left]
        return [
            demands.requests[place] for place in sorted(range(len(spans)), key=spans.__getitem__)
        ]


@dataclass(frozen=True, slots=True)
class QueueAssignment:
    """Whole GPUs for the first of each queue, which keeps them until it ends."""

    agnostic: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return ones, for those that run; the others have no row."""
        import numpy as np

        from shunter.policies.gavel.assignment import first_in_queues
        from shunter.policies.gavel.objectives.arrays import arrays_of

        free = dict(demands.gpus)
        found: dict[Gang, dict[GpuType, float]] = {}
        waiting: list[JobRequest] = []
        for request in demands.requests:
            if request.kind.gpus > 1:
                if request.on is not None:
                    free[request.on] -= request.kind.gpus
            elif request.on is not None and free.get(request.on, 0) > 0:
                found[(request.job_id,)] = {request.on: 1.0}
                free[request.on] -= 1
            else:
                waiting.append(request)
        if not waiting:
            return found
        asked = arrays_of(
            Demands(tuple(waiting), demands.gpus, demands.table), agnostic=self.agnostic
        )
        with np.errstate(divide="ignore"):
            spans = asked.left[:, None] / asked.rates
        left = np.array([max(0, free[name]) for name in asked.types])
        for request, kind in zip(waiting, first_in_queues(spans, left).tolist(), strict=True):
            if kind >= 0:
                found[(request.job_id,)] = {asked.types[kind]: 1.0}
        return found


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
        from shunter.policies.gavel.solving.answers import max_sum_throughput, min_cost
        from shunter.policies.gavel.solving.groups import Groups, Shares, Status
        from shunter.policies.gavel.solving.interior import Floats

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
