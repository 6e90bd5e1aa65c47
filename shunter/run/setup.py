"""From a config to the parts of a run: jobs, servers, policy, rules, and the simulated world.

Last come a table of sensitivity that is used beyond its points, and a table of throughputs, by
which each job goes only where it can run.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shunter import __version__
from shunter.config import (
    LEARNS_TOLERANCE,
    ONE_OF,
    LoadedConfig,
    PolicyRuntime,
    learns_tolerance,
    policy_runtime,
    record_of,
    world_around,
)
from shunter.core import AcceptedTypes, Backend
from shunter.core.speeds import JobKind, SensitivityTable, ThroughputTable, has_learnt_floor
from shunter.counting import counted
from shunter.errors import ConfigError, TraceError
from shunter.events import (
    Event,
    JobId,
    JobSpec,
    NodeAdded,
    QueueName,
    QuotaChanged,
    Resources,
    SchedulerStarted,
)
from shunter.run.worlds import WorldParts, simulated_world
from shunter.workloads import (
    Choices,
    EndShares,
    Trace,
    TraceJob,
    generate_trace,
    load_trace,
    place_in_trace,
)

_RECORDED_MOST = 100


@dataclass(frozen=True)
class Setup:
    """Everything a simulation needs, made and not yet started."""

    loaded: LoadedConfig
    trace: Trace
    runtime: PolicyRuntime
    backend: Backend

    def opening(self, term: int) -> list[Event]:
        """Return the facts that open a run: who decides, the queues, the servers."""
        config = self.loaded.config
        started = SchedulerStarted(
            at_us=0,
            term=term,
            version=__version__,
            policy=self.runtime.policy.name,
            policy_version=self.runtime.policy.version,
            seed=config.seed,
            config=record_of(
                self.loaded,
                instant=self.backend.instant,
                workload=_workload_record(self),
                moves_evicted=self.runtime.rules.moves_evicted,
            ),
            digests=tuple(self._digests()),
            simulated=True,
        )
        queues = (
            QuotaChanged(0, QueueName(name), queue.quota_gpus, queue.weight, queue.users)
            for name, queue in sorted(config.queues.items())
        )
        nodes = (NodeAdded(0, name, where) for name, where in config.cluster.servers())
        return [started, *queues, *nodes]

    @property
    def notes(self) -> list[str]:
        """What is to be said of the jobs beside what was wrong with their trace."""
        found = without_rates(self.loaded, self.trace.jobs)
        table, source = self.loaded.sensitivity, self.loaded.config.workload.sensitivity
        if table is None:
            return found
        found += servers_out_of_range(self.loaded)
        found += jobs_out_of_range(source, table, self.trace.jobs)[0]
        unknown = _unknown_models(self.trace.jobs, table.models)
        if not unknown:
            return found
        sizing = self.loaded.config.policy.sizing
        share = "" if sizing is None else ", and have their proportional share"
        what = f"such jobs count as equally fast with any CPUs and memory{share}"
        return [*found, f"{source}: nothing is known of {unknown}: {what}"]

    def _digests(self) -> Iterator[tuple[str, str]]:
        yield "trace", self.trace.digest
        yield from self.loaded.table_digests()


def refuse_no_jobs(loaded: LoadedConfig) -> None:
    """Raise ConfigError if a config names no jobs; one of a live cluster need not."""
    if not loaded.config.workload.has_jobs:
        raise ConfigError(
            f"{loaded.source}: workload: missing; a simulation needs the jobs: {ONE_OF}. "
            "This is the config of a live cluster: `shunter trace fit LOG` makes one of its log "
            "that simulates it"
        )


def load_jobs(loaded: LoadedConfig) -> Trace:
    """Read or generate the jobs of a config.

    Raises:
        TraceError: the trace is wrong.
        ConfigError: the generator's numbers are, or there are no jobs.
    """
    refuse_no_jobs(loaded)
    config, workload = loaded.config, loaded.config.workload
    if workload.trace is not None:
        if not _is_there(workload.trace):
            place = loaded.layers.origins.of(("workload", "trace"))
            raise TraceError(
                f"{place}: workload.trace: there is no file {workload.trace}; "
                "name the trace with --set workload.trace=PATH"
            )
        return load_trace(
            workload.trace,
            workload.format,
            workload.rows,
            options=workload.options,
            throughputs=loaded.throughputs,
        )
    made = workload.generate
    assert made is not None, "a config with jobs has a trace or a generator"
    return generate_trace(
        made.kind,
        jobs=made.jobs,
        load=made.load,
        cluster_gpus=config.cluster.gpus,
        seed=config.seed,
        arrivals=made.arrivals,
        gpus_max=made.gpus_max,
        choices=Choices(
            EndShares(made.ends.failed, made.ends.cancelled),
            made.jobs_per_hour,
            made.weights,
            made.deadlines,
            loaded.throughputs,
            made.split,
            made.short,
        ),
    )


def _is_there(path: str) -> bool:
    """Say whether there is a file, or a path that reading will refuse in words."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return True


