"""The moment at which a fork begins: state, policy with its memory, and who decided there.

It is kept encoded, as a snapshot is, because each fork needs a state of its own: a copy by the
codec takes about as long as decoding a snapshot, a deep copy ten times that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shunter.ask.forking.told_terms import told_term
from shunter.ask.replaying.consolidated_gangs import TERMS, Began, last_start
from shunter.ask.replaying.recorded_terms import Rebuild, Term
from shunter.core.interfaces import AnyPolicy
from shunter.core.planning.planner import RoundRules
from shunter.core.scheduler import leaves_work
from shunter.core.state import State
from shunter.errors import UsageError
from shunter.events.codec import decode_record, encode_record
from shunter.events.fact_classes import FactClass, class_of
from shunter.events.facts.decisions import RoundPlanned
from shunter.events.facts.jobs import JOB_ENDS, JobReleased
from shunter.events.facts.run import (
    ClockStepped,
    EventsLost,
    SchedulerStarted,
    SchedulerStopped,
    SegmentSealed,
)
from shunter.events.kinds import Event
from shunter.events.log import LogReader

_NO_INPUTS = (ClockStepped, EventsLost, SegmentSealed, SchedulerStopped)
_FOLLOWING = (JobReleased, *JOB_ENDS)
"""What follows from inputs that may leave no other trace, and may make a plan due itself."""

_INPUTS = (FactClass.observed, FactClass.commanded)


@dataclass(frozen=True)
class ForkPoint:
    """State and policy right after an event, where a step has just ended.

    `replan_needed` says that something happened since the last plan. Without an encoded memory the
    policy had lost its own, or was set aside.
    """

    seq: int
    at_us: int
    started: SchedulerStarted
    policy: AnyPolicy
    rules: RoundRules
    encoded_state: bytes
    encoded_memory: bytes
    memory_type: type
    replan_needed: bool

    def state(self) -> State:
        """Return the state, a copy of its own for each call."""
        state: State = decode_record(State, self.encoded_state)
        return state


async def fork_point(reader: LogReader, seq: int, rebuild: Rebuild) -> ForkPoint:
    """Return the moment right after an event, the last one of its instant.

    Args:
        reader: the log.
        seq: the number of the event.
        rebuild: makes the policy of a term.
    Raises:
        UsageError: nobody had begun to decide by then.
        ConfigError: the policy that did is not installed.
        LogDamagedError: the bytes of the log are not what was written.
    """
    began_seq, started = await _term_at(reader, seq)
    replan_needed = True

    def seen(event: Event, term: Term) -> None:
        nonlocal replan_needed
        replan_needed = _needs_plan(event, term, before=replan_needed)

    term = await told_term(reader, began_seq, started, seq, rebuild, seen)
    state = term.planner.state
    memory = b"" if term.asked.is_lost or term.asked.aside else encode_record(term.memory)
    return ForkPoint(
        state.seq,
        state.now_us,
        term.started,
        term.policy,
        term.rules,
        encode_record(state),
        memory,
        type(term.memory),
        replan_needed,
    )


def _needs_plan(event: Event, term: Term, *, before: bool) -> bool:
    """Say whether a plan is due after an event, as the scheduler's own step does."""
    if type(event) is RoundPlanned:
        return bool(term.rules.round_us) and leaves_work(event)
    if _is_input(event) or type(event) in _FOLLOWING:
        return True
    return before or (bool(term.rules.round_us) and leaves_work(event))


async def end_of_instant(reader: LogReader, seq: int) -> int:
    """Return the number of the last event at the instant of an event."""
    at_us, number = None, seq - 1
    async for event in reader.events(max(0, seq - 1)):
        if at_us is not None and event.at_us != at_us:
            break
        at_us, number = event.at_us, number + 1
    return max(seq, number)


def _is_input(event: Event) -> bool:
    """Say whether an event came from outside, so that it may be time for a plan."""
    return class_of(event) in _INPUTS and not isinstance(event, _NO_INPUTS)


async def _term_at(reader: LogReader, seq: int) -> tuple[int, SchedulerStarted]:
    """Return who decides after an event, and the number of the event that says so."""
    found: Sequence[tuple[int, Event]] = await reader.events_of(TERMS, seq)
    terms: list[Began] = [event for _, event in found]  # type: ignore[misc]  # only those kinds
    started = last_start(terms)
    if started is None:
        raise UsageError(
            f"event {seq} belongs to no term: the log does not say who decided, so nothing can be "
            "forked there; name a later moment"
        )
    return found[-1][0], started
