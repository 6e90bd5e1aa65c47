"""The maps of all servers of a live cluster, when its daemon starts."""

import re
from collections.abc import Mapping
from dataclasses import replace

from shunter.app.config.cluster_section import ClusterSection
from shunter.app.gpu_maps.found_map import FoundMap, found_map
from shunter.app.gpu_maps.server_map import BY_CONFIG, ServerMap, server_map, without_map
from shunter.backends.agents.node_agent import NodeAgent
from shunter.backends.supervised.wiring import ask_wirings, set_sockets
from shunter.core.cluster import Health, Server
from shunter.core.state import State
from shunter.events.values.configuration_set import ConfigurationSet
from shunter.events.values.ids import NodeName

__all__ = ["BY_LOG", "discover_maps", "kept"]

BY_LOG = "log"
AS_BEFORE = "its map of before counts until the daemon starts while nothing runs there"
_FOUND = re.compile(r"@[0-9a-f]{6}")


async def discover_maps(
    cluster: ClusterSection, agents: Mapping[NodeName, NodeAgent], state: State
) -> dict[NodeName, ServerMap]:
    """Return the map of each server, and let its agent bind ranks by its sockets.

    Args:
        cluster: as the config has it.
        agents: those that are asked, by name; others, and servers of one GPU, have no map.
        state: what the log says of servers.
    """
    wirings = await ask_wirings(agents)
    names = {
        server.name: server.gpus for agent in agents.values() for server in agent.transport.servers
    }
    groups, maps = cluster.groups(), dict[NodeName, ServerMap]()
    jobs = state.jobs.values()
    busy = {share.node for job in jobs for share in (*job.allocation.shares, *job.held.shares)}
    for name, configuration in cluster.servers():
        wiring, found = wirings.get(name), FoundMap()
        if wiring is not None:
            found = found_map(wiring, names[name][: configuration.gpus])
        told = server_map(groups[name], configuration, found)
        maps[name] = kept(told, state.cluster.servers.get(name), is_busy=name in busy)
    set_sockets(agents, {name: each.sockets for name, each in maps.items()})
    return maps


def kept(told: ServerMap, known: Server | None, *, is_busy: bool) -> ServerMap:
    """Return the map of a server that counts now.

    It changes only while the server is idle and in service. A server that tells no map now has the
    one that it told before. What the config gives counts at once, here as ever.

    Args:
        told: what the config and the server say.
        known: the server, as the log has it.
        is_busy: a job runs there, or is to.
    """
    if known is None or known.health is Health.removed or told.by == BY_CONFIG:
        return told
    before, now = known.configuration, told.configuration
    if before == now or without_map(before) != without_map(now):
        return told
    if not _is_found(before) and (before.levels or before.links):
        return told  # the config gave it, and gives it no more
    # Its drains and quarantines would be forgotten with the server.
    is_idle = known.is_up and not is_busy and not known.quarantined
    if is_idle if told.by else not _is_found(before):
        return told
    note = f"it has another map than before: {AS_BEFORE}"
    return replace(
        told,
        configuration=before,
        by=BY_LOG if _is_found(before) else "",
        notes=(*told.notes, note) if told.by else told.notes,
    )


def _is_found(configuration: ConfigurationSet) -> bool:
    """Say whether its map was found, by its name."""
    return _FOUND.search(configuration.name, max(0, len(configuration.name) - 7)) is not None
