"""The objectives: what shares of GPU types are best for (Narayanan et al., OSDI 2020, section 4).

In this order: durations, max-min fairness, queues, sums, trades between users, and their
names. Those with a solver import numpy when they are first asked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Final, Literal, get_args

from shunter.errors import PlanError
from shunter.events import GpuType, JobId
from shunter.policies.gavel.mechanism import Demands, Fractions, Gang, JobRequest, Targets

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Makespan and finish-time fairness (OSDI 2020, section 4.2; Themis, NSDI 2020, section 3).


@dataclass(frozen=True, slots=True)
class Makespan:
    """All jobs done as early as possible."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all shares with the least makespan."""
        from shunter.policies.gavel.answers import least_total_duration
        from shunter.policies.gavel.arrays import arrays_of, divided

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
        from shunter.policies.gavel.arrays import arrays_of, isolated_rates

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
        from shunter.policies.gavel.answers import finish_time_fairness
        from shunter.policies.gavel.arrays import arrays_of, divided

        found = arrays_of(demands, agnostic=self.agnostic)
        columns = [found.ages_s, found.left, self.whole_s(demands)]
        return divided(demands, found, columns, finish_time_fairness, packed=self.packed)


# Max-min fairness (OSDI 2020, sections 3.1, 4.1, 4.3). Agnostic: all GPUs count the same. Packed:
# two jobs may share GPUs.


@dataclass(frozen=True, slots=True)
class MaxMinFairness:
    """Least attained service as a program: weights, gangs and speeds considered."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of the optimal face."""
        from shunter.policies.gavel.answers import max_min_fairness
        from shunter.policies.gavel.arrays import arrays_of, divided

        found = arrays_of(demands, agnostic=self.agnostic)
        return divided(demands, found, [found.weights], max_min_fairness, packed=self.packed)


@dataclass(frozen=True, slots=True)
class WaterFilling:
    """The least is the largest, then the least of all others, and so on."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all lexicographic optima."""
        from shunter.policies.gavel.answers import water_filling
        from shunter.policies.gavel.arrays import arrays_of, divided

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

        from shunter.policies.gavel.answers import hierarchical
        from shunter.policies.gavel.arrays import arrays_of, divided
        from shunter.policies.gavel.interior import Floats
        from shunter.policies.gavel.programs import Groups, Shares

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


# Whole GPUs in line, or by AlloX on GPU types (Le et al., EuroSys 2020, section 4), which knows
# jobs of one GPU only: gangs get what is left.


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

        from shunter.policies.gavel.arrays import arrays_of, first_in_queues

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

        from shunter.policies.gavel.answers import max_sum_throughput, min_cost
        from shunter.policies.gavel.arrays import arrays_of, divided
        from shunter.policies.gavel.interior import Floats
        from shunter.policies.gavel.programs import Groups, Shares, Status

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


# Gandiva fair (Chaudhary et al., EuroSys 2020): equal parts of every GPU type for each user, and
# trades. The users who gain most from the faster type pay those who gain least with more GPUs of
# the slower one, at what it is worth to the second highest bidder.
#
# Deviation: with one bidder the second is the seller, who would gain nothing; the price is then the
# geometric mean of what the type is worth to both.
# Deviation: the paper has stride schedulers and moves; here parts are target shares of time.

_LEAST = 1e-9  # GPUs


@dataclass(slots=True)
class Holding:
    """The GPUs a user has of each type, and can use of each and in all."""

    gpus: dict[GpuType, float]
    usable: dict[GpuType, float]
    demands: float

    @property
    def room(self) -> float:
        """How many more GPUs its jobs could use."""
        return self.demands - sum(self.gpus.values())

    def takes(self, gpu_type: GpuType) -> float:
        """Return how many more GPUs of a type it could use."""
        return max(0.0, min(self.usable[gpu_type] - self.gpus[gpu_type], self.room))


