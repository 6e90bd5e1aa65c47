"""The simulated backend for the contract suite: instant, with costs, and with each lease."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from shunter.backends.simulated import (
    Costs,
    Credit,
    EndSeen,
    Lease,
    Progress,
    RoundEnds,
    SimulatedBackend,
)
from shunter.core.speeds import SpeedModel
from shunter.events import JobId, JobSpec, NodeName
from shunter.workloads import JobEnd, TraceJob
from tests.contracts.backends import Program, Stage
from tests.factories import configuration

TICK_US = 1000
STEPS_PER_TICK = 4
SOME_COSTS = Costs(start_us=300, suspend_us=200, resume_us=400, migrate_us=500)
ENDS = {0: JobEnd.finished, 1: JobEnd.failed}


@dataclass(frozen=True, slots=True)
class SimulatedStage:
    """A simulated backend to which all its jobs have been submitted."""

    backend: SimulatedBackend
    now_us: int
    specs: Mapping[JobId, JobSpec]

    def spec(self, job: JobId) -> JobSpec:
        return self.specs[job]


@dataclass(frozen=True, slots=True)
class SimulatedKind:
    """The simulated backend with some settings."""

    name: str
    costs: Costs = field(default_factory=Costs)
    lease: Lease = field(default_factory=Lease)
    slack_us: int = 0
    tick_us: int = TICK_US
    in_turns: bool = False

    @asynccontextmanager
    async def staged(
        self, servers: Mapping[NodeName, int], programs: Sequence[Program]
    ) -> AsyncIterator[Stage]:
        """Submit all programs at the first instant; the simulated world knows its trace."""
        jobs = [_job(program) for program in programs]
        nodes = {name: configuration(gpus) for name, gpus in servers.items()}
        speeds = SpeedModel(nodes) if self.in_turns else None
        backend = SimulatedBackend(jobs, costs=self.costs, lease=self.lease, speeds=speeds)
        now_us, _ = await backend.observe(0)
        yield SimulatedStage(backend, now_us, {job.job_id: job.spec for job in jobs})


def _job(program: Program) -> TraceJob:
    ticks = program.work_ticks
    spec = JobSpec(1, total_steps=ticks * STEPS_PER_TICK)
    return TraceJob(JobId(program.name), 0, spec, ticks * TICK_US, ENDS[program.exit_code])


# A lease that hides an end, or cuts a step off, makes an attempt end up to a lease later.
SIMULATED_KINDS = (
    SimulatedKind("simulated-instant"),
    SimulatedKind("simulated-costs", SOME_COSTS),
    SimulatedKind("simulated-in-turns", SOME_COSTS, in_turns=True),
    SimulatedKind(
        "simulated-late-ends",
        lease=Lease(end_seen=EndSeen.at_lease_end, round_us=TICK_US),
        slack_us=TICK_US,
    ),
    SimulatedKind(
        "simulated-whole-steps",
        SOME_COSTS,
        Lease(progress=Progress.whole_steps, round_us=TICK_US),
        slack_us=TICK_US,
    ),
    SimulatedKind(
        "simulated-granted",
        SOME_COSTS,
        Lease(credit=Credit.at_grant, end_seen=EndSeen.at_lease_end, round_us=TICK_US),
        slack_us=TICK_US,
    ),
    SimulatedKind(
        "simulated-gang-rounds",
        SOME_COSTS,
        Lease(
            progress=Progress.whole_steps,
            end_seen=EndSeen.at_lease_end,
            round_ends=RoundEnds.last_gang,
            round_us=TICK_US,
        ),
        slack_us=TICK_US,
        in_turns=True,
    ),
)
