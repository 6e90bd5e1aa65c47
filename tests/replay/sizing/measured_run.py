"""A run in which jobs measure another sensitivity than the table says, and correct it."""

from collections.abc import Mapping
from dataclasses import replace

from shunter.backends.simulated import Samples
from shunter.core.planning import Consolidated
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import Sensitivity, SensitivityTable, SpeedModel, TableCheck
from shunter.events import JobSpec, Resources, SchedulerStarted
from shunter.policies import HighsSolver, SubmissionOrder
from shunter.workloads import JobEnd, TraceJob
from tests.factories import Outcome, World, job_id, run, servers
from tests.replay.recording import Recorded, rebuilt

S = 1_000_000
CPUS = (1000, 2000, 3000, 4000, 6000)


def table(speeds: Mapping[str, tuple[float, ...]]) -> SensitivityTable:
    """Return the table of speeds with these CPUs, whatever the memory."""
    models = {
        model: {1: Sensitivity(CPUS, (10,), tuple([(speed,) for speed in row]))}
        for model, row in speeds.items()
    }
    return SensitivityTable(models, Resources(0, 3000, 10))


SAID = table({"hungry": (0.4, 0.7, 1.0, 1.4, 2.0)})
TRUTH = table({"hungry": (0.4, 0.7, 1.0, 1.2, 1.2)})


def job(number: int, lasts_s: int, at_s: int = 0, model: str = "hungry") -> TraceJob:
    spec = JobSpec(model=model, total_steps=10 * lasts_s)
    return TraceJob(job_id(number), at_s * S, spec, lasts_s * S, JobEnd.finished)


JOBS = job(0, 4000), job(1, 900), job(2, 900, at_s=2000)
"""j0 has its share beside j1, all CPUs once that has ended, and its share again beside j2."""


def policy(said: SensitivityTable = SAID, mechanism: Mechanism = Mechanism.tune) -> RankedPolicy:
    solver = HighsSolver() if mechanism is Mechanism.opt else None
    index = SubmissionOrder("fifo", Misfit.skipped)
    return RankedPolicy(index, Consolidated(), sizing=Sizing(mechanism, said, solver))


def world(
    *jobs: TraceJob,
    said: SensitivityTable = SAID,
    truth: SensitivityTable = TRUTH,
    noise: float = 0.0,
    tolerance: float = 0.1,
) -> World:
    """Return one server of 2 GPUs and 6 CPUs, where jobs are measured each minute."""
    there = servers(2, cpus_milli=6000, memory_mb=20)
    return World(
        servers=there,
        jobs=jobs,
        round_us=300 * S,
        samples=Samples(60 * S, noise),
        speeds=SpeedModel({each.node: each.configuration for each in there}, sensitivity=truth),
        table_check=TableCheck(said, tolerance) if tolerance else None,
    )


def measured(
    chosen: RankedPolicy | None = None, there: World | None = None
) -> tuple[Outcome, Recorded]:
    """Return a run, and what its log holds."""
    chosen, there = chosen or policy(), there or world(*JOBS)
    outcome = run(there, chosen)
    rules = there.rules(instant=there.backend().instant)
    events = [
        replace(event, simulated=True) if isinstance(event, SchedulerStarted) else event
        for event in outcome.events
    ]
    return outcome, Recorded(events, rebuilt(chosen, rules))
