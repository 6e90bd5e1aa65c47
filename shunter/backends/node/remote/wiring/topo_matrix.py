"""The table that `nvidia-smi topo -m` prints of two GPUs each, in whatever version."""

from __future__ import annotations

import re
from typing import NamedTuple

from shunter.backends.node.remote.wiring.records import cpus_in

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # newer versions underline the first line
ROW, CELL = re.compile(r"GPU\d+"), re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")
NUMA = re.compile(r"\d{1,4}")
OLD_WORDS = {"SOC": "SYS"}  # what versions before 2017 say of two sockets


class Matrix(NamedTuple):
    """The table of `nvidia-smi topo -m`: by GPU words, CPUs and NUMA node.

    Without rows `cause` says why.
    """

    rows: list[list[str]]
    cpus: list[list[int]]
    numa: list[int | None]
    cause: str = ""


def matrix_in(said: str, count: int) -> Matrix:
    """Return what `nvidia-smi topo -m` has printed of so many GPUs.

    Cells are separated by tabs, names of columns have spaces in them, and between GPUs and
    affinities there may be network devices. So cells are known by what they look like; affinities,
    which old versions lack, by the names of their columns too.
    """
    rows: list[list[str]] = []
    cpus: list[list[int]] = []
    numa: list[int | None] = []
    for line in ESCAPES.sub("", said).splitlines(keepends=True):
        words = line.split()
        # The first line names columns; where a network device has a row, it comes after all GPUs.
        if not words or not ROW.fullmatch(words[0]) or "X" not in words[1:]:
            continue
        if words[0] != f"GPU{len(rows)}":
            return Matrix([], [], [], f"its row {len(rows) + 1} is of {words[0]}")
        cells = [OLD_WORDS.get(word, word) for word in words[1 : 1 + count]]
        strange = [cell for cell in cells if not CELL.fullmatch(cell)]
        if len(cells) < count or strange or cells[len(rows) : len(rows) + 1] != ["X"]:
            return Matrix([], [], [], f"its row of {words[0]} cannot be read")
        rows.append(cells)
        near, node = _affinity(line) if line.endswith("\n") else ([], None)  # or it was cut off
        cpus.append(near if "CPU Affinity" in said else [])
        numa.append(node if "NUMA Affinity" in said else None)
    if len(rows) != count:
        return Matrix([], [], [], f"it tells of {len(rows)} GPUs, and there are {count}")
    if any(rows[one][two] != rows[two][one] for one in range(count) for two in range(one)):
        return Matrix([], [], [], "its table is not the same in rows and columns")
    return Matrix(rows, cpus, numa)


def _affinity(line: str) -> tuple[list[int], int | None]:
    """Return the CPUs and the NUMA node behind the words of a row.

    Nothing where one is left out.
    Cells without a value are empty or N/A.
    """
    words = [cell.strip() for cell in line.split("\t")]
    last = max((at for at, word in enumerate(words) if CELL.fullmatch(word)), default=len(words))
    cpus, node = [*words[last + 1 : last + 3], "", ""][:2]
    return cpus_in(cpus), int(node) if NUMA.fullmatch(node) else None