def set_up(loaded: LoadedConfig, trace: Trace) -> Setup:
    """Return the parts of a run, wired.

    Raises:
        ConfigError: the config needs to know more of the jobs' models than it does.
    """
    _refuse_unknown_models(loaded, trace)
    trace = fit_to_table(loaded, trace)
    config = loaded.config
    specs = [job.spec for job in trace.jobs]
    backend = simulated_world(
        _world_parts(loaded), config.cluster.servers(), trace.jobs, specs=specs
    )
    runtime = policy_runtime(loaded, instant=backend.instant)
    if not _depend_on_places(loaded, specs):
        runtime = replace(runtime, rules=replace(runtime.rules, moves_evicted=False))
    world: Backend = backend
    if config.simulation.world:
        world = world_around(
            config.simulation.world,
            backend,
            config.policy.round_us,
            runtime.policy,
            [where for _, where in config.cluster.servers()],
        )
        runtime = replace(runtime, rules=replace(runtime.rules, instant=world.instant))
    return Setup(loaded, trace, runtime, world)


def _depend_on_places(loaded: LoadedConfig, specs: Sequence[JobSpec]) -> bool:
    """Say whether a job could be evicted from one place and fit into another.

    Where all ask for a number of GPUs of one type, who is evicted fits nowhere.
    """
    policy, nodes = loaded.config.policy, loaded.config.cluster.servers()
    return (
        len({where.gpu_type for _, where in nodes}) > 1
        or any(where.unit_cpus_milli for _, where in nodes)
        or policy.sizing is not None
        or policy.placement == "skew"
        or learns_tolerance(loaded.config)
        or any(not spec.demand().is_met_by_count for spec in specs)
    )


def _world_parts(loaded: LoadedConfig) -> WorldParts:
    config, truth = loaded.config, loaded.truth_file
    return WorldParts(
        config.simulation,
        config.policy.slicing,
        config.policy.round_us,
        config.seed,
        loaded.tensors_mb,
        loaded.throughputs,
        loaded.sensitivity if truth is None else truth.table,
        loaded.factors,
    )


def _refuse_unknown_models(loaded: LoadedConfig, trace: Trace) -> None:
    """Raise ConfigError if a job's skew or checkpoint size is needed and not known."""
    policy, costs = loaded.config.policy, loaded.config.simulation.costs
    lines = []
    if policy.placement == "skew" and policy.skew.unknown == "error":
        skews, jobs = loaded.skews, (job for job in trace.jobs if job.spec.skew is None)
        if unknown := _unknown_models(jobs, skews):
            place = loaded.layers.origins.of(("policy", "skew", "unknown"))
            lines.append(
                f"{place}: policy.skew.unknown: no skew is known of {unknown}; "
                f"name a table that has it as policy.skew.table, not {policy.skew.table}"
            )
    if costs.by_model and (
        unknown := _unknown_models(trace.jobs, costs.sizes_mb(loaded.tensors_mb))
    ):
        place = loaded.layers.origins.of(("simulation", "costs", "checkpoint_mb"))
        lines.append(
            f"{place}: simulation.costs.checkpoint_mb: no size is known of {unknown}; "
            "give it in simulation.costs.model_mb"
        )
    floors = [job.job_id for job in trace.jobs if has_learnt_floor(job.spec)]
    if floors and not learns_tolerance(loaded.config):
        lines.append(
            f"{_place_of(loaded, floors[0])}: job {floors[0]}: min_speed: expected a curve that it "
            f"is the floor of (tolerance or shape_tolerance), or {LEARNS_TOLERANCE} with "
            "simulation.samples.every, so that one is learnt"
        )
    if lines:
        raise ConfigError("\n".join(lines))


def _place_of(loaded: LoadedConfig, job_id: JobId) -> str:
    """Return where a job stands: the line of its trace, else the config."""
    workload = loaded.config.workload
    if workload.trace is None:
        return loaded.source
    return place_in_trace(
        workload.trace,
        job_id,
        workload.format,
        options=workload.options,
        throughputs=loaded.throughputs,
    )


