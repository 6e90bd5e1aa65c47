"""A policy that may fail: on a live cluster a fault of its own costs a plan, never the scheduler.

What a policy raises is noted, as text that says where and what, and nothing is decided in its
place: jobs run on, and it is asked again at the next round or event. One that failed while it was
told of an event, or brought up to an instant, may have left its memory half written, so it begins
with a new one, as if it had just been put in charge. All of this follows from the events alone:
deciding again from the log fails at the same places in the same words.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from shunter.core.planning.plan import Plan
from shunter.core.ports import Observer, Observers, Policy, Rng
from shunter.core.view import View
from shunter.events.facts.decisions import Target, TargetsSet
from shunter.events.values.fact import record

__all__ = ["TARGET", "Careful", "NoMemory", "told_of"]

TARGET = "target"
"""Where the fault of a solver is noted: deciding again takes it from the record, like targets."""

TEXT_MOST = 300
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_BREAK = re.compile(r"\s+")

T = TypeVar("T")


@record
class NoMemory:
    """The memory of a policy that could not begin."""


class Careful:
    """A policy whose faults are noted instead of raised.

    `fault` is the one not told of yet, `error` the last one for people who mend the policy.
    `is_lost` says that its memory cannot be relied on any more.
    """

    def __init__(self, policy: Policy[Any]) -> None:
        self.name, self.version, self.oracle = policy.name, policy.version, policy.oracle
        self.fault = ""
        self.error: Exception | None = None
        self.is_lost = False
        self._is_ailing = False
        self._policy = policy

    def start(self, view: View) -> Any:
        """Return a new memory; none that works, if the policy fails."""
        self.is_lost = False
        return self._tried("start", lambda: self._policy.start(view), NoMemory(), loses=True)

    def observers(self, memory: Any) -> Observers:
        """Return what the policy wants to hear of."""
        if self.is_lost:
            return {}
        found: Observers = self._tried(
            "observers", lambda: self._policy.observers(memory), {}, loses=True
        )
        return {kind: self._heard(tell) for kind, tell in found.items()}

    def advance(self, memory: Any, view: View) -> None:
        """Bring the memory up to the view's instant."""
        if not self.is_lost:
            self._tried("advance", lambda: self._policy.advance(memory, view), None, loses=True)

    def target(self, memory: Any, view: View) -> tuple[Target, ...] | TargetsSet | None:
        """Return new target shares; none, if the policy fails."""
        if self.is_lost:
            return None
        return self._tried(TARGET, lambda: self._policy.target(memory, view), None)

    def plan(self, memory: Any, view: View, rng: Rng) -> Plan:
        """Return a plan with what went wrong on the way; an empty one, if it fails."""
        plan = self._planned(memory, view, rng)
        self._is_ailing = bool(plan.fault)
        return plan

    def wake_at(self, memory: Any) -> int | None:
        """Return when it could decide otherwise; None, if the policy fails."""
        if self.is_lost:
            return None
        return self._tried("wake_at", lambda: self._policy.wake_at(memory), None)

    def settled(self, memory: Any) -> bool:
        """Say whether a plan made now could not change anything.

        Never after a round with a fault: the next one is to tell that all is well again.
        """
        if self.is_lost or self._is_ailing:
            return False
        return self._tried("settled", lambda: self._policy.settled(memory), otherwise=False)

    def _planned(self, memory: Any, view: View, rng: Rng) -> Plan:
        before, self.fault = self.fault, ""
        if self.is_lost or before.startswith(TARGET):
            return Plan(fault=before)
        plan = self._tried("plan", lambda: self._policy.plan(memory, view, rng), Plan())
        fault, self.fault = self.fault, ""
        return replace(plan, fault=before or fault) if before or fault else plan

    def _heard(self, tell: Observer) -> Observer:
        def tell_carefully(event: Any, view: View) -> None:
            if not self.is_lost:
                what = f"observer of {type(event).__name__}"
                self._tried(what, lambda: tell(event, view), None, loses=True)

        return tell_carefully

    def _tried(self, what: str, do: Callable[[], T], otherwise: T, *, loses: bool = False) -> T:
        try:
            return do()
        except Exception as error:  # noqa: BLE001  whatever somebody's policy raises
            self.error = error
            self.fault = self.fault or told_of(what, error)
            self.is_lost = self.is_lost or loses
            return otherwise


def told_of(what: str, error: Exception) -> str:
    """Return an error as text that is the same on every machine and in every run."""
    text = _BREAK.sub(" ", f"{what}: {type(error).__name__}: {error}".strip())
    return _ADDRESS.sub("0x…", text)[:TEXT_MOST]
