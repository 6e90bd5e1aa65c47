"""What a policy may answer: each hook's answer is checked before anybody relies on it.

Types are checked field by field, except for policies that are our own code throughout: those are
type-checked where they are written. Whether a plan fits the cluster is the approver's to say.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from math import isfinite
from reprlib import repr as short
from types import UnionType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import orjson

from shunter.core.interfaces import Observers, Policy
from shunter.core.planning.plan import (
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
from shunter.errors import PlanError
from shunter.events.facts import KINDS, SizesSet, SolvedFact, Target, TargetsSet
from shunter.events.records import fact
from shunter.events.values import ClassWait, JobId, Wait

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

    def target(self, answer: Any, now_us: int) -> tuple[Target, ...] | SolvedFact | None:
        """Return the targets of a policy, or the sizes of jobs.

        Raises:
            PlanError: they are none, or of another instant.
        """
        if answer is None or self.is_trusted:
            found: tuple[Target, ...] | SolvedFact | None = answer
            return found
        if type(answer) is SizesSet:
            sizes = _typed("sizes", answer, SizesSet)
            if sizes.at_us != now_us:
                raise PlanError(f"expected sizes of {now_us} us, not of {sizes.at_us} us")
            if not all(isfinite(number) for number in (sizes.speed, sizes.bound, sizes.gap)):
                raise PlanError("sizes: their speed, bound or gap is not finite")
            return sizes
        if type(answer) is TargetsSet:
            whole = _typed("targets", answer, TargetsSet)
            if whole.at_us != now_us:
                raise PlanError(f"expected targets of {now_us} us, not of {whole.at_us} us")
            _check_targets(whole.targets)
            return whole
        if type(answer) is not tuple:
            _refuse("a tuple of Target, a TargetsSet, a SizesSet or None", answer)
        targets = tuple(_each("targets", answer, Target))
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


def _check_targets(targets: Iterable[Target]) -> None:
    for target in targets:
        if not isfinite(target.fraction):
            raise PlanError(f"targets: the fraction of {', '.join(target.jobs)} is not finite")


def _refuse(expected: str, answer: object) -> NoReturn:
    raise PlanError(_expected(expected, answer))


def _expected(what: str, answer: object) -> str:
    kind = "" if answer is None else f" of type {type(answer).__name__}"
    return f"expected {what}, not {short(answer)[:_SHOWN_MOST]}{kind}"
