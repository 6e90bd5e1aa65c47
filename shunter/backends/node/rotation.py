"""Whose turn it is on the GPUs of one server, which jobs share in turns: a weighted round robin.

Each job wants so many GPUs at once, its *width*, and gets all of them or none. At the end of a
quantum those go first that had the least time for their weight (start-time fair queueing, Goyal et
al., SIGCOMM 1996, over jobs; Gandiva, OSDI 2018, 3.1, asks for a weighted round robin on each
server); who fits beside them comes too, so no GPU idles while anybody could use it. The time a job
really had counts, with what it went on to its mini-batch boundary, so shares stay fair; whose turn
it is counts as half a quantum ahead, so that it gets no second one for having had a little less
than others. Who joins gets no credit for the time before. Jobs that are packed have their turns
together, on the same GPUs at once, with the weights of all of them. A job that has waited longer
than `wait_most_us` for a turn goes before all others, the one that waits longest first.

A gang over several servers has its turns by a `Timetable` on each of them, before all others and on
its own GPUs; the rest of the time goes round among those.

The simulator and the agents of servers go by this rule. Instants and durations are microseconds, of
any clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Rotation:
    """The jobs that take turns on the GPUs of a server.

    `ends_us` is when the quantum ends, after which others have their turn; None: nobody waits.
    `ahead_us` is how far the clock of timetables is ahead of that of instants.
    """

    __slots__ = ("_joined", "_switched_us", "_wait_most_us", "ahead_us", "members", "quantum_us")

    def __init__(self, quantum_us: int, wait_most_us: int | None = None) -> None:
        self.quantum_us = quantum_us
        self._wait_most_us = wait_most_us
        self._joined = 0
        self._switched_us = 0
        self.ahead_us = 0
        self.members: dict[str, Member] = {}

    @property
    def gpus(self) -> int:
        """The mask of all GPUs that jobs take turns on."""
        mask = 0
        for member in self.members.values():
            mask |= member.home
            for each in member.packed:
                mask |= each.home
        return mask

    @property
    def waiting(self) -> list[Member]:
        """Who waits for a turn; those with a timetable wait for their time."""
        return [
            member
            for member in self.members.values()
            if not member.mask and not member.is_stuck
            if member.timetable is None or member.goes_first
        ]

    @property
    def ends_us(self) -> int | None:
        """The instant at which the quantum ends; None: nobody waits for that."""
        if not self.waiting:
            return None
        began_us = [
            each.began_us
            for each in self.members.values()
            if each.mask and not each.is_stuck and each.timetable is None
        ]
        return max(self._switched_us, min(began_us, default=0)) + self.quantum_us

    def is_called(self, now_us: int) -> bool:
        """Say whether a turn by a timetable is to begin or to end."""
        return any(
            member.timetable is not None
            and not member.is_stuck
            and bool(member.mask) != member.is_due(now_us + self.ahead_us)
            for member in self.members.values()
        )

    def calls_us(self, now_us: int) -> int | None:
        """Return when a turn by a timetable begins or ends next; None: none does."""
        clock_us = now_us + self.ahead_us
        changes = [
            each.timetable.changes_us(clock_us)
            for each in self.members.values()
            if each.timetable is not None and not each.is_stuck
        ]
        return min([at_us - self.ahead_us for at_us in changes if at_us is not None], default=None)

    def join(self, member: Member, now_us: int) -> None:
        """Let a job take turns from now on; it gets free GPUs with the next `fill`.

        It starts as who had least of those that can use its GPUs. One that works on these only and
        had them for itself is no more than a quantum ahead of it, or it would wait as long again.
        """
        self._account(now_us)
        gpus = self.gpus
        allowed = _allowed(member, gpus) | member.home
        others = [other for other in self.members.values() if other.timetable is None]
        beside = [other for other in others if (_allowed(other, gpus) | other.home) & allowed]
        member.used_us = min([other.used_us for other in beside or others], default=0.0)
        for other in beside if member.timetable is None else ():
            if other.is_fixed:
                most_us = member.used_us + self.quantum_us / other.weight_of_all
                other.used_us = min(other.used_us, most_us)
        member.number, member.began_us = self._joined, now_us
        self._joined += 1
        self.members[member.name] = member

    def leave(self, name: str, now_us: int) -> str | None:
        """Take a job out; its GPUs are free for the next `fill`.

        Returns:
            who has the turns instead that were those of this job and others; None: nobody.
        """
        self._account(now_us)
        member = self.members.get(name)
        if member is None:
            self.part(name, now_us)
            del self.members[name]
            return None
        del self.members[name]
        if not member.packed:
            return None
        heir, *others = member.packed
        for field in ("used_us", "mask", "began_us", "since_us", "is_stuck"):
            setattr(heir, field, getattr(member, field))
        heir.packed = others
        self.members[heir.name] = heir
        return heir.name

    def rehome(self, name: str, home: int) -> None:
        """Let a job have other GPUs of its own; its turn under way goes on where it is."""
        self.job(name).home = home

    def weigh(self, name: str, weight: float, now_us: int) -> None:
        """Let a job have another part of the time from now on; what it had stays."""
        self._account(now_us)
        self.job(name).weight = weight

    def has(self, name: str) -> bool:
        """Say whether a job takes turns here."""
        return any(name in member.names for member in self.members.values())

    def pack(self, name: str, onto: str, now_us: int) -> None:
        """Let a member have its turns with another from now on, on the GPUs of that one.

        The time that both had counts as that of one with the weight of both.
        """
        self._account(now_us)
        joining, member = self.members.pop(name), self.members[onto]
        weights = (member.weight_of_all, joining.weight_of_all)
        used_us = member.used_us * weights[0] + joining.used_us * weights[1]
        member.used_us = used_us / sum(weights)
        member.packed += [joining, *joining.packed]
        joining.packed = []

    def part(self, name: str, now_us: int) -> None:
        """Let a job have turns of its own again; it waits for the next one."""
        self._account(now_us)
        for member in self.members.values():
            for each in member.packed:
                if each.name == name:
                    member.packed.remove(each)
                    each.used_us, each.mask, each.began_us = member.used_us, 0, now_us
                    self.members[name] = each
                    return

    def block(self, name: str, mask: int, now_us: int) -> None:
        """Leave a job that does not answer, and those packed with it, its GPUs.

        Args:
            name: of the job.
            mask: the GPUs it may be on, where it has no turn here.
            now_us: the instant.
        """
        self._account(now_us)
        member = next(each for each in self.members.values() if name in each.names)
        member.is_stuck = True
        if mask and not member.mask:
            self._turn(member, mask, now_us)

    def unblock(self, member: Member, now_us: int) -> None:
        """Let a member that stands still after all wait for its next turn."""
        self._account(now_us)
        member.is_stuck = False
        self._turn(member, 0, now_us)

    def could_begin(self, member: Member) -> bool:
        """Say whether there are GPUs for a member beside those that do not answer."""
        gpus = self.gpus
        return bool(_some(gpus & ~self._blocked & _allowed(member, gpus), member))

    def fill(self, now_us: int) -> list[Member]:
        """Give GPUs that are free to those that wait and fit; return them."""
        self._account(now_us)
        gpus = self.gpus
        free = gpus & ~_union(self.members.values())
        begun: list[Member] = []
        if not free:
            return begun
        clock_us = now_us + self.ahead_us
        idle = [each for each in self.members.values() if not each.mask and not each.is_stuck]
        for member in self._order([each for each in idle if each.is_due(clock_us)], now_us):
            mask = _some(free & _allowed(member, gpus), member)
            if mask:
                self._turn(member, mask, now_us)
                free &= ~mask
                begun.append(member)
        return begun

    def next_turns(self, now_us: int) -> dict[str, int]:
        """Return who has a turn in the next quantum, with masks; nothing changes yet.

        A job that has a turn now and in the next quantum keeps its GPUs, if they are nobody's own.
        Who does not answer keeps what it has.
        """
        self._account(now_us)
        gpus = self.gpus
        free = usable = gpus & ~self._blocked
        chosen = []
        members = self.members.values()
        clock_us = now_us + self.ahead_us
        due = [each for each in members if not each.is_stuck and each.is_due(clock_us)]
        order = self._order(due, now_us)
        for member in order:
            mask = _some(free & _allowed(member, gpus), member)
            if mask:
                chosen.append(member)
                free &= ~mask
            if not free:
                break
        free = usable
        turns = {each.name: each.mask for each in members if each.is_stuck}
        for member in sorted(chosen, key=lambda one: (not one.is_fixed, not one.mask)):
            stays = member.mask and not member.mask & ~free
            mask = member.mask if stays else _some(free & _allowed(member, gpus), member)
            turns[member.name] = mask
            free &= ~mask
        for member in order:  # GPUs that those who stay on others have left
            if not free:
                break
            mask = 0 if member.name in turns else _some(free & _allowed(member, gpus), member)
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

    def job(self, name: str) -> Member:
        """Return a job, whether it is a member or packed with one."""
        known = self.members.get(name)
        if known is not None:
            return known
        packed = (each for member in self.members.values() for each in member.packed)
        return next(each for each in packed if each.name == name)

    @property
    def _blocked(self) -> int:
        """The mask of the GPUs of those that do not answer."""
        return _union(each for each in self.members.values() if each.is_stuck)

    def _turn(self, member: Member, mask: int, now_us: int) -> None:
        member.mask, member.began_us, member.since_us = mask, now_us, now_us

    def _account(self, now_us: int) -> None:
        for member in self.members.values():
            member.account(now_us)

    def _order(self, members: Iterable[Member], now_us: int) -> list[Member]:
        """Return who goes first: urgent, by timetable, overdue, then who had the least."""

        def rank(member: Member) -> tuple[int, float, int]:
            if member.goes_first:
                return -2, member.used_us, member.number
            if member.timetable is not None:
                return -1, 0.0, member.number
            waited_us = 0 if member.mask else now_us - member.began_us
            if self._wait_most_us is not None and waited_us > self._wait_most_us:
                return 0, -waited_us, member.number
            ahead_us = self.quantum_us / 2 / member.weight if member.mask else 0.0
            return 1, member.used_us + ahead_us, member.number

        return sorted(members, key=rank)


def _allowed(member: Member, gpus: int) -> int:
    """Return the GPUs of a server that all jobs of a member can use."""
    for each in (member, *member.packed):
        if each.is_fixed:
            gpus &= each.home
    return gpus


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


class Member:
    """A job in the rotation: what it may use, and what it had.

    Attributes:
        name: of the job.
        width: how many GPUs it works on at once.
        home: the mask of the GPUs it was given.
        weight: its part of the time beside others of another weight.
        is_fixed: whether it can work on its own GPUs only, not on others of the server.
        used_us: the time it had, over its weight, from the same start for all.
        is_urgent: whether it goes before all others, with those that are packed with it.
        is_stuck: whether it does not answer: its GPUs are nobody else's until it stands still.
        mask: the GPUs it is on now; 0: it waits.
        began_us: since when it is on them, or waits.
        since_us: up to when its time is counted.
        packed: jobs that have all their turns with it, on the same GPUs; they are no members.
        timetable: when it has its turns, as part of a gang over several servers; None: in turn.
    """

    __slots__ = (
        "began_us",
        "home",
        "is_fixed",
        "is_stuck",
        "is_urgent",
        "mask",
        "name",
        "number",
        "packed",
        "since_us",
        "timetable",
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
        self.is_urgent = self.is_stuck = False
        self.number = 0
        self.used_us = 0.0
        self.mask = 0
        self.began_us = 0
        self.since_us = 0
        self.packed: list[Member] = []
        self.timetable: Timetable | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All jobs that have its turns: itself, and those that are packed with it."""
        return (self.name, *[each.name for each in self.packed])

    @property
    def weight_of_all(self) -> float:
        """The weight of all jobs that have its turns."""
        return self.weight + sum(each.weight for each in self.packed)

    @property
    def goes_first(self) -> bool:
        """Whether one of the jobs that have its turns is urgent."""
        return self.is_urgent or any(each.is_urgent for each in self.packed)

    def is_due(self, clock_us: int) -> bool:
        """Say whether it may have a turn at an instant of the clock of timetables."""
        return self.timetable is None or self.goes_first or self.timetable.covers(clock_us)

    def account(self, now_us: int) -> None:
        """Count the time up to now if it is its turn."""
        if self.mask:
            self.used_us += (now_us - self.since_us) / self.weight_of_all
            self.since_us = now_us


