"""Going through two logs side by side up to the first decision that differs.

    A  instant ──▶ instant ──▶ instant ──▶ …      the same inputs? the same effects?
    B  instant ──▶ instant ──▶ instant ──▶ …      the first that are not: there they part

At one instant the decisions are compared as a whole: in which order a round starts jobs makes no
difference.
"""

from collections import Counter
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass

from shunter.ask.diffs.steps import Fact, Step, steps
from shunter.ask.replaying.folding import Advance
from shunter.events.log import LogReader


@dataclass(frozen=True)
class OtherInput:
    """The first instant at which something else came from outside."""

    at_us: int
    a: Fact | None
    b: Fact | None


@dataclass(frozen=True)
class OtherReason:
    """The first decision with the same effect for other reasons."""

    at_us: int
    a: Fact
    b: Fact


@dataclass(frozen=True)
class Parted:
    """The first instant at which the logs decide otherwise.

    `only_a` are the decisions there that B has not, `only_b` those that A has not. `ended` is the
    log that has ended before: "a", "b", or neither.
    """

    at_us: int
    only_a: Sequence[Fact]
    only_b: Sequence[Fact]
    ended: str

    @property
    def a(self) -> Fact | None:
        """The first of A; None: it decides nothing of the kind there."""
        return self.only_a[0] if self.only_a else None

    @property
    def b(self) -> Fact | None:
        """The first of B, if it can be of the job of A's first."""
        first = self.a
        if first is not None:
            job_id = getattr(first.event, "job_id", None)
            for fact in self.only_b:
                if getattr(fact.event, "job_id", None) == job_id:
                    return fact
        return self.only_b[0] if self.only_b else None


@dataclass(frozen=True)
class Parting:
    """How far two logs are alike, and what differs first."""

    decisions_alike: int
    inputs_alike: int
    parted: Parted | None
    other_input: OtherInput | None
    other_reason: OtherReason | None


async def first_parting(a: LogReader, b: LogReader, advance: Advance | None = None) -> Parting:
    """Find the first decision in which two logs differ.

    Raises:
        LogDamagedError: the bytes of one are not what was written.
    """
    left, right = _Ahead(steps(a, advance)), _Ahead(steps(b))
    await left.take()
    await right.take()
    decisions = inputs = 0
    other_input: OtherInput | None = None
    other_reason: OtherReason | None = None
    while left.step is not None or right.step is not None:
        mine, theirs = _pair(left.step, right.step)
        at_us = mine.at_us
        other_input = other_input or _other_input(at_us, mine.before, theirs.before)
        only_a, only_b = _one_sided(mine.decided, theirs.decided)
        if only_a or only_b:
            ended = "a" if left.step is None else "b" if right.step is None else ""
            parted = Parted(at_us, only_a, only_b, ended)
            return Parting(decisions, inputs, parted, other_input, other_reason)
        other_input = other_input or _other_input(at_us, mine.after, theirs.after)
        other_reason = other_reason or _other_reason(at_us, mine.decided, theirs.decided)
        decisions += len(mine.decided)
        inputs += 0 if other_input is not None else len(mine.before) + len(mine.after)
        for side, taken in ((left, mine), (right, theirs)):
            if side.step is taken:
                await side.take()
    return Parting(decisions, inputs, None, other_input, other_reason)


class _Ahead:
    """The next instant of a log; None: it has ended."""

    def __init__(self, source: AsyncIterator[Step]) -> None:
        self.step: Step | None = None
        self._source = source

    async def take(self) -> None:
        self.step = await anext(self._source, None)


def _pair(a: Step | None, b: Step | None) -> tuple[Step, Step]:
    """Return what both logs have at the earlier of two instants."""
    if a is None or (b is not None and b.at_us < a.at_us):
        assert b is not None, "one of them goes on"
        return Step(b.at_us), b
    return a, b if b is not None and b.at_us == a.at_us else Step(a.at_us)


def _one_sided(a: Sequence[Fact], b: Sequence[Fact]) -> tuple[list[Fact], list[Fact]]:
    """Return the decisions of each that the other has not, in their order."""
    if not a and not b:
        return [], []
    return _without(a, b), _without(b, a)


def _without(mine: Sequence[Fact], theirs: Sequence[Fact]) -> list[Fact]:
    there: Counter[Hashable] = Counter(fact.effect for fact in theirs)
    left = []
    for fact in mine:
        effect = fact.effect
        if there[effect]:
            there[effect] -= 1
        else:
            left.append(fact)
    return left


def _other_input(at_us: int, a: Sequence[Fact], b: Sequence[Fact]) -> OtherInput | None:
    if [fact.event for fact in a] == [fact.event for fact in b]:
        return None
    mine, theirs = (frozenset(fact.event for fact in side) for side in (a, b))
    only_a = [fact for fact in a if fact.event not in theirs]
    only_b = [fact for fact in b if fact.event not in mine]
    if not only_a and not only_b:
        return None  # the same ones in another order, or so many of them
    return OtherInput(at_us, next(iter(only_a), None), next(iter(only_b), None))


def _other_reason(at_us: int, a: Sequence[Fact], b: Sequence[Fact]) -> OtherReason | None:
    """Return the first decision of A that B made for other reasons."""
    if [fact.event for fact in a] == [fact.event for fact in b]:
        return None
    by_effect = {fact.effect: fact for fact in b}
    for fact in a:
        other = by_effect[fact.effect]
        if other.event != fact.event:
            return OtherReason(at_us, fact, other)
    return None
