"""A log as the instants at which something was decided, or came from outside.

What a decision does is compared, not how it was reasoned: two policies that give the same jobs the
same GPUs at the same instant have decided the same there, each by its own rule. What follows from
facts by itself (withdrawals from lost servers, ends, back-off) is nobody's decision.
"""

from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from shunter.ask.replaying.folding import Advance
from shunter.events.fact_classes import CLASSES, FactClass, class_of
from shunter.events.facts.decisions import (
    SOLVED,
    AllocationChanged,
    JobReshaped,
    ReservationSet,
    RoundPlanned,
    TrialKept,
    TrialReverted,
    TrialStarted,
)
from shunter.events.facts.jobs import JobResized
from shunter.events.facts.run import (
    ClockStepped,
    ConfigChanged,
    EventsLost,
    SchedulerStarted,
    SchedulerStopped,
    SegmentSealed,
)
from shunter.events.kinds import Event
from shunter.events.log import LogReader

_EFFECTS: Final[Mapping[type[Event], Callable[[Any], Hashable]]] = {
    AllocationChanged: lambda event: (event.job_id, event.allocation),
    JobReshaped: lambda event: (event.job_id, event.allocation),
    JobResized: lambda event: (event.job_id, event.gpus),
    ReservationSet: lambda event: (event.job_id, event.start_us, event.gpus),
    TrialStarted: lambda event: (event.job_id, event.trial, event.partners),
    TrialKept: lambda event: (event.job_id, event.trial),
    TrialReverted: lambda event: (event.job_id, event.trial),
}
"""What each kind of decision does, apart from why."""

_ROUNDS = frozenset((RoundPlanned, *SOLVED))
_OF_RUNS = frozenset((SchedulerStarted, ConfigChanged, ClockStepped, EventsLost, SegmentSealed))
_OUTSIDE = (FactClass.observed, FactClass.commanded)
_INPUTS = frozenset(
    kind
    for kind, known in CLASSES.items()
    if kind not in (*_OF_RUNS, SchedulerStopped)
    if any(each in _OUTSIDE for each in (known.usual, *known.others.values()))
)


@dataclass(frozen=True, slots=True)
class Fact:
    """An event with its number, and that of the round it came of, or its own."""

    seq: int
    event: Event
    round_seq: int

    @property
    def effect(self) -> Hashable:
        """What it does, apart from why."""
        return effect_of(self.event)


@dataclass(slots=True)
class Step:
    """An instant: inputs before its first round, decisions, inputs after that."""

    at_us: int
    before: list[Fact] = field(default_factory=list)
    decided: list[Fact] = field(default_factory=list)
    after: list[Fact] = field(default_factory=list)

    @property
    def inputs(self) -> list[Fact]:
        """All that came from outside."""
        return [*self.before, *self.after]


def effect_of(event: Event) -> Hashable:
    """Return what a decision does: a key that is equal for equal effects."""
    kind = type(event)
    return kind.__name__, _EFFECTS[kind](event)


def is_input(event: Event) -> bool:
    """Say whether something came from outside."""
    return type(event) in _INPUTS and class_of(event) in _OUTSIDE


async def steps(reader: LogReader, advance: Advance | None = None) -> AsyncIterator[Step]:
    """Yield the instants at which something was decided or came from outside.

    Raises:
        LogDamagedError: the bytes are not what was written.
    """
    head = await reader.head()
    step, seq, round_seq = Step(-1), 0, 0
    async for frame in reader.frames(0, head.seq):
        seq = frame.first_seq
        for event in frame.events():
            kind = type(event)
            if event.at_us != step.at_us:
                if step.decided or step.before or step.after:
                    yield step
                step, round_seq = Step(event.at_us), 0
            if kind in _ROUNDS:
                round_seq = seq
            elif kind in _EFFECTS and class_of(event) is FactClass.decided:
                step.decided.append(Fact(seq, event, round_seq or seq))
            elif is_input(event):
                (step.after if round_seq else step.before).append(Fact(seq, event, seq))
            seq += 1
        if advance is not None:
            advance(seq - 1, head.seq)
    if step.decided or step.before or step.after:
        yield step
