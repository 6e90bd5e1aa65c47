"""Whether a run that was suspended trained as one that was not; and if not, what it lacks.

The first mini-batch that differs after a stop says what was not carried over: a loss differs with
everything that goes into it, so what the script shows first (the batch) is named first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from shunter.train.check.attempts import RANKS
from shunter.train.check.points import WORKERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shunter.train.check.attempts import Attempt, Record
    from shunter.train.check.points import Point

EXACT, DIFFERENT, FAILED, ENDED, REFUSED = "exact", "different", "failed", "ended", "refused"
UNTRIED, INCOMPARABLE = "not tried", "not comparable"
_TOLD = (
    "it was told to leave (`run.boundary()` was true), and ended with status 0 without having "
    "saved: call `run.step()`, or save and call `run.saved_by_script(folder)`"
)
_ASKED = (
    "it was asked to leave, and ended with status 0 without having saved: is `run.step()` called "
    "after each mini-batch, or the adapter's callback in use?"
)
_EMPTY = (
    "it runs in an empty folder: name what it reads by absolute paths, or link that there by "
    "--link PATH"
)
_SCRATCH = re.compile(r"\S*shunter-check-\w+/\d+/")  # another one in each check
_TAIL_LINES = 12
_NAMES_MAX = 12


class Verdict(NamedTuple):
    """What came of one point."""

    kind: str
    outcome: str
    """`exact`; `different`; `failed` (it did not save, or not go on); `ended` before it left; or,
    of a checkpoint that must not be resumed as it is, `refused`; `not tried`: it left no files;
    `not comparable`: with so many workers it trains otherwise even where nobody stops it."""
    asked: tuple[int, ...] = ()
    """The mini-batches after which it was asked to leave, counted over all attempts."""
    left: tuple[int, ...] = ()
    """The mini-batches after which it left."""
    because: tuple[str, ...] = ()
    differs_at: int | None = None
    others: tuple[str, ...] = ()
    """Of a run that is exact: the variables that are no parts and have other values at its end."""

    @property
    def is_good(self) -> bool:
        return self.outcome in (EXACT, ENDED, REFUSED, INCOMPARABLE)


def verdict(point: Point, attempts: Sequence[Attempt], undisturbed: Sequence[Record]) -> Verdict:
    """Compare the attempts of a run with an undisturbed one."""
    asked, left = _places(attempts)
    last = attempts[-1]
    is_stayed = len(attempts) < len(point.workers)
    is_short = len(_seen(attempts)) < len(undisturbed)
    why = _why_it_stayed(last, is_short=is_short) if is_stayed else ()
    if why:
        return Verdict(point.kind, FAILED, asked, left, why)
    if point.damage and not is_stayed:
        return _of_bad_input(point, attempts, undisturbed)
    if last.code:
        return Verdict(point.kind, FAILED, asked, left, (_ended(last), *_tail(last.output)))
    seen = _seen(attempts)
    at = first_difference(seen, undisturbed)
    if at is None:
        return _of_the_end(
            Verdict(point.kind, EXACT if left else ENDED, asked, left), seen, undisturbed
        )
    because = _what_lacks(attempts, undisturbed, at)
    if len(seen) != len(undisturbed):
        because = (_counts(len(seen), len(undisturbed)), *because)
    return Verdict(point.kind, DIFFERENT, asked, left, because, at + 1)


def untried(point: Point, attempts: Sequence[Attempt]) -> Verdict:
    """Say of a point that there was no checkpoint to damage."""
    because = f"nothing to damage: where is what it saved? {point.damage} could not be tried"
    return Verdict(point.kind, UNTRIED, *_places(attempts), (because,))


def incomparable(found: Verdict, number: int, instead_of: int, at: int) -> Verdict:
    """Say that with so many workers even an undisturbed run is another one."""
    because = (
        f"with {number} workers instead of {instead_of} it trains with other batches even before "
        f"it is asked, from mini-batch {at + 1} on: what draws at random in workers cannot be "
        "compared"
    )
    return found._replace(outcome=INCOMPARABLE, because=(because,), differs_at=None)


def _of_the_end(exact: Verdict, seen: Sequence[Record], undisturbed: Sequence[Record]) -> Verdict:
    """Look at what a script holds at its last mini-batch."""
    if not exact.left or exact.kind == WORKERS:  # what draws at random lies in workers or not
        return exact
    # A generator with other bits that changed nothing: what was loaded has one of its own.
    sources = undisturbed[-1].get("sources", ())
    changed = _changed("held", seen[-1], undisturbed[-1])
    lost = [name for name in changed if name not in sources]
    if lost:
        because = f"not given to train.start, and with other bits at the end: {listed(lost)}"
        return exact._replace(outcome=DIFFERENT, because=(because,))
    return exact._replace(
        others=(
            *(name for name in changed if name in sources),
            *_changed("variables", seen[-1], undisturbed[-1]),
        )
    )


def keep_steady(first: Sequence[Record], second: Sequence[Record]) -> None:
    """Leave out of a run what another undisturbed one holds otherwise."""
    for one, other in zip(first, second):
        for what in ("held", "variables"):
            lasting = _shared(one[what], other[what])
            one[what] = {
                name: lasting[name] for name in lasting if lasting[name] == other[what][name]
            }


def _changed(what: str, one: Record, other: Record) -> list[str]:
    """Return what a script holds in both mini-batches, with other bits."""
    return [name for name in differing(one[what], other[what]) if name in one[what]]


def _of_bad_input(
    point: Point, attempts: Sequence[Attempt], undisturbed: Sequence[Record]
) -> Verdict:
    """Judge an attempt whose newest checkpoint is damaged, or of other ranks."""
    asked, left = _places(attempts)
    last = attempts[-1]
    if last.code and not last.saw:
        words = [line for line in last.output.splitlines() if line.strip()][-1:]
        if last.code > 0 and words:
            says = _SCRATCH.sub("", words[0])
            return Verdict(point.kind, REFUSED, asked, left, (f"it says: {says}",))
        return Verdict(point.kind, FAILED, asked, left, (_ended(last), "it says nothing"))
    began = [each["step"] for each in last.records if each["what"] == "started"]
    at = first_difference(_seen([*attempts[:-2], last]), undisturbed)
    if at is None and not last.code and left[:-1]:
        where = f"it goes on from the checkpoint after mini-batch {left[-2]}"
        return Verdict(point.kind, EXACT, asked, left, (where,))
    if at is not None and not last.code and began and began[-1] in left[:-1]:
        where = f"it goes on from the checkpoint after mini-batch {began[-1]}, with other bits"
        lacks = (where, *_what_lacks([*attempts[:-2], last], undisturbed, at))
        return Verdict(point.kind, DIFFERENT, asked, left, lacks, at + 1)
    is_equal = first_difference(_seen(attempts), undisturbed) is None
    if is_equal and not last.code and point.damage != RANKS:
        where = "what the checkpoint lacks is not needed"
        return Verdict(point.kind, EXACT, asked, left, (where,))
    if not last.code and first_difference(last.saw, undisturbed) is None:
        because = "it begins at its start again, though an earlier checkpoint is whole"
    else:
        because = f"it trains on with {point.damage}: it must refuse that, or go on from another"
    return Verdict(point.kind, FAILED, asked, left, (because, *_tail(last.output)))


def first_difference(seen: Sequence[Record], undisturbed: Sequence[Record]) -> int | None:
    """Return the index of the first mini-batch that differs; None: all are equal."""
    for at, (one, other) in enumerate(zip(seen, undisturbed)):
        # What a script shows after its boundary lacks where it leaves there.
        if _shared(one["seen"], other["seen"]) != _shared(other["seen"], one["seen"]):
            return at
        if one["epoch"] != other["epoch"]:
            return at
    return None if len(seen) == len(undisturbed) else min(len(seen), len(undisturbed))


def _shared(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    return {name: one[name] for name in one if name in other}


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the names whose bits differ, in the order in which they were shown."""
    return [name for name in other if one.get(name) != other[name]]


