"""The one fold: the only code that changes the state.

The other chapters of this folder have one rule for each kind of event. An event that does not fit
the state raises `IllegalEventError`: it means a bug or a corrupt log, and is never skipped.
"""

from collections.abc import Iterable

from shunter.core.fold.decisions import DECISION_RULES
from shunter.core.fold.execution import EXECUTION_RULES
from shunter.core.fold.jobs import JOB_RULES
from shunter.core.fold.servers import SERVER_RULES
from shunter.core.state import NO_RESULT, FoldResult, Rule, State
from shunter.errors import IllegalEventError
from shunter.events import Event

RULES: dict[type[Event], Rule] = {
    **SERVER_RULES,
    **JOB_RULES,
    **DECISION_RULES,
    **EXECUTION_RULES,
}
"""What folds each kind of fact."""


def apply(state: State, event: Event) -> FoldResult:
    """Fold one fact into the state; return what became of jobs with it.

    Raises:
        IllegalEventError: the fact contradicts the state, or is older than it.
    """
    if event.at_us < state.now_us:
        raise IllegalEventError(
            f"{type(event).__name__} at {event.at_us} us follows an event at {state.now_us} us"
        )
    result = RULES[type(event)](state, event)
    state.now_us = event.at_us
    state.seq += 1
    return result or NO_RESULT


def replay(events: Iterable[Event], state: State | None = None) -> State:
    """Fold facts in order, from nothing or from a state that was true before them."""
    state = State() if state is None else state
    for event in events:
        apply(state, event)
    return state
