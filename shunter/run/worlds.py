"""The simulated cluster that a config or a log describes, with the jobs that come to it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shunter.backends.simulated import (
    NO_SLICING,
    Arrival,
    Failures,
    Progress,
    RecordedFailures,
    Resumed,
    Samples,
    SimulatedBackend,
    Slicing,
)
from shunter.config import (
    PolicySection,
    Reactions,
    SimulationSection,
    SlicingSection,
    recorded_sensitivity,
    recorded_throughputs,
)
from shunter.core.speeds import FactorTable, SensitivityTable, SpeedModel, ThroughputTable
from shunter.errors import ConfigError
from shunter.events import ConfigurationSet, GpuType, JobId, JobSpec, NodeName

Servers = Sequence[tuple[NodeName, ConfigurationSet]]


@dataclass(frozen=True)
class WorldParts:
    """What a simulated cluster is made of, beside its servers and jobs.

    `round_us` is the length of a round, 0 where every event is decided about. `tensors_mb` is the
    size of a model's tensors. The tables are None where there are none. With `keeps_homes` jobs
    that take turns stay on their GPUs, as on live servers, but for those `moving`. Jobs that are
    `staying` do not leave their GPUs when they are told to, and others work on for `notice_us`
    before they see it. Where its costs were measured in a log,
    `unmeasured` says in sentences what the log did not show.
    """

    simulation: SimulationSection
    slicing: SlicingSection | None = None
    round_us: int = 0
    seed: int = 0
    tensors_mb: Mapping[str, float] = field(default_factory=dict)
    throughputs: ThroughputTable | None = None
    sensitivity: SensitivityTable | None = None
    factors: FactorTable | None = None
    keeps_homes: bool = False
    moving: frozenset[JobId] = frozenset()
    staying: frozenset[JobId] = frozenset()
    notice_us: int = 0
    unmeasured: tuple[str, ...] = ()


def recorded_parts(record: str) -> WorldParts:
    """Return what the world of a log was made of, by its recorded config.

    The table of factors, and that of how sensitive models really are, are in a log by their digests
    only: they are left out here.

    Raises:
        ConfigError: the record was not written by `record_of`.
    """
    try:
        document = json.loads(record)
        simulation = SimulationSection.model_validate_json(json.dumps(document["simulation"]))
        policy = PolicySection.model_validate_json(json.dumps(document["policy"]))
        seed = int(document["seed"])
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"the world recorded in the log cannot be read: {error}") from error
    return WorldParts(
        simulation,
        policy.slicing,
        policy.round_us,
        seed,
        throughputs=recorded_throughputs(record),
        sensitivity=recorded_sensitivity(record),
        keeps_homes="backend" in document,
    )


def simulated_world(
    parts: WorldParts,
    servers: Servers,
    jobs: Sequence[Arrival],
    *,
    specs: Iterable[JobSpec],
    resizes: bool = False,
    resumed: Resumed | None = None,
    further: Servers = (),
    losses: RecordedFailures | None = None,
) -> SimulatedBackend:
    """Return the cluster.

    Args:
        parts: what it is made of.
        servers: by name, those that it begins with.
        jobs: those that come, in the order of their submission.
        specs: of all jobs that are there or come.
        resizes: whether jobs that are not elastic may be resized.
        resumed: what it goes on from; None: it begins empty.
        further: servers that join it and never fail.
        losses: of servers; None: those that `parts` foresee.
    """
    simulation, seed, known = parts.simulation, parts.seed, list(specs)
    varies = resizes or any(spec.has_curve or spec.is_elastic for spec in known)
    are_sensitive = any(spec.interference for spec in known)
    speeds = _speeds(parts, (*servers, *further), varies=varies, are_sensitive=are_sensitive)
    costs = simulation.costs.costs(parts.tensors_mb)
    backend = SimulatedBackend(
        jobs,
        costs=costs,
        lease=simulation.lease.lease(parts.round_us),
        failures=_failures(parts, servers) if losses is None else losses,
        speeds=speeds,
        samples=Samples(simulation.samples.every, simulation.samples.noise, seed),
        retries=simulation.reactions is Reactions.live,
        slicing=_slicing(parts, resumed),
    )
    backend.leaves_late(parts.staying, parts.notice_us)
    if resumed is not None:
        in_steps = simulation.lease.progress is Progress.whole_steps
        backend.resume(resumed, costs, in_steps=in_steps)
    return backend


def _failures(parts: WorldParts, servers: Servers) -> Failures:
    failures = parts.simulation.failures
    return Failures(
        racks={NodeName(name): where.rack for name, where in servers},
        seed=parts.seed,
        mtbf_us=failures.mtbf,
        mttr_us=failures.mttr,
        rack_mtbf_us=failures.rack_mtbf,
    )


def _speeds(
    parts: WorldParts, servers: Servers, *, varies: bool, are_sensitive: bool
) -> SpeedModel | None:
    speeds = parts.simulation.speeds
    relative = {GpuType(name): speed for name, speed in speeds.relative.items()}
    tables = parts.throughputs, parts.sensitivity, parts.factors
    varies = varies or are_sensitive
    if not (relative or any(tables) or speeds.shared is not None or varies):
        return None
    table, sensitivity, factors = tables
    made = SpeedModel(
        *(dict(servers), relative, table),
        sensitivity=sensitivity,
        factors=factors,
        are_sensitive=are_sensitive,
    )
    return made if speeds.shared is None else replace(made, packed=speeds.shared)


def _slicing(parts: WorldParts, resumed: Resumed | None) -> Slicing:
    section, simulation = parts.slicing, parts.simulation
    if section is None:
        return NO_SLICING
    moving = parts.moving
    if resumed is not None and parts.keeps_homes:
        moving |= {job.job_id for job in resumed.state.jobs.values() if job.can_move}
    return Slicing(
        section.quantum,
        simulation.costs.turn,
        section.wait_most,
        simulation.costs.gpu_copy_mb_s,
        simulation.turn_ends == "at_boundary",
        section.boundary_most,
        parts.keeps_homes,
        moving,
    )
