"""Rules for the facts about the scheduler itself."""

from shunter.core.fold.decisions import SET_ASIDE
from shunter.core.fold.trials import probe_anew
from shunter.core.state import Rule, State
from shunter.errors import IllegalEventError
from shunter.events.facts import (
    ClockStepped,
    ConfigChanged,
    Event,
    EventsLost,
    SchedulerStarted,
    SchedulerStopped,
    SegmentSealed,
)


def scheduler_started(state: State, event: SchedulerStarted) -> None:
    """Begin a term, which must be later than all before."""
    if event.term <= state.term:
        raise IllegalEventError(f"term {event.term} was started after term {state.term}")
    state.term = event.term
    state.policy = event.policy
    probe_anew(state, event.at_us)
    _take_up(state)


def config_changed(state: State, event: ConfigChanged) -> None:
    """Go on under another configuration."""
    state.policy = event.policy
    _take_up(state)


def _take_up(state: State) -> None:
    """Forget that the policy was set aside: it is asked again from now on."""
    if state.policy_fault.startswith(SET_ASIDE):
        state.policy_fault = ""


def clock_stepped(state: State, event: ClockStepped) -> None:
    """Only a note: the log's own clock never follows the wall clock."""


def segment_sealed(state: State, event: SegmentSealed) -> None:
    """Only a note: where old frames are kept changes nothing about the cluster."""
    if event.last_seq > state.seq:
        raise IllegalEventError(f"a segment up to {event.last_seq} was sealed at {state.seq}")


def scheduler_stopped(state: State, event: SchedulerStopped) -> None:
    """Only a note: the next term follows."""


def events_lost(state: State, event: EventsLost) -> None:
    """Only a note: what was lost changed nothing that is known."""
    if not 0 < event.first_seq <= event.last_seq + 1 or event.first_seq > state.seq:
        raise IllegalEventError(
            f"events {event.first_seq} to {event.last_seq} were noted as lost at {state.seq}"
        )


RULES: dict[type[Event], Rule] = {
    SchedulerStarted: scheduler_started,
    ConfigChanged: config_changed,
    ClockStepped: clock_stepped,
    SegmentSealed: segment_sealed,
    SchedulerStopped: scheduler_stopped,
    EventsLost: events_lost,
}
