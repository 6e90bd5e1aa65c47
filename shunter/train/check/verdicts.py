"""Whether a run that was suspended trained as one that was not; and if not, what it lacks.

The first mini-batch that differs after a stop says what was not carried over: a loss differs with
everything that goes into it, so what the script shows first (the batch) is named first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shunter.train.check.attempts import Attempt, Record
    from shunter.train.check.points import Point

EXACT, DIFFERENT, FAILED, ENDED = "exact", "different", "failed", "ended"
_TAIL_LINES = 12


class Verdict(NamedTuple):
    """What came of one point."""

    kind: str
    outcome: str
    """`exact`; `different`; `failed` (it did not save, or not go on); `ended` before it left."""
    asked: tuple[int, ...] = ()
    """The mini-batches after which it was asked to leave, counted over all attempts."""
    left: tuple[int, ...] = ()
    """The mini-batches after which it left."""
    because: tuple[str, ...] = ()
    differs_at: int | None = None

    @property
    def is_good(self) -> bool:
        return self.outcome in (EXACT, ENDED)


def verdict(point: Point, attempts: Sequence[Attempt], undisturbed: Sequence[Record]) -> Verdict:
    """Compare the attempts of a run with an undisturbed one."""
    asked, left = _places(attempts)
    for attempt in attempts[:-1]:
        if not attempt.has_left:
            return Verdict(point.kind, FAILED, asked, left, _why_it_stayed(attempt))
    last = attempts[-1]
    if any(each["what"] == "failed" for each in last.told):  # and went on to its end
        return Verdict(point.kind, FAILED, asked, left, _why_it_stayed(last))
    if last.code:
        return Verdict(point.kind, FAILED, asked, left, (_ended(last), *_tail(last.output)))
    seen = [record for attempt in attempts for record in attempt.saw]
    at = first_difference(seen, undisturbed)
    if at is None:
        return Verdict(point.kind, EXACT if left else ENDED, asked, left)
    because = _what_lacks(attempts, undisturbed, at)
    if len(seen) != len(undisturbed):
        because = (
            f"it trains with {len(seen)} mini-batches, an undisturbed run with {len(undisturbed)}",
            *because,
        )
    return Verdict(point.kind, DIFFERENT, asked, left, because, at + 1)


def first_difference(seen: Sequence[Record], undisturbed: Sequence[Record]) -> int | None:
    """Return the place of the first mini-batch that differs; None: all are equal."""
    for at, (one, other) in enumerate(zip(seen, undisturbed)):
        if one["seen"] != other["seen"] or one["epoch"] != other["epoch"]:
            return at
    return None if len(seen) == len(undisturbed) else min(len(seen), len(undisturbed))


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the names whose bits differ, in the order in which they were shown."""
    return [name for name in other if one.get(name) != other[name]]


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


def _why_it_stayed(attempt: Attempt) -> tuple[str, ...]:
    failures = [each.get("error", "") for each in attempt.told if each["what"] == "failed"]
    if failures:
        return (f"it could not save: {failures[0]}",)
    if not attempt.is_asked:
        return (_ended(attempt), *_tail(attempt.output))
    if not attempt.code:
        why = (
            "it was asked to leave, and ended with status 0 without having saved: is `run.step()` "
            "called after each mini-batch, or the adapter's callback in use?"
        )
        return (why,)
    return (_ended(attempt), *_tail(attempt.output))


def _ended(attempt: Attempt) -> str:
    if attempt.code == -14:  # SIGALRM
        return "it took longer than a process may (--limit)"
    if attempt.code < 0:
        return f"signal {-attempt.code} ended it"
    return f"it ended with status {attempt.code}"


def _tail(output: str) -> list[str]:
    return ["| " + line for line in output.splitlines()[-_TAIL_LINES:]]


def _what_lacks(
    attempts: Sequence[Attempt], undisturbed: Sequence[Record], at: int
) -> tuple[str, ...]:
    """Say what differs at the first mini-batch that does, and what was loaded otherwise."""
    number, place = 0, at
    while number < len(attempts) - 1 and place >= len(attempts[number].saw):
        place -= len(attempts[number].saw)
        number += 1
    said = []
    if not number:
        said.append("it differs before it is asked to leave: being under Shunter changes it")
    elif place:
        said.append(f"the {place} mini-batches after the stop are equal")
    if number:
        before = attempts[number - 1].saw
        began = [each for each in attempts[number].records if each["what"] == "begins"]
        for record in began if before else ():
            saved = before[-1]["seen"]
            lost = [name for name in differing(record["seen"], saved) if name in record["seen"]]
            if lost:
                said.append(f"loaded with other bits than it was saved with: {', '.join(lost)}")
    saw = attempts[number].saw
    if place < len(saw) and at < len(undisturbed):
        one, other = saw[place], undisturbed[at]
        if one["epoch"] != other["epoch"]:
            said.append(f"it is in epoch {one['epoch']}, not in epoch {other['epoch']}")
        names = differing(one["seen"], other["seen"])
        equal = [name for name in other["seen"] if name not in names]
        if names:
            said.append(f"other bits: {', '.join(names)}; equal: {', '.join(equal) or 'nothing'}")
        chances = differing(one["chance"], other["chance"])
        if chances:
            said.append(f"random states that differ: {', '.join(chances)}")
    return tuple(said)
