"""Jobs and a table of throughputs: every job must be in it, and goes only where it can run.

Where there are CPU servers, each job says which types it accepts, with a table or without one.
"""

from collections.abc import Iterable
from dataclasses import replace

from shunter.app.config.loading import LoadedConfig
from shunter.core.intake.accepted_types import AcceptedTypes
from shunter.core.performance.throughputs import JobKind, ThroughputTable
from shunter.errors import ConfigError
from shunter.events.values.job_spec import JobSpec
from shunter.workloads import Trace, TraceJob

_NAMED_MOST = 5


def fit_to_table(loaded: LoadedConfig, trace: Trace) -> Trace:
    """Return the jobs, none of which accepts a GPU type on which its throughput is 0.

    Without a table or CPU servers it is the trace as it stands. So every policy knows where a job
    cannot run, also one that knows of no throughputs.

    Raises:
        ConfigError: the table says nothing of a job, or that it can run nowhere.
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
        if kind is None:
            self._note(JobKind(spec.model, spec.gpus), job, "has no row in it")
            return spec
        accepted = [name for name in self._there if name in (spec.gpu_types or self._there)]
        if not table.rate(table.base_type, kind):
            self._note(kind, job, f"has no throughput above 0 on the base type {table.base_type}")
        for gpu_type in accepted:
            if table.rate(gpu_type, kind) is None:
                self._note(kind, job, f"has no throughput on {gpu_type}")
        able = tuple(gpu_type for gpu_type in accepted if table.rate(gpu_type, kind))
        if accepted and not able:
            where = ", ".join(accepted)
            self._note(kind, job, f"can run on none of the servers: throughput 0 on {where}")
        return spec if len(able) == len(accepted) else replace(spec, gpu_types=able)

    def _note(self, kind: JobKind, job: TraceJob, what: str) -> None:
        model = repr(kind.model) if kind.model else "a job that names no model"
        size = f"{kind.gpus} GPU{'s' if kind.gpus > 1 else ''}"
        text = f"{model} on {size} (job {job.job_id}) {what}"
        self.wrong.setdefault((kind, what), f"{self._table.name}: {text}")


def _fitted(job: TraceJob, spec: JobSpec) -> TraceJob:
    return job if spec is job.spec else replace(job, spec=spec)


def _lines(place: str, faults: Iterable[str]) -> list[str]:
    every = list(faults)
    lines = [f"{place}: {what}" for what in every[:_NAMED_MOST]]
    if hidden := len(every) - len(lines):
        lines.append(f"{place}: and {hidden} more")
    return [*lines[:-1], f"{lines[-1]}; name a table that has it, or leave such jobs out"]
