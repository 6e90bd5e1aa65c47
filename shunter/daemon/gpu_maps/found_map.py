"""The map inside a server as the server tells it, under the keys by which a config gives one.

What a server tells may be incomplete or make no sense. Then its GPUs have no map (they are all
equally near), and `cause` says why: a map that is wrong would refuse jobs that fit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shunter.backends.live.messages import GpuWiring, Wiring, wiring_in
from shunter.backends.node.messages import WrongMessageError
from shunter.config.accelerators import CpuGroups, GpuGroups, Parts, levels_of
from shunter.events.values import LevelGroups

BELOW_SWITCH = ("PIX", "PXB")
ELSEWHERE = ("PHB", "NODE", "SYS")


@dataclass(frozen=True, slots=True)
class FoundMap:
    """Groups of GPU numbers by switch, socket and NVLink.

    `by` says who told of them, and `cause` what is amiss. Of a level that is not known there are no
    groups. `cpus` are those near to each GPU, and `cpus_there` all of the server that are ours.
    """

    switches: GpuGroups = ()
    sockets: GpuGroups = ()
    nvlink: GpuGroups = ()
    by: str = ""
    cause: str = ""
    cpus: CpuGroups = ()
    cpus_there: tuple[int, ...] = ()

    @property
    def switch_gpus(self) -> GpuGroups:
        """The GPUs of each switch, as a config gives them.

        None where that tells nothing: all are on one, or each has its own.
        """
        return self.switches if 1 < len(self.switches) < len(self.cpus) else ()

    @property
    def socket_gpus(self) -> GpuGroups:
        """The GPUs of each socket, as a config gives them; none where all are on one."""
        return self.sockets if len(self.sockets) > 1 else ()

    def socket_cpus(self, sockets: GpuGroups) -> CpuGroups:
        """Return the CPUs near to the GPUs of sockets.

        None if they are not known of each, or some are near to several.
        """
        if not self.cpus:
            return ()
        found = [
            tuple(sorted({cpu for gpu in group for cpu in self.cpus[gpu]})) for group in sockets
        ]
        named = [cpu for cpus in found for cpu in cpus]
        return tuple(found) if all(found) and len({*named}) == len(named) else ()

    def levels(self) -> tuple[LevelGroups, ...]:
        """Return the levels inside the server, the nearest first.

        Raises:
            ValueError: they do not fit together.
        """
        return levels_of(
            len(self.cpus),
            Parts("sockets", 1, "socket_gpus", self.socket_gpus),
            Parts("switches", 1, "switch_gpus", self.switch_gpus),
        )


def found_map_of(inventory: Mapping[str, Any], names: Sequence[str] | None = None) -> FoundMap:
    """Return the map of a server by what a survey of its host found.

    Args:
        inventory: the answer of the survey.
        names: of its GPUs in order, as indices or UUIDs; None: all that are there.
    """
    try:
        wiring = wiring_in(inventory["wiring"])
    except WrongMessageError as error:
        return FoundMap(cause=f"what it tells cannot be read: {error}")
    every = [str(gpu.index) for gpu in wiring.gpus]
    return found_map(wiring, every if names is None else names)


def found_map(wiring: Wiring, names: Sequence[str]) -> FoundMap:
    """Return the map of the GPUs of a server.

    A socket is what the host calls a NUMA node.

    Args:
        wiring: of its host, which may have more GPUs.
        names: of its GPUs in order, as indices or UUIDs.
    """
    told = {each.uuid: at for at, each in enumerate(wiring.gpus)}
    told |= {str(each.index): at for at, each in enumerate(wiring.gpus)}
    strange = [name for name in names if name not in told]
    if strange:
        cause = f"GPU {strange[0]} is not among those that it tells of"
        return FoundMap(cause=wiring.cause or cause, cpus_there=wiring.cpus)
    rows = [told[name] for name in names]
    if len({*rows}) != len(rows):
        return FoundMap(cause="two of its GPUs are the same one", cpus_there=wiring.cpus)
    pci, links = (
        [[table[one][two] for two in rows] for one in rows] if table else []
        for table in (wiring.pci, wiring.links)
    )
    gpus = [wiring.gpus[row] for row in rows]
    switches, cause = _switches(pci)
    found = FoundMap(
        switches=switches,
        sockets=_sockets(gpus),
        nvlink=_joined(links),
        by=wiring.by,
        cause=wiring.cause or cause,
        cpus=tuple(each.cpus for each in gpus),
        cpus_there=wiring.cpus,
    )
    try:
        found.levels()
    except ValueError as error:
        return FoundMap(cause=f"what it tells makes no sense: {error}", cpus_there=wiring.cpus)
    return found


def _switches(pci: Sequence[Sequence[str]]) -> tuple[GpuGroups, str]:
    """Return the GPUs below each switch, and why that is open if it is."""
    hidden = any(
        word not in BELOW_SWITCH + ELSEWHERE
        for one, row in enumerate(pci)
        for two, word in enumerate(row)
        if one != two
    )
    if hidden:
        return (), "NVLink hides which GPUs share a switch, and sysfs shows no such devices"
    return _groups(pci, BELOW_SWITCH.__contains__), ""


def _sockets(gpus: Sequence[GpuWiring]) -> GpuGroups:
    """Return the GPUs on each socket; none if that of one is not known."""
    on: dict[int, list[int]] = {}
    for number, gpu in enumerate(gpus):
        if gpu.socket is None:
            return ()
        on.setdefault(gpu.socket, []).append(number)
    return tuple(sorted(map(tuple, on.values())))


def _joined(rows: Sequence[Sequence[str]]) -> GpuGroups:
    """Return groups of GPUs of which each is joined with each.

    Where links form a ring or a mesh, such as the cube of eight GPUs of which each has four
    neighbours, a GPU is in the first group all of whose GPUs it is joined with.
    """
    groups: list[list[int]] = []
    for gpu, row in enumerate(rows):
        for group in groups:
            if all(row[other].startswith("NV") for other in group):
                group.append(gpu)
                break
        else:
            groups.append([gpu])
    return tuple(tuple(group) for group in groups if len(group) > 1)


def _groups(rows: Sequence[Sequence[str]], is_near: Callable[[str], bool]) -> GpuGroups:
    """Return the groups of GPUs that are near to others of their group."""
    groups: list[list[int]] = []
    for gpu, row in enumerate(rows):
        mine = [group for group in groups if any(is_near(row[other]) for other in group)]
        merged = sorted([gpu, *(other for group in mine for other in group)])
        groups = [group for group in groups if group not in mine] + [merged]
    return tuple(sorted(map(tuple, groups)))
