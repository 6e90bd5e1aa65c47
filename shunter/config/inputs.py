"""The files a config names, except its trace: read once, at the edge, into plain values.

A cluster file, and tables of how fast models run: throughputs by GPU type, sensitivity to CPUs and
memory, factors of distance and neighbours.
"""

import csv
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from shunter.config.keys import Fault, Path, faults_in
from shunter.core.speeds import ThroughputTable
from shunter.errors import ConfigError
from shunter.events import GpuType
from shunter.workloads import BASE_TYPE, ThroughputFile, load_throughputs, read_file

if TYPE_CHECKING:
    from shunter.workloads import FactorFile, SensitivityFile


def read_text(path: str) -> str:
    """Return the text of a file, without a byte order mark.

    Raises:
        ConfigError: there is no such file, or it is no text.
    """
    try:
        content = read_file(path)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}; check the path") from error
    except (OSError, ValueError) as error:  # a ValueError: the path holds a zero byte
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: cannot be read: {why}; check the path") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8 text (byte {error.start})") from error


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


# The cluster file of the Tiresias simulator (Gu et al., NSDI 2019), memory in GB:
# `num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node`. A switch joins servers,
# so it is their rack.

SERVERS_MAX = 100_000
"""Our bound: a slip of the pen must not fill the memory with servers."""

_WHOLE: Final = {
    "num_switch": (1, SERVERS_MAX),
    "num_node_p_switch": (1, SERVERS_MAX),
    "num_gpu_p_node": (1, 64),
    "num_cpu_p_node": (0, 2**31 - 1),
}
_MEMORY: Final = "mem_p_node"
_MEMORY_GB_MAX = 1e9
_NEEDED: Final = ("num_switch", "num_node_p_switch", "num_gpu_p_node")
_COLUMNS: Final = (*_WHOLE, _MEMORY)

Rows = Sequence[tuple[int, list[str]]]


@dataclass(frozen=True)
class SwitchGroup:
    """The equal servers of one switch: a hostlist, and what each server has."""

    name: str
    rack: str
    gpus: int
    cpus: int
    memory_gb: float
    line: int


def read_cluster(path: str) -> tuple[SwitchGroup, ...]:
    """Read a cluster file; processors and memory are 0 where it does not name them.

    Raises:
        ConfigError: one line for each fault, which names file, line and column.
    """
    rows = _rows(path, read_text(path))
    header = _checked_header(path, rows)
    if len(rows) != 2:
        where, found = (
            (f", line {rows[2][0]}", "a second row") if len(rows) > 2 else ("", "only a header")
        )
        raise ConfigError(f"{path}{where}: {found}; expected one row, which describes all switches")
    line, fields = rows[1]
    if len(fields) != len(header):
        raise ConfigError(
            f"{path}, line {line}: {len(fields)} fields, expected {len(header)} as in the header"
        )
    texts = dict(zip(header, fields, strict=True))
    if wrong := list(_faults(texts)):
        lines = (f"{path}, line {line}, column {column}: {what}" for column, what in wrong)
        raise ConfigError("\n".join(lines))
    return tuple(_groups(texts, line))


def _groups(texts: dict[str, str], line: int) -> Iterator[SwitchGroup]:
    switches, servers = int(texts["num_switch"]), int(texts["num_node_p_switch"])
    for switch in range(switches):
        first, last = switch * servers + 1, (switch + 1) * servers
        yield SwitchGroup(
            name=f"node{first}" if first == last else f"node[{first}-{last}]",
            rack=f"switch{switch + 1}",
            gpus=int(texts["num_gpu_p_node"]),
            cpus=int(texts.get("num_cpu_p_node", "0")),
            memory_gb=float(texts.get(_MEMORY, "0")),
            line=line,
        )


def _rows(path: str, text: str) -> Rows:
    """Return the rows that are not blank, each with its line."""
    reader = csv.reader(text.removesuffix("\n").split("\n"), strict=True)
    try:
        found = [(reader.line_num, [cell.strip() for cell in fields]) for fields in reader]
    except csv.Error as error:
        raise ConfigError(f"{path}, line {reader.line_num}: not valid CSV ({error})") from error
    return [(line, fields) for line, fields in found if any(fields)]


def _checked_header(path: str, rows: Rows) -> list[str]:
    """Return the names of the columns.

    Raises:
        ConfigError: there is no header, or a name in it is missing, unknown or repeated.
    """
    if not rows:
        raise ConfigError(f"{path} is empty: expected the header {','.join(_COLUMNS)} and one row")
    line, header = rows[0]
    faults = [
        *(f"missing column {name}" for name in _NEEDED if name not in header),
        *(f"unknown column {name!r}" for name in header if name not in _COLUMNS),
        *(f"column {name} stands twice" for name in _COLUMNS if header.count(name) > 1),
    ]
    if faults:
        known = ", ".join(_COLUMNS)
        raise ConfigError(f"{path}, line {line}: {'; '.join(faults)}; expected {known}")
    return header


def _faults(texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield column and fault of everything that is wrong with the row."""
    faultless = True
    for column, (least, most) in _WHOLE.items():
        text = texts.get(column, "0")
        if not _is_whole(text) or not least <= int(text) <= most:
            faultless = faultless and column not in _NEEDED
            yield column, f"expected a whole number from {least} to {most}, not {text!r}"
    text = texts.get(_MEMORY, "0")
    if not _is_memory(text):
        yield _MEMORY, f"expected a number of GB from 0 to {_MEMORY_GB_MAX:g}, not {text!r}"
    if faultless:
        servers = int(texts["num_switch"]) * int(texts["num_node_p_switch"])
        if servers > SERVERS_MAX:
            yield "num_node_p_switch", f"{servers} servers in all; expected at most {SERVERS_MAX}"


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _is_memory(text: str) -> bool:
    try:
        # A NaN compares as false.
        return 0 <= float(text) <= _MEMORY_GB_MAX
    except ValueError:
        return False


F = TypeVar("F", "FactorFile", "SensitivityFile")


def read_model_table(
    source: str | None,
    key: Path,
    load: Callable[[str, Callable[[str], str]], F],
    known: F | None,
    faults: list[Fault],
) -> F | None:
    """Return the table a key names, or the known one; None: it names none.

    What is wrong with it is added to `faults`.
    """
    if source is None:
        return None
    if known is not None and known.table.name == source:
        return known
    try:
        return load(source, read_text)
    except ConfigError as error:
        faults += faults_in(error, key)
        return None
