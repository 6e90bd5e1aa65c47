"""The files of the public simulator of Gavel: traces, throughputs, and its cluster specifications.

Read apart from Shunter's own importers, so that neither can hide a fault of the other.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Gang = tuple[int, ...]


@dataclass(frozen=True)
class GavelJob:
    """One line of a trace."""

    number: int
    model: str
    gpus: int
    steps: int
    weight: float
    arrival_s: float

    @property
    def kind(self) -> str:
        """Its key in a throughput file."""
        return f"('{self.model}', {self.gpus})"


@dataclass(frozen=True)
class GavelTable:
    """A throughput file."""

    rows: Any

    def rates(self, kinds: Sequence[str], gpu_type: str) -> tuple[float, ...]:
        """Return the steps a second of one job alone, or of two that share (0: not so)."""
        row = self.rows[gpu_type][kinds[0]]
        if len(kinds) == 2:
            return tuple(row.get(kinds[1], (0.0, 0.0)))
        return (row["null"],)


def read_trace(path: Path) -> list[GavelJob]:
    """Return the jobs of a trace with ten columns."""
    jobs = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        cells = line.split("\t")
        gpus, steps, weight, arrival_s = int(cells[6]), int(cells[5]), cells[7], cells[9]
        jobs.append(GavelJob(number, cells[0], gpus, steps, float(weight), float(arrival_s)))
    return jobs


@cache
def read_table(path: Path) -> GavelTable:
    """Return a throughput file."""
    return GavelTable(json.loads(path.read_text(encoding="utf-8")))


def servers_of(gpus: str, each: str) -> dict[str, list[list[int]]]:
    """Return the workers of each server, numbered over the types in the order of their names.

    Args:
        gpus: of v100, p100 and k80, as in "2:0:4"; GPUs that fill no server are gone.
        each: GPUs of a server of these types.
    """
    names = ("v100", "p100", "k80")
    sizes = zip(names, map(int, gpus.split(":")), map(int, each.split(":")), strict=True)
    found: dict[str, list[list[int]]] = {}
    first = 0
    for name, count, size in sorted(sizes):
        if count:
            starts = [first + number * size for number in range(count // size)]
            found[name] = [list(range(start, start + size)) for start in starts]
            first += count // size * size
    return found
