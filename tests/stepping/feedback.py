"""Tiresias' queues, microsecond by microsecond: no instant is computed, all are waited for.

Between two events the world stands still but for time, so at every event and every plan the clocks
of all jobs are moved tick by tick from the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shunter.core import Job, Observers, Plan, Rng, View
from shunter.core.planning import Placement
from shunter.events import KINDS, Event, JobId, JobSubmitted, Target
from tests.stepping.policy import Stepping


@dataclass
class Clocks:
    """What one job has done since its last promotion, and where it stands."""

    entered_us: int
    queue: int = 0
    attained: int = 0
    executed: int = 0
    waited: int = 0


@dataclass
class Queues:
    """All jobs with their clocks, and what each was doing after the last event."""

    jobs: dict[JobId, Clocks] = field(default_factory=dict)
    served: dict[JobId, int] = field(default_factory=dict)
    pending: set[JobId] = field(default_factory=set)
    now_us: int = 0


@dataclass(frozen=True)
class Feedback:
    """The literal greedy over queues: `bounds` of attained service, and the promote knob."""

    placement: Placement
    bounds: Sequence[int]
    knob: float
    counts_gpus: bool = True
    name: str = "tiresias"
    version: str = "1"
    oracle: bool = False

    def start(self, view: View) -> Queues:
        return Queues()

    def observers(self, memory: Queues) -> Observers:
        def seen(event: Event, view: View) -> None:
            self._pass_time(memory, event.at_us)
            if isinstance(event, JobSubmitted):
                memory.jobs[event.job_id] = Clocks(event.at_us)
            self._look(memory, view)

        return dict.fromkeys(KINDS.values(), seen)

    def advance(self, memory: Queues, view: View) -> None:
        self._pass_time(memory, view.now_us)

    def target(self, memory: Queues, view: View) -> tuple[Target, ...] | None:
        return None

    def wake_at(self, memory: Queues) -> int | None:
        return 0

    def settled(self, memory: Queues) -> bool:
        return False

    def plan(self, memory: Queues, view: View, rng: Rng) -> Plan:
        def rank(job: Job, view: View) -> int:
            clocks = memory.jobs[job.job_id]
            return clocks.queue * 1_000_000 + clocks.entered_us

        literal = Stepping(self.name, rank, self.placement, preemptive=True)
        return literal.plan(None, view, rng)

    def _look(self, memory: Queues, view: View) -> None:
        jobs = view.jobs.values()
        memory.served = {job.job_id: job.gpus for job in jobs if job.since_us is not None}
        memory.pending = {job.job_id for job in jobs if job.waiting_since_us is not None}

    def _pass_time(self, memory: Queues, until_us: int) -> None:
        while memory.now_us < until_us:
            memory.now_us += 1
            for job_id, clocks in memory.jobs.items():
                if job_id in memory.served:
                    clocks.attained += memory.served[job_id] if self.counts_gpus else 1
                    clocks.executed += 1
                elif job_id in memory.pending and clocks.executed:
                    clocks.waited += 1
                self._move(clocks, job_id in memory.served, memory.now_us)

    def _move(self, clocks: Clocks, is_served: bool, now_us: int) -> None:
        if is_served:
            while clocks.queue < len(self.bounds) and clocks.attained >= self.bounds[clocks.queue]:
                clocks.queue, clocks.entered_us = clocks.queue + 1, now_us
        elif clocks.queue and clocks.executed and self._starves(clocks):
            clocks.queue, clocks.entered_us = 0, now_us
            clocks.attained = clocks.executed = clocks.waited = 0

    def _starves(self, clocks: Clocks) -> bool:
        return bool(self.knob) and clocks.waited >= self.knob * clocks.executed
