"""Aging by the letter: at every event and plan, look how long each job has waited."""

from dataclasses import dataclass, field

from shunter.core import Job, Observers, Plan, Rng, View
from shunter.core.planning import Placement
from shunter.events import KINDS, Event, JobId, Target
from tests.stepping.policy import Stepping
from tests.stepping.ranks import Rank

ONE_LEVEL = 1 << 64


@dataclass
class Waits:
    """Since when each job waited when last seen, and from which level each placed one started."""

    since_us: dict[JobId, int] = field(default_factory=dict)
    turns: dict[JobId, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Rising:
    """Any rank, with levels that waiting jobs rise to and started ones have their turn on."""

    name: str
    rank: Rank
    placement: Placement
    every_us: int
    levels: int
    oracle: bool = False
    version: str = "1"

    def start(self, view: View) -> Waits:
        return Waits()

    def observers(self, memory: Waits) -> Observers:
        def seen(event: Event, view: View) -> None:
            for job_id, job in view.jobs.items():
                if job.allocation.shares and job_id in memory.since_us:
                    level = self._level(memory.since_us.pop(job_id), event.at_us)
                    if level:
                        memory.turns[job_id] = level
                elif not job.allocation.shares:
                    memory.turns.pop(job_id, None)
                    memory.since_us.pop(job_id, None)
                    if job.waiting_since_us is not None:
                        memory.since_us[job_id] = job.waiting_since_us

        return dict.fromkeys(KINDS.values(), seen)

    def advance(self, memory: Waits, view: View) -> None:
        """Keep nothing up to date."""

    def target(self, memory: Waits, view: View) -> tuple[Target, ...] | None:
        return None

    def wake_at(self, memory: Waits) -> int | None:
        return 0

    def settled(self, memory: Waits) -> bool:
        return False

    def plan(self, memory: Waits, view: View, rng: Rng) -> Plan:
        def raised(job: Job, view: View) -> int:
            if job.allocation.shares:
                level = memory.turns.get(job.job_id, 0)
                is_over = job.since_us is not None and view.now_us >= job.since_us + self.every_us
                return -level * ONE_LEVEL - (1 << 62) if level and not is_over else base(job, view)
            level = self._level(job.waiting_since_us, view.now_us)
            if level == self.levels and job.waiting_since_us is not None:
                return job.waiting_since_us - level * ONE_LEVEL
            return base(job, view) - level * ONE_LEVEL

        base = self.rank
        literal = Stepping(self.name, raised, self.placement, preemptive=True, oracle=self.oracle)
        return literal.plan(None, view, rng)

    def _level(self, since_us: int | None, now_us: int) -> int:
        return 0 if since_us is None else min(self.levels, (now_us - since_us) // self.every_us)
