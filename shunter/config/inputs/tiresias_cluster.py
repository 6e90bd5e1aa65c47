"""The cluster file of the Tiresias simulator: one row that describes equal switches.

`num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node`, memory in GB (Gu et al.,
NSDI 2019; the format of its public simulator). Servers are node1, node2, … from the first switch
to the last. A switch joins servers, not the GPUs of one, so it is their rack: switch1, switch2, …
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shunter.config.inputs.text import read_text
from shunter.errors import ConfigError

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
