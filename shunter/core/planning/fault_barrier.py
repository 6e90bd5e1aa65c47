"""Between the scheduler and a policy: every answer is checked, and a fault stays the policy's own.

A policy is somebody's code: it may raise, or return what is no plan. What follows is said by
`OnFault`. With `stop` the run ends with one line that names the policy, the hook and what was
wrong. With `isolate` the fault is noted, nothing is decided in the policy's place, jobs run on, and
it is asked again at the next round or event. One that failed while it was told of an event, or
brought up to an instant, may have left its memory half written, so it begins with a new one, as if
it had just been put in charge. All of this follows from the events alone: deciding again from the
log fails at the same places in the same words.

A policy that has not answered in time, or whose process ended, cannot be asked again: it is set
aside, decides nothing and is told nothing. That is a fact of its own (`PolicySetAside`).
"""

import re
from dataclasses import replace
from enum import StrEnum
from types import TracebackType
from typing import Any

from shunter.core.interfaces import Observer, Observers, Policy, Rng
from shunter.core.planning.plan import Plan
from shunter.core.planning.policy_answers import Answers
from shunter.core.view import View
from shunter.errors import ConfigError, PlanError, TraceError
from shunter.events.facts import SolvedFact, Target
from shunter.events.records import record

TARGET = "target"
"""Where the fault of a solver is noted: deciding again takes it from the record, like targets."""

TEXT_MOST = 300
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_BREAK = re.compile(r"\s+")
OBSERVER = "observe_guarded"
"""The function in which every observer of a policy is called."""

_INTERRUPT = "_on_sigint"
"""The function of asyncio that raises when a person interrupts a run."""


class OnFault(StrEnum):
    """What a fault of a policy leads to."""

    stop = "stop"
    isolate = "isolate"


@record
class NoMemory:
    """The memory of a policy that could not begin."""


