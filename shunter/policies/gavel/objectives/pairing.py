"""Random pairs that share GPUs, as the public simulator's `gandiva` makes them.

It stands in for Gandiva (Xiao et al., OSDI 2018) there, and is another algorithm: no affinity, no
probing, no migration. While the jobs ask for no more GPUs than there are, each has its equal part
alone. Beyond that jobs of equal gangs are paired at random and stay so until one of them is gone,
or until the pair runs slower than one job after the other would.
"""

from dataclasses import dataclass, field

from shunter.events.values.ids import GpuType, JobId
from shunter.policies.gavel.mechanism.targets import Claim, Fractions, Gang, Wanted
from shunter.policies.gavel.mechanism.twister import Twister

__all__ = ["RandomPairs", "known_gangs"]


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


def _part(wanted: Wanted, claim: Claim, gpu_type: GpuType, beside: float) -> float:
    alone = wanted.rate(claim, gpu_type)
    return beside / alone if alone else 0.0
