"""Whose turn it is on the GPUs of one server, which jobs share in turns: a weighted round robin.

Each job wants so many GPUs at once, its *width*, and gets all of them or none. At the end of a
quantum those go first that had the least time for their weight (start-time fair queueing, Goyal et
al., SIGCOMM 1996, over jobs; Gandiva, OSDI 2018, 3.1, asks for a weighted round robin on each
server); who fits beside them comes too, so no GPU idles while anybody could use it. The time a job
really had counts, with what it went on to its mini-batch boundary, so shares stay fair. Who joins
gets no credit for the time before. A job that has waited longer than `wait_most_us` for a turn goes
before all others, the one that waits longest first.

The simulator and the agents of servers go by this rule. Instants and durations are microseconds, of
any clock. Only the standard library of Python 3.8 or later.
"""

# int.bit_count is of Python 3.10.
# ruff: noqa: FURB161

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Member", "Rotation"]


class Member:
    """A job in the rotation: what it may use, and what it had.

    Attributes:
        name: of the job.
        width: how many GPUs it works on at once.
        home: the mask of the GPUs it was given.
        weight: its part of the time beside others of another weight.
        is_fixed: whether it can work on its own GPUs only, not on others of the server.
        used_us: the time it had, over its weight, from the same start for all.
        mask: the GPUs it is on now; 0: it waits.
        began_us: since when it is on them, or waits.
        since_us: up to when its time is counted.
    """

    __slots__ = (
        "began_us",
        "home",
        "is_fixed",
        "mask",
        "name",
        "number",
        "since_us",
        "used_us",
        "weight",
        "width",
    )

    def __init__(self, name: str, home: int, weight: float, *, is_fixed: bool) -> None:
        self.name = name
        self.home = home
        self.width = bin(home).count("1")
        self.weight = weight
        self.is_fixed = is_fixed
        self.number = 0
        self.used_us = 0.0
        self.mask = 0
        self.began_us = 0
        self.since_us = 0

    def account(self, now_us: int) -> None:
        """Count the time up to now if it is its turn."""
        if self.mask:
            self.used_us += (now_us - self.since_us) / self.weight
            self.since_us = now_us


class Rotation:
    """The jobs that take turns on the GPUs of a server.

    `ends_us` is when the quantum ends, after which others have their turn; None: nobody waits.
    """

    __slots__ = ("_joined", "_switched_us", "_wait_most_us", "members", "quantum_us")

    def __init__(self, quantum_us: int, wait_most_us: int | None = None) -> None:
        self.quantum_us = quantum_us
        self._wait_most_us = wait_most_us
        self._joined = 0
        self._switched_us = 0
        self.members: dict[str, Member] = {}

    @property
    def gpus(self) -> int:
        """The mask of all GPUs that jobs take turns on."""
        mask = 0
        for member in self.members.values():
            mask |= member.home
        return mask

    @property
    def waiting(self) -> list[Member]:
        """Who waits for a turn."""
        return [member for member in self.members.values() if not member.mask]

    @property
    def ends_us(self) -> int | None:
        """The instant at which the quantum ends; None: nobody waits for that."""
        if not self.waiting:
            return None
        began_us = [member.began_us for member in self.members.values() if member.mask]
        return max(self._switched_us, min(began_us, default=0)) + self.quantum_us

    def join(self, member: Member, now_us: int) -> None:
        """Let a job take turns from now on; it gets free GPUs with the next `fill`."""
        self._account(now_us)
        known = [other.used_us for other in self.members.values()]
        member.used_us = min(known, default=0.0)
        member.number, member.began_us = self._joined, now_us
        self._joined += 1
        self.members[member.name] = member

    def leave(self, name: str, now_us: int) -> None:
        """Take a job out; its GPUs are free for the next `fill`."""
        self._account(now_us)
        del self.members[name]

    def rehome(self, name: str, home: int) -> None:
        """Let a job have other GPUs of its own; its turn under way goes on where it is."""
        self.members[name].home = home

    def weigh(self, name: str, weight: float, now_us: int) -> None:
        """Let a job have another part of the time from now on; what it had stays."""
        self._account(now_us)
        self.members[name].weight = weight

    def fill(self, now_us: int) -> list[Member]:
        """Give GPUs that are free to those that wait and fit; return them."""
        self._account(now_us)
        free = self.gpus & ~_union(self.members.values())
        begun = []
        for member in self._order(self.waiting, now_us):
            mask = _some(free & self._allowed(member), member)
            if mask:
                self._turn(member, mask, now_us)
                free &= ~mask
                begun.append(member)
        return begun

    def next_turns(self, now_us: int) -> dict[str, int]:
        """Return who has a turn in the next quantum, with masks; nothing changes yet.

        A job that has a turn now and in the next quantum keeps its GPUs, if they are nobody's own.
        """
        self._account(now_us)
        free = self.gpus
        chosen = []
        order = self._order(self.members.values(), now_us)
        for member in order:
            mask = _some(free & self._allowed(member), member)
            if mask:
                chosen.append(member)
                free &= ~mask
        free = self.gpus
        turns = {}
        for member in sorted(chosen, key=lambda one: (not one.is_fixed, not one.mask)):
            stays = member.mask and not member.mask & ~free
            mask = member.mask if stays else _some(free & self._allowed(member), member)
            turns[member.name] = mask
            free &= ~mask
        for member in order:  # GPUs that those who stay on others have left
            mask = 0 if member.name in turns else _some(free & self._allowed(member), member)
            if mask:
                turns[member.name] = mask
                free &= ~mask
        return turns

    def switch(self, turns: dict[str, int], now_us: int, takes_us: int = 0) -> None:
        """Begin a quantum with these turns; who has left meanwhile has none.

        The change of hands may take some time: it is not of the quantum, and counts all the same.
        """
        self._account(now_us)
        self._switched_us = now_us + takes_us
        for name, member in self.members.items():
            mask = turns.get(name, 0)
            if mask != member.mask:
                self._turn(member, mask, now_us)

    def _turn(self, member: Member, mask: int, now_us: int) -> None:
        member.mask, member.began_us, member.since_us = mask, now_us, now_us

    def _account(self, now_us: int) -> None:
        for member in self.members.values():
            member.account(now_us)

    def _allowed(self, member: Member) -> int:
        return member.home if member.is_fixed else self.gpus

    def _order(self, members: Iterable[Member], now_us: int) -> list[Member]:
        """Return who goes first: overdue ones, then those that had the least."""

        def rank(member: Member) -> tuple[int, float, int]:
            waited_us = 0 if member.mask else now_us - member.began_us
            if self._wait_most_us is not None and waited_us > self._wait_most_us:
                return 0, -waited_us, member.number
            return 1, member.used_us, member.number

        return sorted(members, key=rank)


def _union(members: Iterable[Member]) -> int:
    mask = 0
    for member in members:
        mask |= member.mask
    return mask


def _some(free: int, member: Member) -> int:
    """Return as many free GPUs as a job wants, its own first; 0: there are too few."""
    mask = 0
    for part in (free & member.home, free & ~member.home):
        while part and bin(mask).count("1") < member.width:
            mask |= part & -part
            part &= part - 1
    return mask if bin(mask).count("1") == member.width else 0
