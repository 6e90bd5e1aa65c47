"""The policies of the public simulator by their names there, and what the mechanism makes of each.

The simulator looks at names of classes: those with "Perf" or "Packing" in them fill the fastest GPU
type first, all others shuffle the types; and those that begin with "FIFO" let nobody run without a
target.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from shunter.events import GpuType
from shunter.policies.gavel import FastestFirst, Isolated, Proportional, Targets
from shunter_peers.gavel.conic import Form, Kind
from shunter_peers.gavel.mersenne_twister import MersenneTwister
from shunter_peers.gavel.objectives import (
    Allox,
    Centred,
    CentredFinishTimes,
    PackedFifo,
    RandomPairs,
    StaleFifo,
)

V100: Final = GpuType("v100")
Prices = dict[GpuType, float]


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """One policy: its objective, by seed and prices, and how it is played.

    `form` is the problem the public code hands to its solver, if it has one.
    """

    make: Callable[[int, Prices], Targets]
    form: Form | None = None
    shuffles: bool = False
    needs_claim: bool = False
    pairs_too: bool = False


def _plain(objective: Targets, **played: bool) -> PolicyEntry:
    """Return a policy whose objective is always the same, one without a memory."""
    return PolicyEntry(lambda _seed, _prices: objective, None, **played)


def _solved(form: Form, **played: bool) -> PolicyEntry:
    """Return a policy that solves a problem."""
    if form.kind is Kind.finish_times:
        return PolicyEntry(
            lambda _seed, _prices: CentredFinishTimes(
                packed=form.packed, everywhere=form.everywhere
            ),
            form,
            **played,
        )
    return PolicyEntry(lambda _seed, prices: Centred(form, prices), form, **played)


POLICY_TABLE: Final[dict[str, PolicyEntry]] = {
    "allox": PolicyEntry(lambda _seed, _prices: Allox()),
    "fifo": PolicyEntry(
        lambda seed, _prices: StaleFifo(MersenneTwister.seeded(seed)),
        shuffles=True,
        needs_claim=True,
    ),
    "fifo_packed": _plain(PackedFifo(), needs_claim=True, pairs_too=True),
    "fifo_perf": _plain(FastestFirst(), needs_claim=True),
    "finish_time_fairness": _solved(Form(Kind.finish_times, everywhere=V100), shuffles=True),
    "finish_time_fairness_packed": _solved(Form(Kind.finish_times, packed=True), pairs_too=True),
    "finish_time_fairness_perf": _solved(Form(Kind.finish_times)),
    "gandiva": PolicyEntry(
        lambda seed, _prices: RandomPairs(MersenneTwister.seeded(seed)), pairs_too=True
    ),
    "isolated": _plain(Isolated(), shuffles=True),
    "max_min_fairness": _solved(Form(Kind.level, ones=True), shuffles=True),
    "max_min_fairness_packed": _solved(Form(Kind.level, packed=True), pairs_too=True),
    "max_min_fairness_perf": _solved(Form(Kind.level)),
    "max_min_fairness_water_filling": _solved(Form(Kind.filling, ones=True), shuffles=True),
    "max_min_fairness_water_filling_packed": _solved(
        Form(Kind.filling, packed=True), pairs_too=True
    ),
    "max_min_fairness_water_filling_perf": _solved(Form(Kind.filling)),
    "max_sum_throughput_perf": _solved(Form(Kind.sum)),
    "max_sum_throughput_normalized_by_cost_perf": _solved(Form(Kind.sum, priced=True)),
    "max_sum_throughput_normalized_by_cost_packed_SLOs": _solved(
        Form(Kind.sum, packed=True, priced=True, deadlines=True), pairs_too=True
    ),
    "max_sum_throughput_normalized_by_cost_perf_SLOs": _solved(
        Form(Kind.sum, priced=True, deadlines=True)
    ),
    "min_total_duration": _solved(Form(Kind.duration, everywhere=V100), shuffles=True),
    "min_total_duration_packed": _solved(Form(Kind.duration, packed=True), pairs_too=True),
    "min_total_duration_perf": _solved(Form(Kind.duration)),
    "proportional": _plain(Proportional(), shuffles=True),
}
"""By name. Of those with a memory every run has its own."""