def ended_with(attempt: Attempt) -> str:
    """Say how a process ended that should have trained to its end."""
    return "\n".join([_ended(attempt), *_tail(attempt.output), *_hint(attempt.output)])


def _seen(attempts: Sequence[Attempt]) -> list[Record]:
    return [record for attempt in attempts for record in attempt.saw]


def _counts(one: int, other: int) -> str:
    return f"it trains with {one} mini-batches, an undisturbed run with {other}"


def _places(attempts: Sequence[Attempt]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return after which mini-batches attempts were asked, and after which they left."""
    asked, left, done = [], [], 0
    for attempt in attempts:
        for record in attempt.records:
            done += record["what"] == "saw"
            if record["what"] == "asked":
                asked.append(done)
        if attempt.has_left:
            left.append(done)
    return tuple(asked), tuple(left)


def _why_it_stayed(attempt: Attempt, *, is_short: bool) -> tuple[str, ...]:
    """Say why an attempt did not leave; nothing where it ended before it could."""
    failures = [each.get("error", "") for each in attempt.told if each["what"] == "failed"]
    if failures:
        return (f"it could not save: {failures[0]}",)
    if attempt.code:
        return (_ended(attempt), *_tail(attempt.output))
    is_told = any(each["what"] == "boundary" and each["stop"] for each in attempt.records)
    if is_told:
        return (_TOLD,)
    return (_ASKED,) if is_short and attempt.is_asked else ()


def _ended(attempt: Attempt) -> str:
    if attempt.code == -14:  # SIGALRM
        return "it took longer than a process may (--limit)"
    if attempt.code < 0:
        return f"signal {-attempt.code} ended it"
    return f"it ended with status {attempt.code}"


def _tail(output: str) -> list[str]:
    return ["| " + line for line in output.splitlines()[-_TAIL_LINES:]]


def _hint(output: str) -> list[str]:
    is_lost = "No such file or directory" in output or "FileNotFoundError" in output
    return [_EMPTY] if is_lost else []


def _what_lacks(
    attempts: Sequence[Attempt], undisturbed: Sequence[Record], at: int
) -> tuple[str, ...]:
    """Say what differs first, and what was loaded otherwise."""
    number, place = 0, at
    while number < len(attempts) - 1 and place >= len(attempts[number].saw):
        place -= len(attempts[number].saw)
        number += 1
    attempt = attempts[number]
    said = []
    if not number:
        said.append("it differs before it is asked to leave: being under Shunter changes it")
    elif place:
        said.append(f"the {place} mini-batches after the stop are equal")
    if number:
        said += _loaded_otherwise(attempts[number - 1], attempt)
    is_other_batch = len(_seen(attempts)) != len(undisturbed)
    if place < len(attempt.saw) and at < len(undisturbed):
        one, other = attempt.saw[place], undisturbed[at]
        said += _other_bits(one, other)
        is_other_batch = is_other_batch or "batch" in differing(one["seen"], other["seen"])
    is_followed = any(each["what"] == "batches" for each in attempt.records)
    if number and is_other_batch and not is_followed:
        said.append("its batches do not come through run.batches(loader), which puts them back")
    return tuple(said)


def _loaded_otherwise(before: Attempt, attempt: Attempt) -> list[str]:
    """Name what was saved and came back with other bits."""
    said = []
    for record in (each for each in attempt.records if each["what"] == "begins"):
        saved = before.saw[-1]["seen"] if before.saw else {}
        lost = [name for name in differing(record["seen"], saved) if name in record["seen"]]
        if lost:
            said.append(f"loaded with other bits than it was saved with: {listed(lost)}")
    return said


def _other_bits(one: Record, other: Record) -> list[str]:
    """Name what differs in a mini-batch, and what the script has not saved of that."""
    said = []
    if one["epoch"] != other["epoch"]:
        said.append(f"it is in epoch {one['epoch']}, not in epoch {other['epoch']}")
    names = differing(one["seen"], other["seen"])
    equal = [name for name in other["seen"] if name not in names]
    if names:
        said.append(f"other bits: {listed(names)}; equal: {listed(equal) or 'nothing'}")
    chances = differing(one["chance"], other["chance"])
    if chances:
        said.append(f"random states that differ: {listed(chances)}")
    unsaved = _changed("held", one, other)
    if unsaved:
        said.append(f"not given to train.start, and with other bits: {listed(unsaved)}")
    shown = {*one["seen"].values(), None}
    found = differing(one["variables"], other["variables"])
    variables = [name for name in found if one["variables"].get(name) not in shown]
    variables = [name for name in variables if name not in other["seen"]]
    if variables:
        said.append(f"variables of the script with other values: {listed(variables)}")
    return said


def listed(names: Sequence[str]) -> str:
    """Return names in a line, or the first of many."""
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more