def _unknown_models(jobs: Iterable[TraceJob], known: Container[str]) -> str:
    """Return in words which models are not known, each with its first job."""
    first: dict[str, str] = {}
    for job in jobs:
        model = job.spec.model
        if model not in known and job.spec.gpus:
            first.setdefault(model, job.job_id)
    words = [
        f"model {model!r} (job {job_id})" if model else f"job {job_id}, which names no model"
        for model, job_id in list(first.items())[:_NAMED_MOST]
    ]
    hidden = len(first) - len(words)
    return ", ".join(words) + (f" and {hidden} more" if hidden else "")


def _workload_record(setup: Setup) -> dict[str, object]:
    made = setup.loaded.config.workload.generate
    record: dict[str, object] = {"format": setup.trace.format, "jobs": len(setup.trace.jobs)}
    if made is not None:
        record["generate"] = made.recorded()
    if (table := setup.loaded.sensitivity) is not None:
        models = dict.fromkeys(job.spec.model for job in setup.trace.jobs if job.spec.gpus)
        if unknown := sorted(name for name in models if name not in table.models):
            record["not_in_sensitivity"] = unknown
        beyond = servers_out_of_range(setup.loaded)
        beyond += jobs_out_of_range(None, table, setup.trace.jobs)[1]
        if beyond:
            record["beyond_sensitivity"] = beyond[:_RECORDED_MOST]
    return record | setup.loaded.table_records()


# Beyond its last point a table of sensitivity says that nothing grows, below its first one that
# speed falls to 0 in a straight line. Both are guesses, so servers and jobs there are reported.

_MILLI, _MB_OF_GB = 1000, 1000
_NAMED_MOST = 5
_GUESS = "beyond its points a table guesses: more makes nothing faster, less slows jobs evenly"


