"""Jobs and a table of throughputs: each goes only where it can run by it.

A job of which the table has no rate runs for the duration that its trace gives, and is named. Where
there are CPU servers, each job says which types it accepts, with a table or without one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from shunter.config.loading import LoadedConfig
from shunter.core.admission import AcceptedTypes
from shunter.core.speeds.speed_model import JobKind, ThroughputTable
from shunter.counting import counted
from shunter.errors import ConfigError
from shunter.events.values import JobId, JobSpec
from shunter.workloads import Trace, TraceJob

_NAMED_MOST = 5


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
