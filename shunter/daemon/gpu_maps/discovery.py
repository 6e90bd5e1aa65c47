"""The maps and places of all servers of a live cluster, when its daemon starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shunter.backends.live.backend import ask_wirings, set_sockets
from shunter.backends.live.messages import Wiring
from shunter.backends.live.node_agent import NodeAgent
from shunter.config.cluster_section import ClusterSection
from shunter.core.cluster import Health, Server
from shunter.core.state import State
from shunter.daemon.gpu_maps.found_map import FoundMap, found_map
from shunter.daemon.gpu_maps.network_places import Place, rack_notes
from shunter.daemon.gpu_maps.server_map import (
    BY_CONFIG,
    ServerMap,
    has_found_map,
    has_found_place,
    mapped,
    placed,
    server_map,
    without_found,
)
from shunter.events.values import ConfigurationSet, NodeName

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