def servers_out_of_range(loaded: LoadedConfig) -> list[str]:
    """Return what to say of servers whose share of a GPU the table does not cover."""
    table = loaded.sensitivity
    if table is None:
        return []
    first: dict[str, str] = {}
    for name, where in loaded.config.cluster.servers():
        if where.gpus:
            share = where.beside
            each = Resources(0, share.cpus_milli // where.gpus, share.memory_mb // where.gpus)
            for what in _out_of_range(table, each):
                first.setdefault(what, name)
    source = loaded.config.workload.sensitivity
    return [
        f"{source}: a GPU of {name} goes with {what}: {_GUESS}"
        for what, name in list(first.items())[:_NAMED_MOST]
    ]


def jobs_out_of_range(
    source: str | None, table: SensitivityTable | None, jobs: Iterable[TraceJob]
) -> tuple[list[str], list[JobId]]:
    """Return what to say of jobs that ask for what the table does not cover."""
    if table is None:
        return [], []
    found: list[JobId] = []
    first = ""
    for job in jobs:
        spec = job.spec
        if not spec.gpus or not (spec.cpus_milli or spec.memory_mb) or table.of(spec) is None:
            continue
        each = Resources(0, spec.cpus_milli // spec.gpus, spec.memory_mb // spec.gpus)
        if beyond := _out_of_range(table, each):
            first = first or f"{job.job_id} for {beyond[0]}"
            found.append(job.job_id)
    if not found:
        return [], []
    ask = "1 job asks" if len(found) == 1 else f"{len(found):,} jobs ask"
    return [f"{source}: {ask} for what it does not cover, first {first}"], found


def _out_of_range(table: SensitivityTable, each: Resources) -> list[str]:
    """Return which amounts for a GPU lie outside of a table's points; 0: not named."""
    matrices = [matrix for sizes in table.models.values() for matrix in sizes.values()]
    said = []
    for amount, axes, unit, of in (
        (each.cpus_milli, [matrix.cpus_milli for matrix in matrices], _MILLI, "CPUs"),
        (each.memory_mb, [matrix.memory_mb for matrix in matrices], _MB_OF_GB, "GB"),
    ):
        least, most = min(axis[0] for axis in axes), max(axis[-1] for axis in axes)
        if amount and not least <= amount <= most:
            known = f"{least / unit:g} to {most / unit:g}"
            said.append(f"{amount / unit:g} {of} for each GPU, and the table has {known}")
    return said


# A job of which the table has no rate runs for the duration that its trace gives, and is named.


def fit_to_table(loaded: LoadedConfig, trace: Trace) -> Trace:
    """Return the jobs, none of which accepts a GPU type on which its throughput is 0.

    Without a table or CPU servers it is the trace as it stands. So every policy knows where a job
    cannot run, also one that knows of no throughputs.

    Raises:
        ConfigError: by the table a job can run nowhere, or it says nothing of a job that wants
            units of CPU.
    """
    table = loaded.throughputs
    servers = [configuration for _, configuration in loaded.config.cluster.servers()]
    types = AcceptedTypes.among(servers, table)
    if table is None:
        if not types.units:
            return trace
        return replace(trace, jobs=tuple([_fitted(job, types.of(job.spec)) for job in trace.jobs]))
    fits = _Fits(table, types)
    jobs = [_fitted(job, fits.spec(job)) for job in trace.jobs]
    if fits.wrong:
        place = loaded.layers.origins.of(("workload", "throughputs"))
        raise ConfigError("\n".join(_lines(f"{place}: workload.throughputs", fits.wrong.values())))
    return replace(trace, jobs=tuple(jobs))


class _Fits:
    """Restricts jobs to GPU types where they can run; notes what is wrong."""

    def __init__(self, table: ThroughputTable, types: AcceptedTypes) -> None:
        self._table = table
        self._types = types
        self._there = [*sorted(types.gpus), *sorted(types.units)]
        self._known: dict[JobSpec, JobSpec] = {}
        self.wrong: dict[tuple[JobKind, str], str] = {}

    def spec(self, job: TraceJob) -> JobSpec:
        """Return the specification of a job as it can run."""
        found = self._known.get(job.spec)
        if found is None:
            found = self._known[job.spec] = self._restricted(job) if job.spec.gpus else job.spec
        return found

    def _restricted(self, job: TraceJob) -> JobSpec:
        spec, table = self._types.of(job.spec), self._table
        kind = table.kind_of(spec)
        named = kind or JobKind(spec.model, spec.gpus)
        accepted = [name for name in self._there if name in (spec.gpu_types or self._there)]
        rates = {name: table.rate(name, named) for name in accepted}
        if table.rate(table.base_type, named) == 0:
            self._note(named, job, f"has no throughput above 0 on the base type {table.base_type}")
        for name in accepted:
            if rates[name] is None and name in self._types.units:
                self._note(named, job, f"has no throughput on {name}")
        able = tuple(name for name in accepted if rates[name] != 0)
        if accepted and not able:
            where = ", ".join(accepted)
            self._note(named, job, f"can run on none of the servers: throughput 0 on {where}")
        return spec if len(able) == len(accepted) else replace(spec, gpu_types=able)

    def _note(self, kind: JobKind, job: TraceJob, what: str) -> None:
        text = f"{_words(kind)} (job {job.job_id}) {what}"
        self.wrong.setdefault((kind, what), f"{self._table.name}: {text}")


def without_rates(loaded: LoadedConfig, jobs: Iterable[TraceJob]) -> list[str]:
    """Return what to say of jobs of which the table has no rate."""
    table = loaded.throughputs
    if table is None:
        return []
    there = {where.gpu_type for _, where in loaded.config.cluster.servers() if where.gpus}
    found: dict[JobKind, list[JobId]] = {}
    for job in jobs:
        spec = job.spec
        kind = table.kind_of(spec) or JobKind(spec.model, spec.gpus)
        types = {table.base_type, *(spec.gpu_types or there)}
        if spec.gpus and any(table.rate(name, kind) is None for name in types):
            found.setdefault(kind, []).append(job.job_id)
    if not found:
        return []
    how = ""
    if len(there) > 1:
        is_typed = bool(loaded.config.simulation.speeds.relative)
        speed = "as fast as simulation.speeds.relative says" if is_typed else "equally fast"
        how = f", and are {speed} where there is no rate"
    lack = f"{table.name} has no rate of {named_kinds(found)}"
    return [f"{lack}: such jobs take the duration_s of their trace{how}"]


def named_kinds(found: Mapping[JobKind, Sequence[JobId]]) -> str:
    """Return kinds of jobs in words, each with its first job."""
    named = [f"{_words(kind)} ({_jobs(ids)})" for kind, ids in list(found.items())[:_NAMED_MOST]]
    if hidden := len(found) - len(named):
        named.append(f"{hidden} more")
    return ", ".join(named)


def _words(kind: JobKind) -> str:
    model = repr(kind.model) if kind.model else "a job that names no model"
    return f"{model} on {counted(kind.gpus, 'GPU')}"


def _jobs(ids: Sequence[JobId]) -> str:
    return f"job {ids[0]}" if len(ids) == 1 else f"{counted(len(ids), 'job')}, first {ids[0]}"


def _fitted(job: TraceJob, spec: JobSpec) -> TraceJob:
    return job if spec is job.spec else replace(job, spec=spec)


def _lines(place: str, faults: Iterable[str]) -> list[str]:
    every = list(faults)
    lines = [f"{place}: {what}" for what in every[:_NAMED_MOST]]
    if hidden := len(every) - len(lines):
        lines.append(f"{place}: and {hidden} more")
    return [*lines[:-1], f"{lines[-1]}; name a table that has it, or leave such jobs out"]
