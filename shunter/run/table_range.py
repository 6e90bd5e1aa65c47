"""Where a table of sensitivity is used beyond what was measured.

Beyond its last point a table says that nothing grows, below its first one that speed falls to 0 in
a straight line. Both are guesses: servers whose share of a GPU lies there, and jobs that ask for
so much or so little, are told of and recorded.
"""

from collections.abc import Iterable

from shunter.config.loading import LoadedConfig
from shunter.core.speeds.sensitivity import SensitivityTable
from shunter.events.values import JobId, Resources
from shunter.workloads import TraceJob

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
