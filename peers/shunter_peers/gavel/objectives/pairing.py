"""Pairs that share GPUs as the public simulator makes them without a solver.

`gandiva` pairs at random. It stands in for Gandiva (Xiao et al., OSDI 2018) there, and is another
algorithm: no affinity, no probing, no migration. While the jobs ask for no more GPUs than there
are, each has its equal part alone. Beyond that jobs of equal gangs are paired at random and stay so
until one of them is gone, or until the pair runs slower than one job after the other would.
`fifo_packed` puts the first jobs of the queue beside those who have GPUs.
"""

from dataclasses import dataclass, field
from typing import Final

from shunter.events import GpuType, JobId
from shunter.policies.gavel import Demands, Fractions, Gang, JobRequest
from shunter_peers.gavel.mersenne_twister import MersenneTwister

WORTHWHILE: Final = 1.5
"""What two jobs together must do of their rates alone, for the queue to be packed."""


def known_gangs(requests: tuple[JobRequest, ...]) -> list[Gang]:
    """Return each job alone, then each two of equal gangs, by arrival."""
    alone: list[Gang] = [(request.job_id,) for request in requests]
    return alone + [
        (one.job_id, two.job_id)
        for place, one in enumerate(requests)
        for two in requests[place + 1 :]
        if one.kind.gpus == two.kind.gpus
    ]


@dataclass(slots=True)
class RandomPairs:
    """Pairs of jobs, each under both its jobs."""

    draws: MersenneTwister = field(default_factory=lambda: MersenneTwister.seeded(0))
    pairs: dict[JobId, Gang] = field(default_factory=dict)

    def fractions(self, demands: Demands) -> Fractions:
        """Return equal parts for all combinations, and nothing for every other one."""
        requests = {request.job_id: request for request in demands.requests}
        for pair in list(dict.fromkeys(self.pairs.values())):
            if any(job_id not in requests for job_id in pair) or not self._pays(
                pair, requests, demands
            ):
                for job_id in pair:
                    del self.pairs[job_id]
        combinations: list[Gang] = [(job_id,) for job_id in requests]
        if sum(request.kind.gpus for request in demands.requests) > sum(demands.gpus.values()):
            self._pair_up([job_id for job_id in requests if job_id not in self.pairs], requests)
            combinations = list(
                dict.fromkeys(self.pairs.get(job_id, (job_id,)) for job_id in requests)
            )
        found: Fractions = {
            gang: dict.fromkeys(demands.gpus, 0.0) for gang in known_gangs(demands.requests)
        }
        for gang in combinations:
            gpus = requests[gang[0]].kind.gpus
            row = {name: many / len(combinations) / gpus for name, many in demands.gpus.items()}
            whole = max(sum(row.values()), 1.0)
            found[gang] = {name: part / whole for name, part in row.items()}
        return found

    def _pair_up(self, free: list[JobId], requests: dict[JobId, JobRequest]) -> None:
        """Draw twos; as often as there are jobs, whether or not their gangs are equal."""
        places = {job_id: place for place, job_id in enumerate(requests)}
        for _ in range(len(free)):
            if len(free) < 2:
                return
            one, two = self.draws.sample_two(free)
            if requests[one].kind.gpus != requests[two].kind.gpus:
                continue
            first, second = sorted((one, two), key=places.__getitem__)
            self.pairs[one] = self.pairs[two] = (first, second)
            free.remove(one)
            free.remove(two)

    def _pays(self, pair: Gang, requests: dict[JobId, JobRequest], demands: Demands) -> bool:
        """Say whether a pair gets more done than one job, summed over all GPU types.

        It would have to be asked type by type; so only a type with a 0 dissolves a pair.
        """
        one, two = (requests[job_id] for job_id in pair)
        whole = 0.0
        for name in demands.gpus:
            rates = demands.table.pair_rates(name, one.kind, two.kind) or (0.0, 0.0)
            if min(rates) <= 0:
                return False
            whole += _part(demands, one, name, rates[0]) + _part(demands, two, name, rates[1])
        return whole >= 1.0


@dataclass(frozen=True, slots=True)
class PackedFifo:
    """First in, first out on the fastest type with room; then two on the same GPUs.

    The job that finds no room ends the first part, and is passed over by the second. That one ends
    with the first job that nobody alone suits for a partner: of equal gang, and doing the most with
    it on the type it has, beyond `WORTHWHILE`.
    """

    def fractions(self, demands: Demands) -> Fractions:
        """Return a one for each job or pair that has GPUs, and 0 for every other one."""
        requests = {request.job_id: request for request in demands.requests}
        placed: dict[Gang, GpuType] = {}
        queue = self._placed_alone(demands, placed)
        for request in queue:
            best, most = None, WORTHWHILE
            for gang, name in placed.items():
                if len(gang) == 1:
                    whole = _together(demands, requests[gang[0]], request, name)
                    if whole > most:
                        best, most = gang, whole
            if best is None:
                break
            name = placed.pop(best)
            placed[best[0], request.job_id] = name
        found: Fractions = {
            gang: dict.fromkeys(demands.gpus, 0.0) for gang in known_gangs(demands.requests)
        }
        places = {job_id: place for place, job_id in enumerate(requests)}
        for gang, name in placed.items():
            found[tuple(sorted(gang, key=places.__getitem__))][name] = 1.0
        return found

    def _placed_alone(self, demands: Demands, placed: dict[Gang, GpuType]) -> list[JobRequest]:
        """Place jobs in turn; return those behind the first without room."""
        free, queue = dict(demands.gpus), list(demands.requests)
        while queue and any(free.values()):
            request = queue.pop(0)
            rooms = [name for name, gpus in free.items() if gpus and gpus >= request.kind.gpus]
            if not rooms:
                break
            rates = {name: demands.rate(request, name) for name in rooms}
            best = max(rooms, key=rates.__getitem__)
            if rates[best] > 0:
                placed[request.job_id,] = best
                free[best] -= request.kind.gpus
        return queue


def _together(demands: Demands, one: JobRequest, two: JobRequest, gpu_type: GpuType) -> float:
    """Return what two jobs of equal gangs do together, each over its rate alone."""
    if one.kind.gpus != two.kind.gpus:
        return 0.0
    rates = demands.table.pair_rates(gpu_type, one.kind, two.kind) or (0.0, 0.0)
    return _part(demands, one, gpu_type, rates[0]) + _part(demands, two, gpu_type, rates[1])


def _part(demands: Demands, request: JobRequest, gpu_type: GpuType, beside: float) -> float:
    alone = demands.rate(request, gpu_type)
    return beside / alone if alone else 0.0
