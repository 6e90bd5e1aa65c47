"""The table of throughputs that a config names, and whether it fits the cluster."""

from collections.abc import Container, Iterable, Iterator

from shunter.config.inputs.text import read_text
from shunter.core.speeds.speed_model import ThroughputTable
from shunter.events.values import GpuType
from shunter.workloads.throughputs import BASE_TYPE, ThroughputFile, load_throughputs


def read_throughputs(
    source: str, base_type: str | None = None, known: ThroughputFile | None = None
) -> ThroughputFile:
    """Read a table, unless it is the one that is known already.

    Raises:
        ConfigError: there is no such table, it is wrong, or it lacks the base type.
    """
    wanted = base_type or BASE_TYPE
    if known is not None and (known.table.name, known.table.base_type) == (source, wanted):
        return known
    return load_throughputs(source, read_text, wanted)


def misfits(
    table: ThroughputTable, gpu_types: Iterable[str], units: Container[str] = ()
) -> Iterator[tuple[int, str]]:
    """Yield what is wrong of each GPU type, by its place; an empty one is none.

    That is a type the table lacks, and pairs of jobs on units of CPU, which nobody shares.
    """
    for number, gpu_type in enumerate(gpu_types):
        if gpu_type in units and table.paired.get(GpuType(gpu_type)):
            what = f"{table.name} has pairs of jobs on {gpu_type!r}, and nobody shares units of CPU"
            yield number, f"{what}; take the pairs out"
        if gpu_type and GpuType(gpu_type) not in table.alone:
            known = ", ".join(table.alone)
            yield (
                number,
                f"{table.name} has no throughputs on {gpu_type!r}; expected one of {known}",
            )
