"""AlloX on GPU types: whoever is first in the queues of the best assignment has whole GPUs.

Le et al., AlloX, EuroSys 2020, section 4. Jobs of one GPU only: of a gang there is no place in the
queue of one GPU. Gangs get what is left over.
"""

from dataclasses import dataclass

from shunter.events.values.ids import GpuType
from shunter.policies.gavel.mechanism.targets import Claim, Fractions, Gang, Wanted

__all__ = ["QueueAssignment"]


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