@dataclass(frozen=True, slots=True)
class GandivaFair:
    """Tickets by entity, 1 for all others; agnostic, nobody trades."""

    weights: dict[str, float] = field(default_factory=dict)
    agnostic: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return each job's part of what its entity has after all trades."""
        requests: dict[str, list[JobRequest]] = {}
        for request in demands.requests:
            requests.setdefault(request.entity, []).append(request)
        order = _by_speed(demands)
        holdings = self.parts(demands, requests, order)
        if not self.agnostic:
            for place, fast in enumerate(order):
                for slow in order[place + 1 :]:
                    worth = {
                        name: ratio
                        for name, mine in requests.items()
                        if (ratio := _worth(demands, mine, fast, slow)) is not None
                    }
                    trade(holdings, worth, fast, slow)
        found: Fractions = {(request.job_id,): {} for request in demands.requests}
        for name, mine in requests.items():
            _divide(demands, mine, holdings[name], order, found)
        return found

    def parts(
        self,
        demands: Demands,
        requests: Mapping[str, Sequence[JobRequest]],
        order: Sequence[GpuType],
    ) -> dict[str, Holding]:
        """Return the parts by tickets alone; what some cannot use goes to the others."""
        holdings = {}
        for name, mine in requests.items():
            usable = {
                at: float(sum(one.kind.gpus for one in mine if demands.rate(one, at) > 0))
                for at in order
            }
            asked = float(sum(one.kind.gpus for one in mine))
            holdings[name] = Holding(dict.fromkeys(order, 0.0), usable, asked)
        for gpu_type in order:
            caps = {name: holding.takes(gpu_type) for name, holding in holdings.items()}
            filled = _filled(float(demands.gpus[gpu_type]), caps, self.weights)
            for name, gpus in filled.items():
                holdings[name].gpus[gpu_type] = gpus
        return holdings


def trade(
    holdings: Mapping[str, Holding], worth: Mapping[str, float], fast: GpuType, slow: GpuType
) -> None:
    """Let entities exchange GPUs of two types while that serves both sides.

    Args:
        holdings: what each has; changed in place.
        worth: how many slow GPUs do as much for an entity as a fast one.
        fast: what is bought.
        slow: what is paid with.
    """
    bidders = sorted(worth, key=lambda name: -worth[name])
    sellers = sorted(worth, key=lambda name: worth[name])
    while bidders and sellers and worth[bidders[0]] > worth[sellers[0]]:
        buyer, seller = bidders[0], sellers[0]
        second = worth[bidders[1]] if len(bidders) > 1 else worth[seller]
        price = second if second > worth[seller] else sqrt(worth[buyer] * worth[seller])
        gives, takes = holdings[seller], holdings[buyer]
        more = price - 1.0  # GPUs in all that the seller has then for each he gave
        grows = gives if more > 0 else takes
        many = min(
            gives.gpus[fast],
            takes.gpus[slow] / price,
            takes.usable[fast] - takes.gpus[fast],
            (gives.usable[slow] - gives.gpus[slow]) / price,
            max(0.0, grows.room) / abs(more) if more else gives.gpus[fast],
        )
        if many > _LEAST:
            gives.gpus[fast] -= many
            takes.gpus[fast] += many
            gives.gpus[slow] += many * price
            takes.gpus[slow] -= many * price
        # What ended the trade is used up: either side goes on with somebody else, or not at all.
        full = takes.usable[fast] - takes.gpus[fast] <= _LEAST
        if full or takes.gpus[slow] <= _LEAST or (more < 0 and takes.room <= _LEAST):
            bidders.pop(0)
        else:
            sellers.pop(0)


def _by_speed(demands: Demands) -> list[GpuType]:
    """Return the types, those first on which jobs are faster; of equals by name."""
    types = sorted(demands.gpus)
    speed = dict.fromkeys(types, 0.0)
    for request in demands.requests:
        best = max((demands.rate(request, name) for name in types), default=0.0)
        if best > 0:
            for name in types:
                speed[name] += demands.rate(request, name) / best
    return sorted(types, key=lambda name: -speed[name])


def _worth(
    demands: Demands, requests: Sequence[JobRequest], fast: GpuType, slow: GpuType
) -> float | None:
    """Return how much faster jobs are on one type; None: they cannot choose."""
    ratios = [
        (demands.rate(request, fast) / demands.rate(request, slow), request.kind.gpus)
        for request in requests
        if demands.rate(request, fast) > 0 and demands.rate(request, slow) > 0
    ]
    if not ratios:
        return None
    return sum(ratio * gpus for ratio, gpus in ratios) / sum(gpus for _, gpus in ratios)


