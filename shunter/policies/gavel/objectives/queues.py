"""Whole GPUs for who is first: in line, or in the queues of the best assignment.

The assignment is AlloX on GPU types (Le et al., EuroSys 2020, section 4). It knows jobs of one GPU
only: of a gang there is no place in the queue of one GPU. Gangs get what is left over.
"""

from dataclasses import dataclass

from shunter.events.values.ids import GpuType
from shunter.policies.gavel.mechanism.targets import Claim, Fractions, Gang, Wanted

__all__ = ["FastestFirst", "QueueAssignment"]


@dataclass(frozen=True, slots=True)
class FastestFirst:
    """Each job in turn takes all of the fastest type with room.

    The first that finds no room ends it. A job that cannot run on any type with room (a rate of 0)
    gets nothing and holds nobody up. `shortest` goes by the time left on the fastest type instead
    of arrival, `agnostic` by the room of types instead of their speed.
    """

    shortest: bool = False
    agnostic: bool = False

    def fractions(self, wanted: Wanted) -> Fractions:
        """Return ones and zeros."""
        free = dict(wanted.gpus)
        found: dict[Gang, dict[GpuType, float]] = {
            (claim.job_id,): dict.fromkeys(free, 0.0) for claim in wanted.claims
        }
        for claim in self._in_order(wanted):
            rooms = [name for name in free if free[name] >= claim.kind.gpus]
            if not rooms:
                break
            rates = {name: wanted.rate(claim, name) for name in rooms}
            if self.agnostic:
                rates = {name: float(free[name]) * (rates[name] > 0) for name in rooms}
            best = max(rooms, key=rates.__getitem__)
            if rates[best] > 0:
                free[best] -= claim.kind.gpus
                found[(claim.job_id,)][best] = 1.0
        return found

    def _in_order(self, wanted: Wanted) -> list[Claim]:
        if not self.shortest:
            return list(wanted.claims)
        fastest = [max(wanted.rate(claim, name) for name in wanted.gpus) for claim in wanted.claims]
        left = zip(wanted.claims, fastest, strict=True)
        spans = [claim.left / rate if rate > 0 else float("inf") for claim, rate in left]
        return [wanted.claims[place] for place in sorted(range(len(spans)), key=spans.__getitem__)]


@dataclass(frozen=True, slots=True)
class QueueAssignment:
    """Whole GPUs for the first of each queue, which keeps them until it ends."""

    agnostic: bool = False

    def fractions(self, wanted: Wanted) -> Fractions:
        """Return ones, for those that run; the others have no row."""
        import numpy as np

        from shunter.policies.gavel.assignment import first_in_queues
        from shunter.policies.gavel.objectives.arrays import arrays_of

        free = dict(wanted.gpus)
        found: dict[Gang, dict[GpuType, float]] = {}
        waiting: list[Claim] = []
        for claim in wanted.claims:
            if claim.kind.gpus > 1:
                if claim.on is not None:
                    free[claim.on] -= claim.kind.gpus
            elif claim.on is not None and free.get(claim.on, 0) > 0:
                found[(claim.job_id,)] = {claim.on: 1.0}
                free[claim.on] -= 1
            else:
                waiting.append(claim)
        if not waiting:
            return found
        asked = arrays_of(Wanted(tuple(waiting), wanted.gpus, wanted.table), agnostic=self.agnostic)
        with np.errstate(divide="ignore"):
            spans = asked.left[:, None] / asked.rates
        left = np.array([max(0, free[name]) for name in asked.types])
        for claim, kind in zip(waiting, first_in_queues(spans, left).tolist(), strict=True):
            if kind >= 0:
                found[(claim.job_id,)] = {asked.types[kind]: 1.0}
        return found
