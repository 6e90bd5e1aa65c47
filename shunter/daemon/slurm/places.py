"""Racks and network domains of Slurm's nodes, by its `topology.conf`.

A rack is the lowest switch (topology/tree) or the block (topology/block), a domain is the switch
right above it, where there are several of these. Slurm is asked when a daemon starts; one that does
not answer in time tells nothing, which is no error.
"""

from collections import Counter
from collections.abc import Sequence

from shunter.backends.slurm import NetworkSwitch, Slurm
from shunter.config.live.slurm import SlurmSection
from shunter.daemon.gpu_maps.network_places import Place
from shunter.errors import SlurmUnknownError
from shunter.events.values import NodeName

ASK_S = 5.0
"""How long a start waits for that; a controller that is away lets its commands wait for longer."""


def places_in(switches: Sequence[NetworkSwitch]) -> dict[NodeName, Place]:
    """Return where nodes are, without those on two of the lowest switches."""
    leaves = [switch for switch in switches if not switch.level]
    above = [switch for switch in switches if switch.level == 1]
    domains = {rack: switch.name for switch in above for rack in switch.below}
    if len(above) < 2:  # that there is one domain tells nothing
        domains = {}
    hung = Counter(node for leaf in leaves for node in leaf.nodes)
    return {
        NodeName(node): Place(leaf.name, domains.get(leaf.name, ""))
        for leaf in leaves
        for node in leaf.nodes
        if hung[node] == 1
    }


async def ask_places(section: SlurmSection) -> dict[NodeName, Place]:
    """Ask Slurm where its nodes are; nothing where it does not say."""
    slurm = Slurm(deadline_s=min(section.call / 1e6, ASK_S))
    try:
        return places_in(await slurm.switches())
    except SlurmUnknownError:
        return {}
