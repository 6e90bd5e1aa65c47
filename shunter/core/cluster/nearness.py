"""An index of where GPUs are free near together, once a placement asks for it.

A pool tells servers apart by how many GPUs they have free; this tells them apart by how many one
switch or socket of theirs has, and racks and domains by what their servers have. Like the buckets
of a pool, a table has one integer for each number, with one bit a server (Xiao, SOSP-SRC 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from shunter.core.cluster.server import Server
from shunter.events.values import BELOW_SERVER, ConfigurationSet, Level

CHANGES_MOST: Final = 1 << 16
"""Of servers of 8 GPUs all changes are remembered; of larger ones the memory begins anew."""


@dataclass(slots=True)
class Area:
    """The servers of a rack or domain: as bits, and how many have how many free."""

    bits: int = 0
    counts: list[int] = field(default_factory=list)
    free: int = 0

    def fewest(self, gpus: int) -> int:
        """Return on how few of its servers so many GPUs are free; 0: it has not so many."""
        if gpus > self.free:
            return 0
        servers = 0
        for each in range(len(self.counts) - 1, 0, -1):
            count = self.counts[each]
            if count * each >= gpus:
                return servers - -gpus // each
            servers += count
            gpus -= count * each
        return 0


class Nearness:
    """Where the free GPUs of a pool's servers are.

    `levels` are those below the server that any of them describes, the nearest first; `tables` has
    for each one, by a number of GPUs, the servers of which some group has just so many free. On a
    server that does not describe a level its groups are those of the next one that it does; one
    that describes no NVLink has no two GPUs joined. Servers whose GPUs changed are `stale`, and
    indexed anew at the next question.
    """

    __slots__ = (
        "_areas",
        "_counted",
        "_domains",
        "_flips",
        "_known",
        "_racks",
        "_stale_areas",
        "levels",
        "stale",
        "tables",
    )

    def __init__(self, servers: Sequence[Server], free: Sequence[int]) -> None:
        sets = dict.fromkeys(server.configuration for server in servers)
        described = {groups.level for where in sets for groups in where.levels}
        most = max((where.gpus for where in sets), default=0)
        self.levels = tuple(level for level in BELOW_SERVER if level in described)
        self.tables = [[0] * (most + 1) for _ in self.levels]
        self._racks: dict[str, Area] = {}
        self._domains: dict[str, Area] = {}
        flips = {where: _Flips(where, self.levels) for where in sets}
        self.stale: dict[int, None] = {}
        self._stale_areas: dict[int, None] = {}
        self._known = [*free]
        self._counted = [mask.bit_count() for mask in free]
        self._flips = [flips[server.configuration] for server in servers]
        self._areas: list[tuple[Area, ...]] = []
        for position, server in enumerate(servers):
            self._add(position, server.configuration, free[position], most)

    def _add(self, position: int, where: ConfigurationSet, free: int, most: int) -> None:
        bit = 1 << position
        for level, count in self._flips[position][-1, free]:
            self.tables[level][count] |= bit
        mine = []
        for areas, name in ((self._racks, where.rack), (self._domains, where.domain)):
            if name:
                area = areas.setdefault(name, Area(counts=[0] * (most + 1)))
                area.bits |= bit
                area.counts[free.bit_count()] += 1
                area.free += free.bit_count()
                mine.append(area)
        self._areas.append(tuple(mine))

    def refresh(self, free: Sequence[int]) -> None:
        """Bring the tables up to date with what servers have free."""
        known, all_flips, tables = self._known, self._flips, self.tables
        for position in self.stale:
            before, after = known[position], free[position]
            if before != after:
                known[position] = after
                bit = 1 << position
                for level, count in all_flips[position][before, after]:
                    tables[level][count] ^= bit
        if self._racks or self._domains:
            self._stale_areas.update(self.stale)
        self.stale.clear()

    @property
    def racks(self) -> dict[str, Area]:
        """The racks that are named, in the order in which servers of them joined."""
        self._refresh_areas()
        return self._racks

    @property
    def domains(self) -> dict[str, Area]:
        """The network domains, in the same way."""
        self._refresh_areas()
        return self._domains

    def _refresh_areas(self) -> None:
        """Bring racks and domains up to date; only gangs over servers ask for them."""
        for position in self._stale_areas:
            had, has = self._counted[position], self._known[position].bit_count()
            if had != has:
                self._counted[position] = has
                for area in self._areas[position]:
                    area.counts[had] -= 1
                    area.counts[has] += 1
                    area.free += has - had
        self._stale_areas.clear()


class _Flips(dict[tuple[int, int], tuple[tuple[int, int], ...]]):
    """Where a server's bit flips, by what it had free and has: tables and counts.

    None of its tables has a server that had -1 free: it is new.
    """

    def __init__(self, where: ConfigurationSet, levels: Sequence[Level]) -> None:
        super().__init__()
        self._groups = [_groups(where, level) for level in levels]

    def __missing__(self, change: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        if len(self) > CHANGES_MOST:
            self.clear()
        before, after = change
        found = tuple(
            (level, count)
            for level, masks in enumerate(self._groups)
            for count in sorted(_counts(masks, before) ^ _counts(masks, after))
        )
        self[change] = found
        return found


def _counts(masks: tuple[int, ...], free: int) -> set[int]:
    """Return how many GPUs groups have free, each number once."""
    return set() if free < 0 else {(mask & free).bit_count() for mask in masks}


def _groups(where: ConfigurationSet, level: Level) -> tuple[int, ...]:
    """Return a server's groups of GPUs at a level, or the next that it describes."""
    if level is Level.nvlink:
        return where.joined or tuple(1 << gpu for gpu in range(where.gpus))
    at = BELOW_SERVER.index(level)
    masks = (groups.masks for groups in where.levels if groups.level in BELOW_SERVER[at:])
    return next(masks, ((1 << where.gpus) - 1,))
