"""Whole GPUs for who is first: in line, or in the queues of the best assignment.

The assignment is AlloX on GPU types (Le et al., EuroSys 2020, section 4). It knows jobs of one GPU
only: of a gang there is no place in the queue of one GPU. Gangs get what is left over.
"""

from dataclasses import dataclass

from shunter.events.values.ids import GpuType
from shunter.policies.gavel.mechanism.targets import Demands, Fractions, Gang, JobRequest


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
