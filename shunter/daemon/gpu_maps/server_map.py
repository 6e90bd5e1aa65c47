"""The map of a server that counts: the one of the config where it gives one, else the found one.

The name of a configuration set says what of it was found: it ends in `@` and a digest of the map,
and in `@r` and a digest of rack and domain.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

from shunter.backends.live.settings import Socket
from shunter.config.accelerators import GpuGroups, joined_level
from shunter.config.cluster_section import NodeGroup
from shunter.daemon.gpu_maps.found_map import FoundMap
from shunter.daemon.gpu_maps.network_places import Place, gives_place
from shunter.events.values import ConfigurationSet, LevelGroups, gpu_numbers

BY_CONFIG = "config"
LEVEL_KEYS = frozenset({"sockets", "switches", "socket_gpus", "switch_gpus"})
_MAP, _PLACE = re.compile(r"@[0-9a-f]{6}(?=@r|\Z)"), re.compile(r"@r[0-9a-f]{12}\Z")
GIVE = "give sockets, switches and nvlink in [[cluster.nodes]] if it has them"
CORRECT = "the config counts; correct it in [[cluster.nodes]], or leave it out there"


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
        ("switches", _groups(group.switch_masks), found.switches),
        ("sockets", _groups(group.socket_masks), found.sockets),
        ("nvlink", links if "nvlink" in given else (), found.nvlink),
    ):
        # One part is what a config says that gives none; of what nobody tells nothing can be said.
        is_given = len(says) > 1 or (what == "nvlink" and bool(says))
        if is_given and tells and sorted(says) != sorted(tells):
            yield (
                f"{what} are {_shown(says)} by the config, and {_shown(tells)} by the server "
                f"({found.by}): {CORRECT}"
            )
    for mask, cpus in group.cpu_sockets:
        absent = sorted({*cpus} - {*found.cpus_there})
        if found.cpus_there and absent:
            yield f"socket_cpus names CPU {absent[0]}, which is not there for us: {CORRECT}"
        for gpu in gpu_numbers(mask) if found.cpus else ():
            near = found.cpus[gpu]
            if near and not absent and not {*cpus} & {*near}:
                yield (
                    f"socket_cpus gives GPU {gpu} CPUs {list(cpus)}, and near to it are "
                    f"{list(near)} by the server: {CORRECT}"
                )
                break


def _groups(masks: tuple[int, ...]) -> GpuGroups:
    return tuple(tuple(gpu_numbers(mask)) for mask in masks)


def _masks(groups: GpuGroups) -> tuple[int, ...]:
    return tuple(sum(1 << gpu for gpu in group) for group in groups)


def _shown(groups: GpuGroups) -> str:
    return str([list(group) for group in sorted(groups)])


def _digest(text: str, size_bytes: int) -> str:
    """Return a short name: equal texts, equal names."""
    return blake2b(text.encode(), digest_size=size_bytes).hexdigest()