class Timetable(NamedTuple):
    """The turns of a gang over several servers, one in each period.

    They go by the clock, so that all servers keep them alike. No server asks another whose turn it
    is, and none could while no scheduler is there. So each is told the same timetable, `length_us`
    from `first_us` on in each `period_us`, and gives the gang its GPUs then. Instants are
    microseconds since the epoch, or of the virtual clock.
    """

    period_us: int
    first_us: int
    length_us: int

    def covers(self, at_us: int) -> bool:
        """Say whether an instant is within a turn."""
        return (at_us - self.first_us) % self.period_us < self.length_us

    def began_us(self, at_us: int) -> int:
        """Return when the last turn at or before an instant was to begin."""
        return at_us - (at_us - self.first_us) % self.period_us

    def ended_us(self, at_us: int) -> int:
        """Return when the last turn that is over at an instant was to end."""
        end_us = self.began_us(at_us) + self.length_us
        return end_us if end_us <= at_us else end_us - self.period_us

    def changes_us(self, at_us: int) -> int | None:
        """Return when a turn begins or ends next, after an instant; None: none ever does."""
        if not 0 < self.length_us < self.period_us:
            return None
        into_us = (at_us - self.first_us) % self.period_us
        upto_us = self.length_us if into_us < self.length_us else self.period_us
        return at_us + upto_us - into_us