def _filled(
    total: float, caps: Mapping[str, float], weights: Mapping[str, float]
) -> dict[str, float]:
    """Divide by weights; what is above a cap goes to others (progressive filling)."""
    found = dict.fromkeys(caps, 0.0)
    open_ = sorted(caps, key=lambda name: caps[name] / weights.get(name, 1.0))
    left, sum_ = total, sum(weights.get(name, 1.0) for name in open_)
    for name in open_:
        weight = weights.get(name, 1.0)
        found[name] = min(caps[name], left * weight / sum_)
        left, sum_ = left - found[name], sum_ - weight
    return found


def _divide(
    demands: Demands,
    requests: Sequence[JobRequest],
    holding: Holding,
    order: Sequence[GpuType],
    found: Fractions,
) -> None:
    """Give an entity's jobs equal times of each type, as far as each has any left."""
    left = {request.job_id: 1.0 for request in requests}
    for gpu_type in order:
        able = [request for request in requests if demands.rate(request, gpu_type) > 0]
        able.sort(key=lambda request: left[request.job_id])
        gpus, width = holding.gpus[gpu_type], sum(request.kind.gpus for request in able)
        for request in able:
            part = min(left[request.job_id], gpus / width)
            gpus, width = gpus - part * request.kind.gpus, width - request.kind.gpus
            left[request.job_id] -= part
            if part > 0:
                found[(request.job_id,)][gpu_type] = part


ObjectiveName = Literal[
    "allox",
    "fifo",
    "finish_time_fairness",
    "gandiva_fair",
    "hierarchical",
    "isolated",
    "makespan",
    "max_min_fairness",
    "max_sum_throughput",
    "min_cost",
    "min_cost_slo",
    "proportional",
    "shortest_job_first",
    "water_filling",
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What objectives can be told; each looks at what concerns it."""

    aware: bool = True
    prices: dict[GpuType, float] = field(default_factory=dict)
    entity_weights: dict[str, float] = field(default_factory=dict)
    inside: Literal["fairness", "fifo"] = "fairness"
    packed: bool = False

    @property
    def agnostic(self) -> bool:
        """Whether all GPU types count the same."""
        return not self.aware


OBJECTIVES: Final[dict[str, Callable[[Chosen], Targets]]] = {
    "allox": lambda chosen: QueueAssignment(chosen.agnostic),
    "fifo": lambda chosen: FastestFirst(agnostic=chosen.agnostic),
    "finish_time_fairness": lambda chosen: FinishTimes(chosen.agnostic, packed=chosen.packed),
    "gandiva_fair": lambda chosen: GandivaFair(chosen.entity_weights, chosen.agnostic),
    "hierarchical": lambda chosen: Hierarchical(
        chosen.entity_weights, chosen.inside, chosen.agnostic, chosen.packed
    ),
    "isolated": lambda _chosen: Isolated(),
    "makespan": lambda chosen: Makespan(chosen.agnostic, packed=chosen.packed),
    "max_min_fairness": lambda chosen: MaxMinFairness(chosen.agnostic, packed=chosen.packed),
    "max_sum_throughput": lambda chosen: ThroughputSum(
        agnostic=chosen.agnostic, packed=chosen.packed
    ),
    "min_cost": lambda chosen: ThroughputSum(
        chosen.prices, agnostic=chosen.agnostic, packed=chosen.packed
    ),
    "min_cost_slo": lambda chosen: ThroughputSum(
        chosen.prices, deadlines=True, agnostic=chosen.agnostic, packed=chosen.packed
    ),
    "proportional": lambda _chosen: Proportional(),
    "shortest_job_first": lambda chosen: FastestFirst(shortest=True, agnostic=chosen.agnostic),
    "water_filling": lambda chosen: WaterFilling(chosen.agnostic, packed=chosen.packed),
}
UNSHARED: Final = (
    "allox",
    "fifo",
    "gandiva_fair",
    "isolated",
    "proportional",
    "shortest_job_first",
)
"""Objectives that give whole GPUs to one job each, so that there is no room for another."""

assert set(OBJECTIVES) == set(get_args(ObjectiveName))
