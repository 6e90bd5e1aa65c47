"""Between the scheduler and a policy: every answer is checked, and a fault stays the policy's own.

A policy may raise, or return what is no plan. `OnFault` says what follows. With `stop` the run ends
with one line that names the policy, the hook and the fault. With `isolate` the fault is noted,
nothing is decided, jobs run on, and the policy is asked again at the next round or event. One that
failed while it observed an event or an instant begins with a new memory, since the old one may be
half written. All of this follows from the events alone, so a replay fails in the same places.

A policy that has not answered in time, or whose process ended, is set aside for good: a fact of its
own (`PolicySetAside`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cache
from math import isfinite
from reprlib import repr as short
from types import TracebackType, UnionType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import orjson

from shunter.core.interfaces import Observer, Observers, Policy, Rng
from shunter.core.plan import (
    Judge,
    Move,
    Pack,
    Plan,
    Proposal,
    Rehome,
    Reservation,
    Reshape,
    Resize,
    Start,
    Suspend,
    Try,
)
from shunter.core.view import View
from shunter.errors import ConfigError, PlanError, TraceError
from shunter.events import KINDS, ClassWait, JobId, SolvedFact, Wait, fact, facts, record

# What a policy may answer. Types are checked field by field, except for policies that are our own
# code throughout. The approver says whether a plan fits the cluster.

T = TypeVar("T")

LATE_MOST = 1_000
"""So many plans in a row may be asked for at once without one that changes anything."""

_INSTANT_MOST = 2**62
_SHOWN_MOST = 80
_OURS = frozenset({"shunter", "builtins", "types", "functools", "enum", "fractions", "numpy"})
_DEPTH_MOST = 4
_TUPLES = (
    *("changes", "waits", "job_waits", "reservations", "consolidated", "spread", "trials"),
    *("proposals", "admitted", "dismissed"),
)
_STEP = re.compile(r"\.\w+|\[\d+\]")


@fact
class JobWait:
    """An entry of `Plan.job_waits`."""

    job_id: JobId
    wait: Wait


class Answers:
    """Checks the answers of one policy."""

    def __init__(self, policy: Policy[Any]) -> None:
        self.is_trusted = is_our_own(policy)
        self._planned_us = -1
        self._is_late = False
        self._late = 0

    def observers(self, answer: Any) -> Observers:
        """Return the observers of a policy.

        Raises:
            PlanError: they are none.
        """
        if not isinstance(answer, Mapping):
            _refuse("a mapping from kinds of events to functions", answer)
        for kind, observe in answer.items():
            name = kind.__name__ if isinstance(kind, type) else ""
            if KINDS.get(name) is not kind:
                _refuse("a kind of event as key", kind)
            if not callable(observe):
                _refuse(f"a function that observes {name}", observe)
        return answer

    def target(self, answer: Any, now_us: int) -> tuple[facts.Target, ...] | SolvedFact | None:
        """Return the targets of a policy, or the sizes of jobs.

        Raises:
            PlanError: they are none, or of another instant.
        """
        if answer is None or self.is_trusted:
            found: tuple[facts.Target, ...] | SolvedFact | None = answer
            return found
        if type(answer) is facts.SizesSet:
            sizes = _typed("sizes", answer, facts.SizesSet)
            if sizes.at_us != now_us:
                raise PlanError(f"expected sizes of {now_us} us, not of {sizes.at_us} us")
            if not all(isfinite(number) for number in (sizes.speed, sizes.bound, sizes.gap)):
                raise PlanError("sizes: their speed, bound or gap is not finite")
            return sizes
        if type(answer) is facts.TargetsSet:
            whole = _typed("targets", answer, facts.TargetsSet)
            if whole.at_us != now_us:
                raise PlanError(f"expected targets of {now_us} us, not of {whole.at_us} us")
            _check_targets(whole.targets)
            return whole
        if type(answer) is not tuple:
            _refuse("a tuple of Target, a TargetsSet, a SizesSet or None", answer)
        targets = tuple(_each("targets", answer, facts.Target))
        _check_targets(targets)
        return targets

    def plan(self, answer: Any) -> Plan:
        """Return the plan of a policy.

        Raises:
            PlanError: it is none, or a part of it is of a wrong type.
        """
        if type(answer) is not Plan:
            _refuse("a Plan", answer)
        return answer if self.is_trusted else _checked(answer)

    def planned(self, plan: Plan, now_us: int) -> None:
        """Note a plan: whether one at once was asked for in vain, and its instant."""
        self._late = self._late + 1 if self._is_late and not plan.changes else 0
        self._planned_us, self._is_late = now_us, False

    def wake_at(self, answer: Any) -> int | None:
        """Return when a policy wants to be asked; 0 is at once.

        Raises:
            PlanError: it is no instant, or one before the last plan.
        """
        if answer is None:
            return None
        if type(answer) is not int:
            _refuse("an instant in microseconds or None", answer)
        if answer > self._planned_us:
            if answer > _INSTANT_MOST:
                _refuse(f"an instant up to {_INSTANT_MOST} us or None", answer)
            return answer
        if answer < 0 or 0 < answer < self._planned_us:
            raise PlanError(
                f"expected an instant to come or None, not {answer} us: it is "
                f"{max(self._planned_us, 0)} us already"
            )
        if self._late >= LATE_MOST:
            raise PlanError(
                f"{self._late:,} plans in a row were asked for at once ({answer} us) and changed "
                "nothing; expected an instant to come, or None"
            )
        self._is_late = True
        return answer

    def settled(self, answer: Any) -> bool:
        """Return whether a plan could change nothing.

        Raises:
            PlanError: it is neither true nor false.
        """
        if answer is not True and answer is not False:
            _refuse("True or False", answer)
        return answer


def is_our_own(policy: object) -> bool:
    """Say whether a policy and all it is made of are classes of this package."""
    return _is_ours(policy, 0)


def _is_ours(part: object, depth: int) -> bool:
    kind = part if isinstance(part, type) else type(part)
    if kind.__module__.partition(".")[0] not in _OURS:
        return False
    if depth == _DEPTH_MOST or isinstance(part, type | str | int | float):
        return True
    return all(_is_ours(one, depth + 1) for one in _parts(part))


def _parts(whole: object) -> Iterable[object]:
    """Return what an object holds: its attributes, or the entries of a collection."""
    if isinstance(whole, Mapping):
        return list(whole.values())[:_SHOWN_MOST]
    if isinstance(whole, tuple | list):
        return whole[:_SHOWN_MOST]
    return vars(whole).values() if hasattr(whole, "__dict__") else ()


def _checked(plan: Plan) -> Plan:
    """Return a plan whose every field has the type that it declares."""
    for name in _TUPLES:
        if type(getattr(plan, name)) is not tuple:
            raise PlanError(f"{name}: {_expected('a tuple', getattr(plan, name))}")
    if plan.fault != "":
        raise PlanError("fault: expected none: it is not for a policy to say")
    job_waits = [
        JobWait(*entry) if type(entry) is tuple and len(entry) == 2 else entry
        for entry in plan.job_waits
    ]
    checked = Plan(
        tuple(_each("changes", plan.changes, Start, Suspend, Move, Pack, Reshape, Rehome, Resize)),
        tuple(_each("waits", plan.waits, ClassWait)),
        tuple((entry.job_id, entry.wait) for entry in _each("job_waits", job_waits, JobWait)),
        tuple(_each("reservations", plan.reservations, Reservation)),
        consolidated=tuple(_ids("consolidated", plan.consolidated)),
        spread=tuple(_ids("spread", plan.spread)),
        trials=tuple(_each("trials", plan.trials, Try, Judge)),
        proposals=tuple(_each("proposals", plan.proposals, Proposal)),
        admitted=tuple(_ids("admitted", plan.admitted)),
        dismissed=tuple(_ids("dismissed", plan.dismissed)),
    )
    gives = [give for proposal in checked.proposals for give in proposal.gives]
    for where, changes in (("changes", checked.changes), ("proposals", gives)):
        for change in changes:
            if not all(isfinite(score) for score in change.because.scores):
                raise PlanError(f"{where}: a score of job {change.job_id} is not finite")
    return checked


def _each(where: str, answers: Iterable[Any], *kinds: type[T]) -> Iterable[T]:
    """Yield records of some kinds, with every field checked."""
    for number, answer in enumerate(answers):
        kind: Any = type(answer)
        if kind not in kinds:
            names = " or ".join(one.__name__ for one in kinds)
            raise PlanError(f"{where}[{number}]: {_expected(names, answer)}")
        yield _typed(f"{where}[{number}]", answer, kind)


def _ids(where: str, answers: Iterable[Any]) -> Iterable[JobId]:
    """Yield ids of jobs."""
    for number, answer in enumerate(answers):
        if type(answer) is not str:
            raise PlanError(f"{where}[{number}]: {_expected('the id of a job', answer)}")
        yield JobId(answer)


def _typed(where: str, answer: Any, kind: type[T]) -> T:
    """Return a record whose fields have their types, and that a log can hold."""
    other = _other_record(answer, kind)
    if other is not None:
        raise PlanError(f"{where}{other[0]}: {other[1]}")
    try:
        plain = msgspec.to_builtins(answer)
        orjson.dumps(plain)
        typed = msgspec.convert(plain, kind)
    except (TypeError, ValueError, RecursionError) as error:
        raise PlanError(f"{where}: {_with_names(str(error), kind)}") from error
    return typed


def _with_names(text: str, kind: type) -> str:
    """Return what msgspec says of a record, naming fields where it counts them.

    It counts those of records that a log holds as arrays: `$.allocation[0]` are the shares.
    """
    said, at, place = text.partition(" - at `$")
    hint: object = kind
    named = ""
    for step in _STEP.findall(place):
        name = step[1:]
        record = _record_in(hint)
        if record is not None:
            if step[0] == "[":
                has_tag = record.__struct_config__.tag is not None
                name = record.__struct_fields__[int(step[1:-1]) - has_tag]
            named += f".{name}"
            hint = get_type_hints(record)[name]
        else:
            named += step
            hint = next(iter(get_args(hint)), None)
    return f"{said}{at}{named}`" if at else text


@cache
def _record_in(hint: object) -> type[msgspec.Struct] | None:
    """Return the class of records that a type hint names, alone or beside None."""
    for one in get_args(hint) if isinstance(hint, UnionType) else (hint,):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return one
    return None


def _other_record(answer: object, hint: object) -> tuple[str, str] | None:
    """Return where an answer holds something else than a record, and what.

    A record of another class may have equal fields.
    """
    record = _record_in(hint)
    if record is None:
        item = get_args(hint)[0]
        for number, one in enumerate(answer if isinstance(answer, tuple) else ()):
            if (found := _other_record(one, item)) is not None:
                return f"[{number}]{found[0]}", found[1]
        return None
    if type(answer) is not record:
        is_left_out = answer is None and record is not hint
        return None if is_left_out else ("", _expected(record.__name__, answer))
    for name, of_field in _fields_with_records(record):
        if (found := _other_record(getattr(answer, name), of_field)) is not None:
            return f".{name}{found[0]}", found[1]
    return None


@cache
def _fields_with_records(record: type[msgspec.Struct]) -> tuple[tuple[str, object], ...]:
    """Return the fields of a record that hold records, or tuples of them."""
    return tuple(
        (name, hint)
        for name, hint in get_type_hints(record).items()
        if _record_in(hint) is not None
        or (get_origin(hint) is tuple and _record_in(get_args(hint)[0]) is not None)
    )


def _check_targets(targets: Iterable[facts.Target]) -> None:
    for target in targets:
        if not isfinite(target.fraction):
            raise PlanError(f"targets: the fraction of {', '.join(target.jobs)} is not finite")


def _refuse(expected: str, answer: object) -> NoReturn:
    raise PlanError(_expected(expected, answer))


def _expected(what: str, answer: object) -> str:
    kind = "" if answer is None else f" of type {type(answer).__name__}"
    return f"expected {what}, not {short(answer)[:_SHOWN_MOST]}{kind}"


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

    def target(self, memory: Any, view: View) -> tuple[facts.Target, ...] | SolvedFact | None:
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
    text = _ADDRESS.sub("0x…", text)[:TEXT_MOST]
    return text.encode("utf-8", "replace").decode("utf-8")


def _in_words(error: BaseException) -> str:
    """Return an error's type and message; its message may fail as well."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  whatever somebody's exception does
        return type(error).__name__


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
