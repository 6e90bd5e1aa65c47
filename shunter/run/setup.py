"""From a config to the parts of a run: jobs, servers, policy, rules, and the simulated world."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shunter import __version__
from shunter.config.loading import LoadedConfig
from shunter.config.resolved import (
    PolicyRuntime,
    learns_tolerance,
    policy_runtime,
    record_of,
    recorded_runtime,
)
from shunter.config.workload import ONE_OF
from shunter.config.worlds import world_around
from shunter.core.interfaces import AnyPolicy, Backend
from shunter.core.planning.fault_barrier import is_our_own
from shunter.core.planning.planner import RoundRules
from shunter.core.speeds.measured import has_learnt_floor
from shunter.errors import ConfigError, TraceError, UsageError
from shunter.events.facts import Event, NodeAdded, QuotaChanged, SchedulerStarted
from shunter.events.values import JobId, JobSpec, QueueName
from shunter.run.simulated_world import WorldParts, simulated_world
from shunter.run.table_range import jobs_out_of_range, servers_out_of_range
from shunter.run.throughputs import fit_to_table, without_rates
from shunter.workloads import (
    Choices,
    EndShares,
    Trace,
    TraceJob,
    generate_trace,
    load_trace,
    place_in_trace,
)

_NAMED_MOST = 5
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


def rebuild(started: SchedulerStarted) -> tuple[AnyPolicy, RoundRules]:
    """Return the policy and the rules with which a log was written.

    Raises:
        ConfigError: the recorded config cannot be read, or the policy is not installed.
    """
    runtime = recorded_runtime(started.config)
    return runtime.policy, runtime.rules


def rebuild_our_own(started: SchedulerStarted) -> tuple[AnyPolicy, RoundRules]:
    """Return the policy and the rules of a log, if the policy is no plugin.

    Raises:
        UsageError: the policy is not one of ours throughout.
        ConfigError: as `rebuild` does.
    """
    policy, rules = rebuild(started)
    if not is_our_own(policy):
        raise UsageError(
            f"policy {policy.name} is a plugin, which the daemon does not ask a second time; "
            "`shunter why JOB --log URL` does"
        )
    return policy, rules


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
            "is the floor of (tolerance or shape_tolerance), or policy.placement = 'topology' with "
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
