"""What is told of the wiring of GPUs, by whomever, and the words for what joins two of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

BELOW_SWITCH = ("PIX", "PXB")
CPU_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
CPUS_MOST = 1 << 13


class GpuWiring(TypedDict):
    """A GPU with the socket that it is on (a NUMA node), and the CPUs near to it."""

    index: int
    uuid: str | None
    socket: int | None
    cpus: list[int]


class Wiring(TypedDict):
    """How the GPUs of a host are wired, and by whom that was told.

    `pci` has a word for each two of them, row by row: X, PIX, PXB, PHB, NODE, SYS, or nothing where
    that is open; `links` that of NVLink, such as NV2, or nothing. Without rows nothing is known:
    `cause` says why. `cpus` are those of the host that are ours.
    """

    gpus: list[GpuWiring]
    pci: list[list[str]]
    links: list[list[str]]
    by: str
    cause: str
    cpus: list[int]


class Told(NamedTuple):
    """What one source tells: words for two GPUs each, sockets and CPUs of each.

    Nothing of `pci` if it does not tell of all GPUs; `cause` says why.
    """

    by: str
    pci: list[list[str]]
    sockets: list[int | None]
    cpus: list[list[int]]
    cause: str = ""

    @property
    def has_switches(self) -> bool:
        """Whether some of the GPUs share a switch by it."""
        return any(word in BELOW_SWITCH for row in self.pci for word in row)

    @property
    def has_sockets(self) -> bool:
        """Whether it knows the socket of each GPU."""
        return bool(self.sockets) and None not in self.sockets


def link_rows(chains: Sequence[Sequence[object]], sockets: Sequence[int | None]) -> list[list[str]]:
    """Return the words for what joins devices, two by two.

    Args:
        chains: of each the host bridge, and the bridges above it in order.
        sockets: of each the socket; None: not known.
    """
    return [
        [
            "X" if one == two else _link(chain, other, sockets[one] == sockets[two] is not None)
            for two, other in enumerate(chains)
        ]
        for one, chain in enumerate(chains)
    ]


def cpus_in(text: str) -> list[int]:
    """Return the numbers in a list such as 0-3,8; none if it is no such list."""
    if not CPU_LIST.fullmatch(text):
        return []
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) >= CPUS_MOST:
            return []
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found)


def _link(one: Sequence[object], other: Sequence[object], is_near: bool) -> str:
    apart = (place for place, (a, b) in enumerate(zip(one, other)) if a != b)  # noqa: B905  for 3.8
    shared = next(apart, min(len(one), len(other)))
    if shared > 1:  # a bridge, and not only where all of them begin
        return "PIX" if max(len(one), len(other)) - shared <= 1 else "PXB"
    if shared == 1:
        return "PHB"
    return "NODE" if is_near else "SYS"
