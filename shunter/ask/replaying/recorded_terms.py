"""A term of a log, staged again: its policy with its memory, on the state as it is folded."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from shunter.core.interfaces import AnyPolicy
from shunter.core.planning.fault_barrier import TARGET, Barrier
from shunter.core.planning.planner import Planner, RoundRules
from shunter.core.ranking import RankedPolicy, Remembering
from shunter.core.scheduler import merged, policy_observers
from shunter.core.state import FoldResult, State
from shunter.errors import UsageError
from shunter.events.codec import decode_record
from shunter.events.facts.run import ConfigChanged, SchedulerStarted
from shunter.events.kinds import Event

Rebuild: TypeAlias = Callable[[SchedulerStarted], tuple[AnyPolicy, RoundRules]]


class Term:
    """One policy at work from `started` on; its view stays open.

    `aside` says that it was set aside before it had begun, so that it is not even begun here.
    """

    def __init__(
        self, started: SchedulerStarted, rebuild: Rebuild, state: State, aside: str = ""
    ) -> None:
        policy, rules = rebuild(started)
        refuse_other_version(started, policy)
        self.started = started
        self.policy = policy
        self.rules = rules
        self.view = rules.view(state, oracle=policy.oracle)
        self.view.open()
        self.view.now_us = state.now_us
        self.asked = Barrier(policy, rules.on_fault)
        self.asked.aside = aside
        self.memory = self.asked.start(self.view)
        self.planner = Planner(self.asked, self.memory, state, self.view, rules)
        self.observers = merged([policy_observers(self.asked, self.memory)])

    def restore(self, memory: bytes) -> None:
        """Go on with the memory of a snapshot of the state that this term is on."""
        self.memory = self.planner.memory = decode_record(type(self.memory), memory)
        self.observers = merged([policy_observers(self.asked, self.memory)])

    def mend(self, at_us: int, fault: str = "") -> None:
        """Do before a round what the scheduler did: begin anew if memory was lost.

        Args:
            at_us: the instant of the round.
            fault: what was recorded of it; that of a solver is not found again, but taken as is.
        """
        if self.asked.is_lost:
            self.view.now_us = at_us
            self.memory = self.planner.memory = self.asked.start(self.view)
            self.observers = merged([policy_observers(self.asked, self.memory)])
        if fault.startswith(TARGET):
            self.asked.fault = self.asked.fault or fault

    def stand_before(self, at_us: int) -> None:
        """Bring the policy to where it was right before a round at an instant."""
        self.mend(at_us)
        self.view.now_us = at_us
        self.asked.advance(self.memory, self.view)

    def tell(self, event: Event, result: FoldResult) -> None:
        """Tell the policy of an event that has just been folded, and what came of it."""
        self.view.now_us, self.view.result = event.at_us, result
        for tell in self.observers.get(type(event), ()):
            tell(event, self.view)


def takes_notes(policy: AnyPolicy) -> bool:
    """Say whether a policy must have been told of its whole term to rank as it did."""
    is_index = isinstance(policy, RankedPolicy) and isinstance(policy.index, Remembering)
    return is_index or bool(getattr(policy, "takes_notes", False))


def after_change(started: SchedulerStarted, changed: ConfigChanged) -> SchedulerStarted:
    """Return what would have started the term with the configuration it changed to."""
    return replace(
        started,
        at_us=changed.at_us,
        config=changed.config,
        policy=changed.policy,
        policy_version=changed.policy_version,
    )


def origin_of(started: SchedulerStarted | None) -> str | None:
    """Return the date of time zero in ISO 8601 where the log names one."""
    if started is None:
        return None
    try:
        config = json.loads(started.config)
    except ValueError:
        return None
    origin = config.get("origin") if isinstance(config, dict) else None
    return origin if isinstance(origin, str) else None


def refuse_other_version(started: SchedulerStarted, policy: AnyPolicy) -> None:
    """Raise UsageError where the installed policy has other rules."""
    if policy.version != started.policy_version:
        raise UsageError(
            f"the log was decided by policy {started.policy} version {started.policy_version}, "
            f"and version {policy.version} is installed: its decisions cannot be compared; "
            f"install a Shunter like {started.version}"
        )
