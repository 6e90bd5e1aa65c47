"""A run in which gangs of a model measure what distance costs them, and a floor goes by that.

Two servers of 4 GPUs in one rack. j0 has one server, and others leave two GPUs of each, on which j6
runs at half of its speed. So it is learnt that 2+2 is too slow for j7, which waits, and not for j8.
"""

from dataclasses import replace
from typing import Any

from shunter.backends.simulated import Samples
from shunter.core.planning import Mode, Topology
from shunter.core.ranking import RankedPolicy
from shunter.core.speeds import FactorTable, ModelFactors, SpeedModel
from shunter.events import JobSpec, SchedulerStarted
from shunter.workloads import JobEnd, TraceJob
from tests.factories import Outcome, World, job_id, policy, run, servers
from tests.replay.recording import Recorded, rebuilt

MINUTE = 60_000_000
APART = 0.5
FACTORS = FactorTable({"resnet": ModelFactors(shapes={(2, 2): APART})})


def job(number: int, gpus: int, at: int, lasts: int, model: str = "", **asks: Any) -> TraceJob:
    spec = JobSpec(gpus, model=model, total_steps=600 * lasts, **asks)
    return TraceJob(job_id(number), at * MINUTE, spec, lasts * MINUTE, JobEnd.finished)


JOBS = (
    job(0, 4, 0, 20, "resnet"),
    job(1, 2, 30, 60, shapes=((2,),)),
    job(2, 3, 31, 20, shapes=((3,),)),
    job(3, 2, 32, 20, shapes=((2,),)),
    job(4, 1, 33, 20),
    job(5, 2, 52, 60, shapes=((2,),)),
    job(6, 4, 60, 4, "resnet"),
    job(7, 4, 61, 10, "resnet", min_speed=0.8),
    job(8, 4, 70, 5, "resnet", min_speed=0.4),
)
"""By minutes. j1 and j5 each have half of a server, until minutes 90 and 112."""


def learnt_world(*jobs: TraceJob, noise: float = 0.0, **fields: Any) -> World:
    there = fields.get("servers") or servers(4, 4, rack="r")
    known: dict[str, Any] = {
        "servers": there,
        "jobs": jobs or JOBS,
        "samples": Samples(MINUTE, noise),
        "speeds": SpeedModel({one.node: one.configuration for one in there}, factors=FACTORS),
        "learns_tolerance": True,
    }
    return World(**known | fields)


def by_topology(name: str = "fifo_backfill") -> RankedPolicy:
    return replace(policy(name), placement=Topology(Mode.spread))


def played(world: World, chosen: RankedPolicy | None = None) -> tuple[Outcome, Recorded]:
    """Return a run, and what its log holds."""
    chosen = chosen or by_topology()
    outcome = run(world, chosen)
    rules = world.rules(instant=world.backend().instant)
    events = [
        replace(event, simulated=True) if isinstance(event, SchedulerStarted) else event
        for event in outcome.events
    ]
    return outcome, Recorded(events, rebuilt(chosen, rules))
