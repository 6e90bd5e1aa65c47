"""When a round is due: the scheduler's own rule, asked of a recorded run.

A round is due on the grid (or at once, without one) if something happened that the policy has not
settled, or if the policy wanted to be woken. What cannot be read from a log is left alone: inputs
that became no event, rounds that the backend ended, and how late a live loop came to an event.
"""

from shunter.app.replaying.recorded_terms import Term
from shunter.events.facts.decisions import Trigger


class RoundWatch:
    """Follows one term and knows when its next round must have been planned."""

    def __init__(self, term: Term, start_us: int) -> None:
        self._term = term
        self._decidable = not term.rules.backend_rounds and (
            bool(term.rules.round_us) or term.started.simulated
        )
        self._replan_needed = True
        self._from_us = start_us + 1

    def heard(self, at_us: int) -> None:
        """Note an input, which may make a round due from now on."""
        self._replan_needed = True
        self._from_us = at_us

    def changed(self) -> None:
        """Note a change that came with the start, or a refusal: the next step may plan."""
        self._replan_needed = True

    def ran_out(self, at_us: int) -> None:
        """Note what a step saw by itself, such as a time limit: it may plan."""
        self._from_us = at_us

    def planned(self, at_us: int) -> None:
        """Note a round; without further inputs the next one is a step later."""
        self._replan_needed = False
        self._from_us = at_us + 1

    def missing_before(self, at_us: int) -> int | None:
        """Return when a round was due before `at_us` and not planned, if one was."""
        if not self._decidable:
            return None
        policy, memory, rules = self._term.asked, self._term.memory, self._term.rules
        due_us = policy.wake_at(memory)
        if self._replan_needed and not policy.settled(memory):
            due_us = self._from_us
        if due_us is None:
            return None
        due_us = rules.grid_at(max(due_us, self._from_us))
        if self._is_planned(due_us):
            due_us += rules.round_us
        return due_us if due_us < at_us else None

    def is_due(self, at_us: int, trigger: Trigger) -> bool:
        """Say whether a round with this trigger may have been planned at an instant."""
        rules, policy, memory = self._term.rules, self._term.asked, self._term.memory
        if rules.backend_rounds:
            return True
        if rules.grid_at(at_us) != at_us or self._is_planned(at_us):
            return False
        wake_us = policy.wake_at(memory)
        if wake_us is not None and wake_us <= at_us:
            return True
        return trigger is not Trigger.wake and not policy.settled(memory)

    def trigger(self, recorded: Trigger) -> Trigger:
        """Return what a round's trigger must be, given the recorded one.

        Where nothing was recorded since the last round, an input without an event may have come.
        """
        usual = Trigger.round if self._term.rules.round_us else Trigger.event
        return usual if self._replan_needed or recorded is not Trigger.wake else Trigger.wake

    def _is_planned(self, at_us: int) -> bool:
        """Say whether the round of an instant of the grid has been planned already."""
        round_us = self._term.rules.round_us
        return bool(round_us) and at_us // round_us == self._term.planner.state.round_number
