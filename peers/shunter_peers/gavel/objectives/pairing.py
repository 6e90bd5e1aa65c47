"""Pairs that share GPUs as the public simulator makes them without a solver.

`gandiva` pairs at random. It stands in for Gandiva (Xiao et al., OSDI 2018) there, and is another
algorithm: no affinity, no probing, no migration. While the jobs ask for no more GPUs than there
are, each has its equal part alone. Beyond that jobs of equal gangs are paired at random and stay so
until one of them is gone, or until the pair runs slower than one job after the other would.
`fifo_packed` puts the first jobs of the queue beside those who have GPUs.
"""

from dataclasses import dataclass, field
from typing import Final

from shunter.events.values.ids import GpuType, JobId
from shunter.policies.gavel.mechanism.targets import Claim, Fractions, Gang, Wanted
from shunter_peers.gavel.twister import Twister

__all__ = ["PackedFifo", "RandomPairs", "known_gangs"]

WORTHWHILE: Final = 1.5
"""What two jobs together must do of their rates alone, for the queue to be packed."""


def known_gangs(claims: tuple[Claim, ...]) -> list[Gang]:
    """Return each job alone, then each two of equal gangs, by arrival."""
    alone: list[Gang] = [(claim.job_id,) for claim in claims]
    return alone + [
        (one.job_id, two.job_id)
        for place, one in enumerate(claims)
        for two in claims[place + 1 :]
        if one.kind.gpus == two.kind.gpus
    ]


@dataclass(slots=True)
class RandomPairs:
    """Pairs of jobs, each under both its jobs."""

    draws: Twister = field(default_factory=lambda: Twister.seeded(0))
    pairs: dict[JobId, Gang] = field(default_factory=dict)

    def fractions(self, wanted: Wanted) -> Fractions:
        """Return equal parts for all combinations, and nothing for every other one."""
        claims = {claim.job_id: claim for claim in wanted.claims}
        for pair in list(dict.fromkeys(self.pairs.values())):
            if any(job_id not in claims for job_id in pair) or not self._pays(pair, claims, wanted):
                for job_id in pair:
                    del self.pairs[job_id]
        combinations: list[Gang] = [(job_id,) for job_id in claims]
        if sum(claim.kind.gpus for claim in wanted.claims) > sum(wanted.gpus.values()):
            self._pair_up([job_id for job_id in claims if job_id not in self.pairs], claims)
            combinations = list(
                dict.fromkeys(self.pairs.get(job_id, (job_id,)) for job_id in claims)
            )
        found: Fractions = {
            gang: dict.fromkeys(wanted.gpus, 0.0) for gang in known_gangs(wanted.claims)
        }
        for gang in combinations:
            gpus = claims[gang[0]].kind.gpus
            row = {name: many / len(combinations) / gpus for name, many in wanted.gpus.items()}
            whole = max(sum(row.values()), 1.0)
            found[gang] = {name: part / whole for name, part in row.items()}
        return found

    def _pair_up(self, free: list[JobId], claims: dict[JobId, Claim]) -> None:
        """Draw twos; as often as there are jobs, whether or not their gangs are equal."""
        places = {job_id: place for place, job_id in enumerate(claims)}
        for _ in range(len(free)):
            if len(free) < 2:
                return
            one, two = self.draws.sample_two(free)
            if claims[one].kind.gpus != claims[two].kind.gpus:
                continue
            first, second = sorted((one, two), key=places.__getitem__)
            self.pairs[one] = self.pairs[two] = (first, second)
            free.remove(one)
            free.remove(two)

    def _pays(self, pair: Gang, claims: dict[JobId, Claim], wanted: Wanted) -> bool:
        """Say whether a pair gets more done than one job, summed over all GPU types.

        It would have to be asked type by type; so only a type with a 0 dissolves a pair.
        """
        one, two = (claims[job_id] for job_id in pair)
        whole = 0.0
        for name in wanted.gpus:
            rates = wanted.table.pair_rates(name, one.kind, two.kind) or (0.0, 0.0)
            if min(rates) <= 0:
                return False
            whole += _part(wanted, one, name, rates[0]) + _part(wanted, two, name, rates[1])
        return whole >= 1.0


@dataclass(frozen=True, slots=True)
class PackedFifo:
    """First in, first out on the fastest type with room; then two on the same GPUs.

    The job that finds no room ends the first part, and is passed over by the second. That one ends
    with the first job that nobody alone suits for a partner: of equal gang, and doing the most with
    it on the type it has, beyond `WORTHWHILE`.
    """

    def fractions(self, wanted: Wanted) -> Fractions:
        """Return a one for each job or pair that has GPUs, and 0 for every other one."""
        claims = {claim.job_id: claim for claim in wanted.claims}
        placed: dict[Gang, GpuType] = {}
        queue = self._placed_alone(wanted, placed)
        for claim in queue:
            best, most = None, WORTHWHILE
            for gang, name in placed.items():
                if len(gang) == 1:
                    whole = _together(wanted, claims[gang[0]], claim, name)
                    if whole > most:
                        best, most = gang, whole
            if best is None:
                break
            name = placed.pop(best)
            placed[best[0], claim.job_id] = name
        found: Fractions = {
            gang: dict.fromkeys(wanted.gpus, 0.0) for gang in known_gangs(wanted.claims)
        }
        places = {job_id: place for place, job_id in enumerate(claims)}
        for gang, name in placed.items():
            found[tuple(sorted(gang, key=places.__getitem__))][name] = 1.0
        return found

    def _placed_alone(self, wanted: Wanted, placed: dict[Gang, GpuType]) -> list[Claim]:
        """Place jobs in turn; return those behind the first without room."""
        free, queue = dict(wanted.gpus), list(wanted.claims)
        while queue and any(free.values()):
            claim = queue.pop(0)
            rooms = [name for name, gpus in free.items() if gpus and gpus >= claim.kind.gpus]
            if not rooms:
                break
            rates = {name: wanted.rate(claim, name) for name in rooms}
            best = max(rooms, key=rates.__getitem__)
            if rates[best] > 0:
                placed[claim.job_id,] = best
                free[best] -= claim.kind.gpus
        return queue


def _together(wanted: Wanted, one: Claim, two: Claim, gpu_type: GpuType) -> float:
    """Return what two jobs of equal gangs do together, each over its rate alone."""
    if one.kind.gpus != two.kind.gpus:
        return 0.0
    rates = wanted.table.pair_rates(gpu_type, one.kind, two.kind) or (0.0, 0.0)
    return _part(wanted, one, gpu_type, rates[0]) + _part(wanted, two, gpu_type, rates[1])


def _part(wanted: Wanted, claim: Claim, gpu_type: GpuType, beside: float) -> float:
    alone = wanted.rate(claim, gpu_type)
    return beside / alone if alone else 0.0
