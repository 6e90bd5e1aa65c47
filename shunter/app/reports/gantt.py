"""Slices of jobs on GPUs in few bytes: rows of whole numbers, each told from the one before.

A row is a GPU (or a lane of one that is shared). It is a flat list `gap, length, job, gap, …`: how
long the GPU was free before, how long the job had it, in ticks, and the job's place among
submissions. A tick is a millionth of the run, or a microsecond.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypedDict

from shunter.app.exports.occupancy import Spot
from shunter.app.reports.curves import Slice
from shunter.core.state import State
from shunter.events.values.ids import NodeName

TICKS: Final = 1_000_000


class GanttRow(TypedDict):
    """A GPU by its name, and who had it when."""

    name: str
    slices: list[int]


class Gantt(TypedDict):
    """All GPUs; `left_out` slices, the shortest ones, are not there."""

    tick_us: int
    rows: list[GanttRow]
    left_out: int


def gantt(slices: Sequence[Slice], state: State, most: int) -> Gantt:
    """Return slices by GPU, in the order of the servers.

    Args:
        slices: in any order.
        state: that at the end of the run.
        most: the most slices that are kept; the shortest are left out.
    """
    tick_us = max(1, state.now_us // TICKS)
    kept: Iterable[Slice] = slices
    if len(slices) > most:
        order = sorted(slices, key=lambda each: (each.from_us - each.to_us, each.from_us))
        kept = order[:most]
    by_spot: dict[Spot, list[Slice]] = {}
    for each in kept:
        by_spot.setdefault(each.spot, []).append(each)
    places = {name: place for place, name in enumerate(state.cluster.servers)}
    for name, server in state.cluster.servers.items():
        for gpu in range(server.configuration.gpus):
            by_spot.setdefault(Spot(name, gpu, 0), [])
    rows: list[GanttRow] = [
        {"name": _name(spot), "slices": _flat(by_spot[spot], tick_us)}
        for spot in sorted(by_spot, key=lambda spot: _order(spot, places))
    ]
    return {"tick_us": tick_us, "rows": rows, "left_out": max(0, len(slices) - most)}


def _order(spot: Spot, places: Mapping[NodeName, int]) -> tuple[int, str, int, int]:
    return places.get(spot.node, len(places)), spot.node, spot.gpu, spot.lane


def _name(spot: Spot) -> str:
    lane = f" ({spot.lane + 1})" if spot.lane else ""
    return f"{spot.node} GPU {spot.gpu}{lane}"


def _flat(slices: list[Slice], tick_us: int) -> list[int]:
    """Return gaps, lengths and jobs; ends are rounded down, so that none overlap."""
    flat, end = list[int](), 0
    for each in sorted(slices, key=lambda each: each.from_us):
        first, last = each.from_us // tick_us, each.to_us // tick_us
        flat += (first - end, last - first, each.ordinal)
        end = last
    return flat
