"""The maps and places of all servers of a live cluster, when its daemon starts.

    what a server tells ─▶ FoundMap ┐
    what Slurm tells ─▶ Place       ┼▶ server_map: the one that counts ─▶ kept: changed while idle
    what the config gives           ┘

Read `discover_maps` first, at the end.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from shunter.backends.live import NodeAgent, Socket, ask_wirings, set_sockets
from shunter.backends.node import GpuWiring, Wiring, WrongMessageError
from shunter.config import (
    ClusterSection,
    CpuGroups,
    GpuGroups,
    NodeGroup,
    Parts,
    joined_level,
    levels_of,
)
from shunter.core import Health, Server, State
from shunter.events import ConfigurationSet, LevelGroups, NodeName, gpu_numbers

# A map that a server gives may be incomplete or make no sense. Then its GPUs are all equally near,
# and `cause` says why: a wrong map would refuse jobs that fit.

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
        wiring = Wiring.decoded(inventory["wiring"])
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


# If the config gives `rack` or `domain`, it counts for both, since a rack lies in a domain.

PLACE_KEYS = frozenset({"rack", "domain"})
NAMES_MOST = 4
CORRECT_PLACE = (
    "the config counts; correct rack in [[cluster.nodes]], or leave rack and domain out there"
)


@dataclass(frozen=True, slots=True)
class Place:
    """The rack of a server and the network domain above it; '' is unknown."""

    rack: str = ""
    domain: str = ""


def gives_place(group: NodeGroup) -> bool:
    """Say whether the config tells where a server is, be it that nobody knows."""
    return bool(group.model_fields_set & PLACE_KEYS)


def rack_notes(
    cluster: ClusterSection, places: Mapping[NodeName, Place], by: str
) -> dict[NodeName, str]:
    """Return where racks of the config hold other servers than those that are told.

    Names of racks are anybody's choice, so they are not compared. Servers of which nothing is told
    are passed over.

    Args:
        cluster: as the config has it.
        places: as they are told, by server.
        by: who tells them.
    """
    given = {
        name: group.rack
        for name, group in cluster.groups().items()
        if group.rack and places.get(name, Place()).rack
    }
    notes = {}
    for name, rack in given.items():
        here = [other for other in given if given[other] == rack]
        there = [other for other in given if places[other].rack == places[name].rack]
        if here != there:
            notes[name] = (
                f"rack {rack} holds {_names(here)} by the config, and {by} has {_names(there)} "
                f"in one ({places[name].rack}): {CORRECT_PLACE}"
            )
    return notes


def _names(names: Sequence[NodeName]) -> str:
    more = f" and {len(names) - NAMES_MOST} more" if len(names) > NAMES_MOST else ""
    return ", ".join(names[:NAMES_MOST]) + more


# The map of the config counts where it gives one. The name of a configuration set ends in `@` and a
# digest of the map that was found, and in `@r` and a digest of the place that was found.

BY_CONFIG = "config"
LEVEL_KEYS = frozenset({"sockets", "switches", "socket_gpus", "switch_gpus"})
_MAP, _PLACE = re.compile(r"@[0-9a-f]{6}(?=@r|\Z)"), re.compile(r"@r[0-9a-f]{12}\Z")
GIVE = "give sockets, switches and nvlink in [[cluster.nodes]] if it has them"
CORRECT_MAP = "the config counts; correct it in [[cluster.nodes]], or leave it out there"


@dataclass(frozen=True, slots=True)
class ServerMap:
    """A server with its map, its sockets with their CPUs, and what is amiss.

    `by` is who told of the map: 'config', or sources of the server such as 'sysfs and hwloc';
    nothing where there is no map. `place_by` is who told of rack and domain, likewise.
    Notes say what is so, and behind the last colon what to do.
    """

    configuration: ConfigurationSet
    sockets: tuple[Socket, ...] = ()
    by: str = ""
    notes: tuple[str, ...] = ()
    place_by: str = ""


def server_map(
    group: NodeGroup,
    configuration: ConfigurationSet,
    found: FoundMap,
    place: Place | None = None,
    place_by: str = "",
) -> ServerMap:
    """Return the map of a server that counts.

    What the config gives counts: one of `sockets`, `switches`, `socket_gpus` and `switch_gpus` for
    all levels, `nvlink` for links, and `socket_cpus` for CPUs. `sockets = 1` says that there is no
    map.

    Args:
        group: the server in the config.
        configuration: what it shares with others, by the config.
        found: what the server tells.
        place: its rack and domain, as they are told; None: nobody tells any.
        place_by: who tells those.
    """
    given = group.model_fields_set
    levels, links = configuration.bus_levels, configuration.links
    by = BY_CONFIG if given & LEVEL_KEYS else ""
    if not by and found.by:
        levels, by = found.levels(), found.by
    if "nvlink" not in given:
        links = tuple(sum(1 << gpu for gpu in joined) for joined in found.nvlink)
    notes = [*_contradictions(group, configuration, found)]
    if found.cause and by != BY_CONFIG:
        notes.insert(
            0, f"the map of its GPUs is not {'whole' if by else 'known'} ({found.cause}): {GIVE}"
        )
    levels = (*joined_level(configuration.gpus, links), *levels)
    named = mapped(configuration, levels, links)
    if gives_place(group):
        place_by = BY_CONFIG
    elif place is not None:
        named = placed(named, place)
    else:
        place_by = ""
    sockets = group.cpu_sockets
    if not sockets:
        masks = group.socket_masks if given & LEVEL_KEYS else _masks(found.socket_gpus)
        groups = tuple(map(tuple, map(gpu_numbers, masks)))
        sockets = tuple(map(Socket, masks, found.socket_cpus(groups)))
    return ServerMap(named, sockets, by, tuple(notes), place_by)


def mapped(
    configuration: ConfigurationSet, levels: tuple[LevelGroups, ...], links: tuple[int, ...]
) -> ConfigurationSet:
    """Return what a server has with a found map, and a name that says so."""
    if (levels, links) == (configuration.levels, configuration.links):
        return configuration
    text = ";".join(f"{each.level.value}:{each.masks}" for each in levels) + f";{links}"
    name = f"{configuration.name}@{_digest(text, 3)}"
    return replace(configuration, name=name, levels=levels, links=links)


def placed(configuration: ConfigurationSet, place: Place) -> ConfigurationSet:
    """Return what a server has in a found place, and a name that says so."""
    if place == Place():
        return configuration
    name = f"{configuration.name}@r{_digest(f'{place.rack!r};{place.domain!r}', 6)}"
    return replace(configuration, name=name, rack=place.rack, domain=place.domain)


def has_found_map(configuration: ConfigurationSet) -> bool:
    """Say whether the map of a server was found, by the name of its set."""
    return _MAP.search(configuration.name) is not None


def has_found_place(configuration: ConfigurationSet) -> bool:
    """Say whether the place of a server was found, by the name of its set."""
    return _PLACE.search(configuration.name) is not None


def without_found(configuration: ConfigurationSet) -> ConfigurationSet:
    """Return what a server has, but for its name and what of it was found."""
    is_map, is_place = has_found_map(configuration), has_found_place(configuration)
    return replace(
        configuration,
        name="",
        levels=() if is_map else configuration.levels,
        links=() if is_map else configuration.links,
        rack="" if is_place else configuration.rack,
        domain="" if is_place else configuration.domain,
    )


def _contradictions(
    group: NodeGroup, configuration: ConfigurationSet, found: FoundMap
) -> Iterator[str]:
    """Yield where the config says other than the server tells."""
    given = group.model_fields_set
    links = tuple(tuple(gpu_numbers(mask)) for mask in configuration.links)
    for what, says, tells in (
        ("switches", _groups_of(group.switch_masks), found.switches),
        ("sockets", _groups_of(group.socket_masks), found.sockets),
        ("nvlink", links if "nvlink" in given else (), found.nvlink),
    ):
        # One part is what a config says that gives none; of what nobody tells nothing can be said.
        is_given = len(says) > 1 or (what == "nvlink" and bool(says))
        if is_given and tells and sorted(says) != sorted(tells):
            yield (
                f"{what} are {_shown(says)} by the config, and {_shown(tells)} by the server "
                f"({found.by}): {CORRECT_MAP}"
            )
    for mask, cpus in group.cpu_sockets:
        absent = sorted({*cpus} - {*found.cpus_there})
        if found.cpus_there and absent:
            yield f"socket_cpus names CPU {absent[0]}, which is not there for us: {CORRECT_MAP}"
        for gpu in gpu_numbers(mask) if found.cpus else ():
            near = found.cpus[gpu]
            if near and not absent and not {*cpus} & {*near}:
                yield (
                    f"socket_cpus gives GPU {gpu} CPUs {list(cpus)}, and near to it are "
                    f"{list(near)} by the server: {CORRECT_MAP}"
                )
                break


def _groups_of(masks: tuple[int, ...]) -> GpuGroups:
    return tuple(tuple(gpu_numbers(mask)) for mask in masks)


def _masks(groups: GpuGroups) -> tuple[int, ...]:
    return tuple(sum(1 << gpu for gpu in group) for group in groups)


def _shown(groups: GpuGroups) -> str:
    return str([list(group) for group in sorted(groups)])


def _digest(text: str, size_bytes: int) -> str:
    """Return a short name: equal texts, equal names."""
    return blake2b(text.encode(), digest_size=size_bytes).hexdigest()


BY_LOG, BY_SLURM = "log", "Slurm"
AS_BEFORE = "counts until the daemon starts while nothing runs there"


@dataclass(frozen=True, slots=True)
class ToldBySlurm:
    """Racks and domains of Slurm's nodes, and what pilots have noted of their wiring.

    Nodes come and go with pilots: one that is away is as idle as one on which nothing runs. Slurm
    binds its own jobs, so the CPUs of their sockets are nobody's concern.
    """

    places: Mapping[NodeName, Place] = field(default_factory=dict)
    wirings: Mapping[NodeName, Wiring] = field(default_factory=dict)


async def discover_maps(
    cluster: ClusterSection,
    agents: Mapping[NodeName, NodeAgent],
    state: State,
    slurm: ToldBySlurm | None = None,
) -> dict[NodeName, ServerMap]:
    """Return the map of each server, and let its agent bind ranks by its sockets.

    Args:
        cluster: as the config has it.
        agents: those that are asked, by name; others, and servers of one GPU, have no map.
        state: what the log says of servers.
        slurm: what is told of its nodes, where servers are such.
    """
    told = slurm or ToldBySlurm()
    wirings = {**told.wirings, **await ask_wirings(agents)}
    names = {
        server.name: server.gpus for agent in agents.values() for server in agent.transport.servers
    }
    groups, maps = cluster.groups(), dict[NodeName, ServerMap]()
    jobs = state.jobs.values()
    busy = {share.node for job in jobs for share in (*job.allocation.shares, *job.held.shares)}
    racks = rack_notes(cluster, told.places, BY_SLURM)
    for name, configuration in cluster.servers():
        wiring, found = wirings.get(name), FoundMap()
        if wiring is not None:
            every = names.get(name) or tuple(map(str, range(configuration.gpus)))
            found = found_map(wiring, every[: configuration.gpus])
        one = server_map(groups[name], configuration, found, told.places.get(name), BY_SLURM)
        if name in racks:
            one = replace(one, notes=(*one.notes, racks[name]))
        if name in told.wirings and not groups[name].socket_cpus:
            one = replace(one, sockets=())
        known = state.cluster.servers.get(name)
        maps[name] = kept(one, known, is_busy=name in busy, is_on_demand=slurm is not None)
    set_sockets(agents, {name: each.sockets for name, each in maps.items()})
    return maps


def kept(
    told: ServerMap, known: Server | None, *, is_busy: bool, is_on_demand: bool = False
) -> ServerMap:
    """Return the map and place of a server that count now.

    What was found changes only while the server is idle and in service. Of what is not told now,
    that counts which was told before. What the config gives counts at once, here as ever.

    Args:
        told: what the config, the server and others say.
        known: the server, as the log has it.
        is_busy: a job runs there, or is to.
        is_on_demand: it comes and goes, and who tells of it need not reach it.
    """
    if known is None or known.health is Health.removed:
        return told
    before, wanted = known.configuration, _completed(told, known)
    now = wanted.configuration
    if wanted is not told and replace(before, name=now.name) == now:
        return replace(wanted, configuration=before)
    is_given = (told.by == BY_CONFIG and has_found_map(before)) or (
        told.place_by == BY_CONFIG and has_found_place(before)
    )
    if before == now or is_given or _given(before) != _given(now):
        return wanted
    # Its drains and quarantines would be forgotten with the server.
    is_away = known.health is Health.unreachable and not known.drained
    is_in_service = known.is_up or (is_away and is_on_demand)
    if is_in_service and not is_busy and not known.quarantined:
        return wanted
    notes = list(told.notes)
    if (before.levels, before.links) != (now.levels, now.links):
        notes.append(f"it has another map than before: its map of before {AS_BEFORE}")
    if (before.rack, before.domain) != (now.rack, now.domain):
        where = " in ".join(filter(None, (f"rack {now.rack}", now.domain)))
        notes.append(f"it is in {where} by {told.place_by}: its place of before {AS_BEFORE}")
    return replace(
        told,
        configuration=before,
        by=_before(told.by, is_found=has_found_map(before)),
        place_by=_before(told.place_by, is_found=has_found_place(before)),
        notes=tuple(notes),
    )


def _given(configuration: ConfigurationSet) -> ConfigurationSet:
    """Return what the config gives of a server.

    The level of NVLink follows from the links, and logs of before do not have it: a server that is
    busy when a daemon is upgraded is no other one for that.
    """
    bare = without_found(configuration)
    return replace(bare, levels=bare.bus_levels)


def _completed(told: ServerMap, known: Server) -> ServerMap:
    """Return what is told, with what was found before and is not told now."""
    before, wanted = known.configuration, told
    if not told.by and has_found_map(before):
        # A place is named behind the map, so it is taken off and put on again.
        bare = replace(told.configuration, name=told.configuration.name.partition("@r")[0])
        with_map = mapped(bare, before.levels, before.links)
        name = with_map.name + told.configuration.name[len(bare.name) :]
        wanted = replace(wanted, configuration=replace(with_map, name=name), by=BY_LOG)
    if not told.place_by and has_found_place(before):
        place = Place(before.rack, before.domain)
        with_place = placed(wanted.configuration, place)
        wanted = replace(wanted, configuration=with_place, place_by=BY_LOG)
    return wanted


def _before(by: str, *, is_found: bool) -> str:
    """Return who told what counts, which is as before."""
    if is_found:
        return BY_LOG
    return BY_CONFIG if by == BY_CONFIG else ""
