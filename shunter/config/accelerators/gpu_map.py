"""The map inside a server: which of its GPUs are joined, below one PCIe switch, on one socket.

A level is given as a number, of parts that divide the GPUs evenly in their order, or as the groups
themselves. Either way it covers every GPU once, and a switch is on one socket (Xiao, SOSP-SRC 2017:
an 8-bit map of 2 CPUs x 2 PCIe switches x 2 GPUs). The CPUs of each socket may be given beside it.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from shunter.config.section import Count
from shunter.events.values import Level, LevelGroups, gpu_numbers

GpuGroups = tuple[Annotated[tuple[Count, ...], Field(min_length=1)], ...]
"""The numbers of the GPUs of each group."""
CpuGroups = GpuGroups
"""The numbers of the CPUs of each socket."""


class Parts(NamedTuple):
    """The parts of a level: how many, or the GPUs of each, and their keys."""

    key: str
    number: int
    groups_key: str
    groups: GpuGroups


def levels_of(
    gpus: int, sockets: Parts, switches: Parts, what: str = "gpus"
) -> tuple[LevelGroups, ...]:
    """Return the levels inside a server, the nearest first.

    Those that tell nothing are left out.

    Args:
        gpus: how many it has.
        sockets: of its CPUs.
        switches: of PCIe.
        what: the key that says how many GPUs there are, for messages.
    Raises:
        ValueError: a level does not cover each GPU once, or a switch is on two sockets.
    """
    on_socket, on_switch = (
        tuple(sorted(masks_of(parts, gpus, what))) for parts in (sockets, switches)
    )
    if len(on_switch) > 1:
        are_counted = not sockets.groups and not switches.groups
        if are_counted and switches.number % sockets.number:
            raise ValueError(
                f"switches = {switches.number} is no multiple of sockets = {sockets.number}"
            )
        _check_nesting(on_switch, on_socket)
    found = []
    if len(on_switch) > 1:
        found.append(LevelGroups(Level.switch, on_switch))
    # Also where every socket has one switch: a level that is left out divides nothing, and a gang
    # with max_level = "socket" would lie across sockets.
    if len(on_socket) > 1:
        found.append(LevelGroups(Level.socket, on_socket))
    return tuple(found)


def joined_level(gpus: int, links: Sequence[int]) -> tuple[LevelGroups, ...]:
    """Return the level of NVLink; a GPU without links is a group alone.

    Args:
        gpus: how many there are.
        links: the masks of those joined; without any there is no such level.
    """
    if not links:
        return ()
    alone = [1 << gpu for gpu in range(gpus) if not any(mask >> gpu & 1 for mask in links)]
    return (LevelGroups(Level.nvlink, tuple(sorted({*links, *alone}))),)


def masks_of(parts: Parts, gpus: int, what: str) -> tuple[int, ...]:
    """Return the groups of a level as masks, in the order in which they are given.

    Raises:
        ValueError: they do not cover each GPU once.
    """
    key, count = parts.key, parts.number
    if parts.groups:
        if count > 1:
            raise ValueError(
                f"{key} = {count} and {parts.groups_key} are both given: expected one of them"
            )
        return _grouped(parts, gpus, what)
    if count > 1 and (not gpus or gpus % count):
        raise ValueError(f"{key} = {count} does not divide {what} = {gpus} evenly")
    size = gpus // count
    return tuple(((1 << size) - 1) << (size * part) for part in range(count))


def check_cpus(sockets: Parts, given: CpuGroups, cpus: int) -> None:
    """Hold that the CPUs of sockets are given for each, and each CPU once.

    Args:
        sockets: as they are given.
        given: the CPUs of each, in the same order; empty: they are not given.
        cpus: how many the server has; 0: nobody says it.
    Raises:
        ValueError: they are not.
    """
    if not given:
        return
    count = len(sockets.groups) or sockets.number
    if len(given) != count:
        key = sockets.groups_key if sockets.groups else sockets.key
        raise ValueError(
            f"socket_cpus lists {len(given)} sockets, and {key} says {count}: expected the CPUs of "
            "each socket"
        )
    named = [cpu for group in given for cpu in group]
    if len(set(named)) != len(named):
        twice = next(cpu for at, cpu in enumerate(named) if cpu in named[:at])
        raise ValueError(f"socket_cpus: CPU {twice} stands twice: expected it on one socket")
    if cpus and len(named) != cpus:
        raise ValueError(
            f"socket_cpus names {len(named)} CPUs, and cpus = {cpus}: expected each of them once"
        )


def _check_nesting(switches: tuple[int, ...], sockets: tuple[int, ...]) -> None:
    for switch in switches:
        if not any(switch & ~socket == 0 for socket in sockets):
            raise ValueError(
                f"switch {gpu_numbers(switch)} lies across sockets: expected all of its GPUs in "
                f"one of {[gpu_numbers(socket) for socket in sockets]}"
            )


def _grouped(parts: Parts, gpus: int, what: str) -> tuple[int, ...]:
    key, seen = parts.groups_key, 0
    masks = []
    for group in parts.groups:
        for gpu in group:
            if gpu >= gpus:
                raise ValueError(
                    f"{key}: {list(group)} names GPU {gpu}, and {what} = {gpus}: expected numbers "
                    f"below {gpus}"
                )
            if seen >> gpu & 1:
                raise ValueError(
                    f"{key}: GPU {gpu} stands twice: expected groups that do not overlap"
                )
            seen |= 1 << gpu
        masks.append(sum(1 << gpu for gpu in group))
    missing = ((1 << gpus) - 1) & ~seen
    if missing:
        raise ValueError(
            f"{key}: no group has GPU {gpu_numbers(missing)[0]}: expected a map that covers all "
            f"{what} = {gpus}"
        )
    return tuple(masks)
