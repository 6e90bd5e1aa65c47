"""From what Slurm tells of a partition to groups of equal servers, as `[cluster]` holds them.

Racks and domains are those of topology.conf (places.py). What a config cannot hold is left out, and
said: servers without GPUs, and those with two GPU types.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shunter.backends.slurm import NetworkSwitch, Partition, Reservation, Slurm, SlurmNode
from shunter.config.cluster_section import GPUS_MAX
from shunter.core.admission import is_mig
from shunter.daemon.gpu_maps import Place
from shunter.daemon.slurm import places_in
from shunter.errors import UsageError
from shunter.events.values import NodeName


@dataclass(frozen=True, slots=True)
class SlurmInventory:
    """What a cluster tells of itself."""

    version: str
    settings: Mapping[str, str]
    partitions: tuple[Partition, ...]
    nodes: tuple[SlurmNode, ...]
    switches: tuple[NetworkSwitch, ...]
    reservations: tuple[Reservation, ...]

    def partition(self, name: str) -> Partition:
        """Return a partition.

        Raises:
            UsageError: there is none of that name.
        """
        for one in self.partitions:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self.partitions) or "none"
        raise UsageError(f"Slurm has no partition {name!r}: expected one of {names}")

    def nodes_of(self, partition: Partition) -> tuple[SlurmNode, ...]:
        """Return the nodes of a partition, in its order."""
        known = {node.name: node for node in self.nodes}
        return tuple(known[name] for name in partition.nodes if name in known)


@dataclass(frozen=True, slots=True)
class ServerKind:
    """What equal servers have in common."""

    gpu_type: str
    gpus: int
    cpus: int
    memory_gb: int
    sockets: int
    rack: str
    domain: str


@dataclass(frozen=True, slots=True)
class Discovered:
    """The servers of a partition by kind, and what is to be said of them."""

    kinds: Mapping[ServerKind, Sequence[str]]
    features: Mapping[ServerKind, Sequence[str]]
    notes: Sequence[str]


async def inventory(slurm: Slurm) -> SlurmInventory:
    """Ask a cluster what it has.

    Raises:
        SlurmUnknownError: it does not answer.
    """
    return SlurmInventory(
        version=await slurm.version(),
        settings=await slurm.settings(),
        partitions=await slurm.partitions(),
        nodes=await slurm.nodes(),
        switches=await slurm.switches(),
        reservations=await slurm.reservations(),
    )


def discovered(found: SlurmInventory, partition: Partition) -> Discovered:
    """Return the servers of a partition.

    Raises:
        UsageError: not one of them can stand in a config.
    """
    places = places_in(found.switches)
    kinds: dict[ServerKind, list[str]] = {}
    features: dict[ServerKind, tuple[str, ...]] = {}
    left_out: dict[str, list[str]] = {}
    for node in found.nodes_of(partition):
        if why := _unfit(node):
            left_out.setdefault(why, []).append(node.name)
            continue
        kind = _kind(node, places.get(NodeName(node.name), Place()))
        kinds.setdefault(kind, []).append(node.name)
        features.setdefault(kind, node.features)
        if features[kind] != node.features:
            features[kind] = tuple(one for one in features[kind] if one in node.features)
    notes = [f"left out: {', '.join(names)}: {why}" for why, names in left_out.items()]
    if not kinds:
        raise UsageError(
            f"partition {partition.name!r} has no server that a config could hold"
            + "".join(f"; {note}" for note in notes)
        )
    placed = [name for names in kinds.values() for name in names]
    notes += [
        f"{node.name} takes no jobs now ({_trouble(node)}); it is in the config all the same"
        for node in found.nodes_of(partition)
        if node.name in placed and not node.is_in_service
    ]
    notes += [
        f"{', '.join(names)}: {kind.gpu_type} are MIG instances, on which jobs of one GPU run alone"
        for kind, names in kinds.items()
        if is_mig(kind.gpu_type)
    ]
    return Discovered(kinds, features, notes)


def _unfit(node: SlurmNode) -> str:
    """Return why a node cannot stand in a config; nothing if it can."""
    if not node.gpus:
        return "without GPUs that Slurm knows (GRES)"
    if len(node.gpus) > 1:
        return f"GPUs of several types ({', '.join(sorted(node.gpus))}), and [cluster] holds one"
    if sum(node.gpus.values()) > GPUS_MAX:
        return f"more than {GPUS_MAX} GPUs"
    return ""


def _trouble(node: SlurmNode) -> str:
    state = "+".join([node.state, *sorted(node.flags)]).lower()
    return f"{state}: {node.reason}" if node.reason else state


def _kind(node: SlurmNode, place: Place) -> ServerKind:
    ((gpu_type, gpus),) = node.gpus.items()
    is_divided = node.sockets > 1 and gpus % node.sockets == 0
    return ServerKind(
        gpu_type=gpu_type,
        gpus=gpus,
        cpus=node.cpus,
        memory_gb=node.memory_mb // 1000,
        sockets=node.sockets if is_divided else 1,
        rack=place.rack,
        domain=place.domain,
    )
