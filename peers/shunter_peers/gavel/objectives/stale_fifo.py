"""First in, first out as the public simulator has it."""

from dataclasses import dataclass, field

from shunter.events import GpuType, JobId
from shunter.policies.gavel import Demands, Fractions, JobRequest
from shunter_peers.gavel.mersenne_twister import MersenneTwister


@dataclass(slots=True)
class StaleFifo:
    """The simulator's `fifo`: the type named last of those that had room.

    However full it gets meanwhile, as long as any type has room for the job; if none has, it and
    all behind it wait. A random draw was to choose the type. What it does choose is which type is
    struck off when the last one has exactly no GPU left. First of all, the head of the queue
    inherits the type of each ended job, if that has room: it has not while it is overfull.
    """

    draws: MersenneTwister = field(default_factory=lambda: MersenneTwister.seeded(0))
    given: dict[JobId, GpuType] = field(default_factory=dict)
    order: list[JobId] = field(default_factory=list)

    def fractions(self, demands: Demands) -> Fractions:
        """Return a one for each job that was given a type."""
        free = dict(demands.gpus)
        known = {request.job_id: request for request in demands.requests}
        queue = [request for request in demands.requests if request.job_id not in self.given]
        places = {job_id: place for place, job_id in enumerate(self.order)}
        for job_id in sorted(self.given, key=places.__getitem__):
            name = self.given[job_id]
            if job_id in known:
                free[name] -= known[job_id].kind.gpus
                continue
            del self.given[job_id]
            if queue and queue[0].kind.gpus <= free[name] and demands.rate(queue[0], name) > 0:
                self._give(queue.pop(0), name, free)
        self._fill(queue, demands, free)
        self.order = list(known)
        return {
            (job_id,): {name: float(self.given.get(job_id) == name) for name in free}
            for job_id in known
        }

    def _fill(self, queue: list[JobRequest], demands: Demands, free: dict[GpuType, int]) -> None:
        """Give the queue the type named last, while there is room on any."""
        names = [name for name in free if free[name] > 0]
        for request in queue:
            rooms = [place for place, name in enumerate(names) if free[name] >= request.kind.gpus]
            if not rooms:
                return
            drawn, name = rooms[self.draws.below(len(rooms))], names[-1]
            if demands.rate(request, name) > 0:
                self._give(request, name, free)
                if free[name] == 0:
                    names.pop(drawn)

    def _give(self, request: JobRequest, name: GpuType, free: dict[GpuType, int]) -> None:
        self.given[request.job_id] = name
        free[name] -= request.kind.gpus
