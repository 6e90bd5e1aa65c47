"""Servers that die and come back, by themselves or with their rack, from a seed.

Times between failures and to repair are exponential with the given means (the usual model;
Schroeder and Gibson, FAST 2007, discuss where it is off). Every server and every rack draws from a
stream of its own, so adding one changes nothing for the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import log

from shunter.core import NEVER_US, RandomStream
from shunter.events import NodeName, fact


@fact
class NodeChange:
    """A server dies or comes back."""

    at_us: int
    node: NodeName
    is_loss: bool
    cause: str


@dataclass(frozen=True)
class Failures:
    """Mean times to failure and to repair, in microseconds.

    With 0 for `mtbf_us` or `rack_mtbf_us` such failures never happen. `racks` gives the rack of
    each server ("" for none).
    """

    racks: Mapping[NodeName, str] = field(default_factory=dict)
    seed: int = 0
    mtbf_us: int = 0
    mttr_us: int = 0
    rack_mtbf_us: int = 0

    def changes(self) -> Iterator[NodeChange]:
        """Yield losses and returns in order of time, without end.

        A server that is down already is not lost again.
        """
        agenda = self._first_failures()
        down: dict[NodeName, int] = dict.fromkeys(self.racks, 0)
        while agenda:
            at_us, name, is_rack, is_loss, rng = heappop(agenda)
            wait_us = _exponential(rng, self._mean_us(is_rack, is_loss))
            heappush(agenda, (at_us + wait_us, name, is_rack, not is_loss, rng))
            cause = "rack" if is_rack else "server"
            for node in self._nodes_of(name, is_rack):
                down[node] += 1 if is_loss else -1
                if down[node] == (1 if is_loss else 0):
                    yield NodeChange(at_us, node, is_loss, cause)

    def _first_failures(self) -> list[tuple[int, str, bool, bool, "_FailureRng"]]:
        agenda = []
        if self.mtbf_us:
            for node in self.racks:
                rng = _FailureRng(self.seed, "failures", "server", node)
                agenda.append((_exponential(rng, self.mtbf_us), str(node), False, True, rng))
        if self.rack_mtbf_us:
            for rack in sorted({rack for rack in self.racks.values() if rack}):
                rng = _FailureRng(self.seed, "failures", "rack", rack)
                agenda.append((_exponential(rng, self.rack_mtbf_us), rack, True, True, rng))
        heapify(agenda)
        return agenda

    def _mean_us(self, is_rack: bool, was_loss: bool) -> int:
        if was_loss:
            return max(1, self.mttr_us)
        return self.rack_mtbf_us if is_rack else self.mtbf_us

    def _nodes_of(self, name: str, is_rack: bool) -> list[NodeName]:
        if not is_rack:
            return [NodeName(name)]
        return [node for node, rack in self.racks.items() if rack == name]


@dataclass(frozen=True)
class RecordedFailures:
    """Losses and returns that are known, in order of time."""

    known: tuple[NodeChange, ...] = ()

    def changes(self) -> Iterator[NodeChange]:
        """Yield them."""
        return iter(self.known)


class NodeChanges:
    """The losses and returns that are still to come; the next is at `at_us`."""

    __slots__ = ("_changes", "_next", "at_us")

    def __init__(self, failures: Failures | RecordedFailures) -> None:
        self._changes = failures.changes()
        self._next: NodeChange | None = None
        self.at_us = NEVER_US
        self._look()

    def take(self) -> NodeChange:
        """Return the next of them, of which there must be one, and go on behind it."""
        change = self._next
        assert change is not None, "a node change without one"
        self._look()
        return change

    def _look(self) -> None:
        self._next = next(self._changes, None)
        self.at_us = NEVER_US if self._next is None else self._next.at_us


class _FailureRng(RandomStream):
    """A generator that can stand in a heap behind its unique key."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        raise AssertionError("two agenda entries have the same key")


def _exponential(rng: RandomStream, mean_us: int) -> int:
    return max(1, round(-log(1.0 - rng.random()) * mean_us))


NO_FAILURES = Failures()
