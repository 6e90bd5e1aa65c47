"""Gandiva fair: equal parts of every GPU type for each user, and trades between them.

Chaudhary et al., Balancing Efficiency and Fairness in Heterogeneous GPU Clusters for Deep Learning,
EuroSys 2020. Every user has tickets, and by them a part of each GPU type. Whose jobs gain most from
the faster type then buys of it from whose jobs gain least, and pays with more GPUs of the slower
one: both get more done than on their own parts. As in the paper, the price is what the type is
worth to the second highest bidder.

Deviation: with one bidder, that is the seller itself, who would gain nothing; the price is then the
geometric mean of what it is worth to both. Deviation: the paper hands tickets to a stride scheduler
on each server and moves jobs to balance the load; here parts are target shares of time, followed
like those of any other objective. A user's jobs share his parts alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from shunter.events.values import GpuType
from shunter.policies.gavel.mechanism.targets import Demands, Fractions, JobRequest

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