class Barrier:
    """A policy whose answers are checked, and whose faults are noted or end the run.

    `fault` is the one not told of yet, `error` the last one for people who mend the policy.
    `is_lost` says that its memory cannot be relied on any more, `aside` why it is not asked at all;
    `is_late` is said from outside, of a policy that is interrupted by its time limit.
    """

    def __init__(self, policy: Policy[Any], on_fault: OnFault = OnFault.stop) -> None:
        self.name, self.version, self.oracle = policy.name, policy.version, policy.oracle
        self.fault = ""
        self.error: BaseException | None = None
        self.is_lost = False
        self.aside = ""
        self.is_late = False
        self._stops = on_fault is OnFault.stop
        self._is_ailing = False
        self._policy = policy
        self._answers = Answers(policy)
        # A fault of our own code ends a run by itself: what is asked often is asked directly.
        self.is_direct = self._stops and self._answers.is_trusted

    def start(self, view: View) -> Any:
        """Return a new memory; none that works, if the policy fails."""
        self.is_lost = False
        if self.aside:
            return NoMemory()
        try:
            return self._policy.start(view)
        except BaseException as error:  # noqa: BLE001  whatever somebody's policy raises
            self._failed("start", error, loses=True)
            return NoMemory()

    def observers(self, memory: Any) -> Observers:
        """Return what the policy wants to hear of."""
        if self.is_lost or self.aside:
            return {}
        try:
            found = self._answers.observers(self._policy.observers(memory))
        except BaseException as error:  # noqa: BLE001  whatever somebody's policy raises
            self._failed("observers", error, loses=True)
            return {}
        if self.is_direct:
            return found
        return {kind: self._guarded(observe) for kind, observe in found.items()}

    def advance(self, memory: Any, view: View) -> None:
        """Bring the memory up to the view's instant."""
        if self.is_lost or self.aside:
            return
        try:
            self._policy.advance(memory, view)
        except BaseException as error:  # noqa: BLE001  whatever somebody's policy raises
            self._failed("advance", error, loses=True)

    def target(self, memory: Any, view: View) -> tuple[Target, ...] | SolvedFact | None:
        """Return what it solved for; nothing, if the policy fails."""
        if self.is_lost or self.aside:
            return None
        try:
            return self._answers.target(self._policy.target(memory, view), view.now_us)
        except BaseException as error:  # noqa: BLE001  whatever somebody's policy raises
            self._failed(TARGET, error)
            return None

    def plan(self, memory: Any, view: View, rng: Rng) -> Plan:
        """Return a plan with what went wrong on the way; an empty one, if it fails."""
        plan = self._planned(memory, view, rng)
        self._is_ailing = bool(plan.fault)
        self._answers.planned(plan, view.now_us)
        return plan

    def wake_at(self, memory: Any) -> int | None:
        """Return when it could decide otherwise; None, if the policy fails."""
        if self.is_lost or self.aside:
            return None
        try:
            return self._answers.wake_at(self._policy.wake_at(memory))
        except BaseException as error:  # noqa: BLE001  whatever somebody's policy raises
            self._failed("wake_at", error)
            return None

    def settled(self, memory: Any) -> bool:
        """Say whether a plan made now could not change anything.

        Never after a round with a fault: the next one is to tell that all is well again.
        """
        if self.aside:
            return True
        if self.is_lost or self._is_ailing:
            return False
        try:
            return self._answers.settled(self._policy.settled(memory))
        except BaseException as error:  # noqa: BLE001  whatever somebody's policy raises
            self._failed("settled", error)
            return False

    def set_aside(self, cause: str) -> None:
        """Ask and tell the policy nothing any more."""
        self.aside, self.fault = cause, ""

    def _planned(self, memory: Any, view: View, rng: Rng) -> Plan:
        before, self.fault = self.fault, ""
        if self.is_lost or self.aside or before.startswith(TARGET):
            return Plan(fault=before)
        try:
            plan = self._answers.plan(self._policy.plan(memory, view, rng))
        except BaseException as error:  # noqa: BLE001  whatever somebody's policy raises
            self._failed("plan", error)
            fault, self.fault = self.fault, ""
            return Plan(fault=before or fault)
        return replace(plan, fault=before) if before else plan

    def _guarded(self, observe: Observer) -> Observer:
        def observe_guarded(event: Any, view: View) -> None:
            if self.is_lost or self.aside:
                return
            try:
                observe(event, view)
            except BaseException as error:  # noqa: BLE001  whatever somebody's policy raises
                self._failed(f"observer of {type(event).__name__}", error, loses=True)

        return observe_guarded

    def _failed(self, hook: str, error: BaseException, *, loses: bool = False) -> None:
        """Note a fault, or end the run with it."""
        if _is_a_persons(error):
            raise error
        if self._stops:
            raise _stopping(self.name, hook, error) from error
        self.error = error
        if self.is_late:
            self.set_aside(told_of(hook, error))
            return
        self.fault = self.fault or told_of(hook, error)
        self.is_lost = self.is_lost or loses


def told_of(hook: str, error: BaseException) -> str:
    """Return an error as text that is the same on every machine and in every run."""
    text = _BREAK.sub(" ", f"{hook}: {_in_words(error)}".strip())
    return _encodable(_ADDRESS.sub("0x…", text)[:TEXT_MOST])


def _in_words(error: BaseException) -> str:
    """Return an error's type and message; its message may fail as well."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  whatever somebody's exception does
        return type(error).__name__


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _stopping(name: str, hook: str, error: BaseException) -> Exception:
    """Return what ends a run: an operator's mistake as it is, all else in a line."""
    if isinstance(error, ConfigError | TraceError):
        return error
    return PlanError(f"policy {name} failed in {told_of(hook, error)}{_place(error)}")


def _place(error: BaseException) -> str:
    """Return where in somebody's code it was raised, for who mends it."""
    frames = list(_frames(error.__traceback__))
    if len(frames) < 2:
        return ""
    code, line = frames[-1].tb_frame.f_code, frames[-1].tb_lineno
    return f" ({code.co_filename.replace(chr(92), '/').rpartition('/')[2]}:{line})"


def _frames(traceback: TracebackType | None) -> list[TracebackType]:
    found: list[TracebackType] = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


def _is_a_persons(error: BaseException) -> bool:
    """Say whether somebody interrupted the run: no policy raised this."""
    frames = _frames(error.__traceback__)
    return isinstance(error, KeyboardInterrupt) and (
        bool(frames) and frames[-1].tb_frame.f_code.co_name == _INTERRUPT
    )
