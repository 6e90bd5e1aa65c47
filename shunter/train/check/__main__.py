"""The command `python -m shunter.train.check`.

Its exit status is 0 if every resume was exact, 1 if one was not, and 2 if the script cannot be
checked: it fails, shows nothing, comes to no boundary, or is not the same twice.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.train.check.attempts import LIMIT_S, Script, damaged
from shunter.train.check.points import KINDS, WORKERS, batches_of, points
from shunter.train.check.verdicts import (
    DIFFERENT,
    differing,
    ended_with,
    first_difference,
    incomparable,
    keep_steady,
    listed,
    untried,
    verdict,
)
from shunter.train.check.warm import imported_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shunter.train.check.attempts import Attempt
    from shunter.train.check.points import Point
    from shunter.train.check.verdicts import Verdict

BY_CHANCE = 5
_OPTIONS = ("--json", "--limit", "--link", "--random", "--seed")


class UnfitError(Exception):
    """A script of which no check can say anything."""


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a script, and print what came of it."""
    told = _parser().parse_args(arguments)
    script = Path(told.script)
    refused = _refused(script, told)
    if refused:
        sys.stderr.write(f"error: {refused}" + "\n")
        return 2
    for word in told.words:
        if word.partition("=")[0] in _OPTIONS:
            sys.stderr.write(
                f"note: {word} is given to the script, as all that comes after it: options of the "
                "check come before the script" + "\n"
            )
    try:
        with _ended_by_signals(), tempfile.TemporaryDirectory(prefix="shunter-check-") as scratch:
            return _checked(script, told, Path(scratch))
    except (UnfitError, SyntaxError, OSError) as error:
        sys.stderr.write(f"error: {script}: {error}" + "\n")
        return 2
    except _EndedError as error:
        return 128 + error.number


def _refused(script: Path, told: argparse.Namespace) -> str:
    """Say which file is not there, or cannot be written; nothing if all is well."""
    for path in (script, *told.link):
        if not path.exists():
            return f"{path}: no such file"
    if not script.is_file():
        return f"{script}: is a {'directory' if script.is_dir() else 'special file'}, no script"
    if told.json:
        path = Path(told.json)
        is_new = not path.exists()
        try:
            path.open("a").close()
        except OSError as error:
            return f"--json {path}: {error.strerror}"
        if is_new:
            path.unlink()
    return ""


class _EndedError(BaseException):
    """A signal ends the check."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Leave by an exception at a signal: script and scratch folder go, too."""

    def end(number: int, frame: object) -> None:
        del frame
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise _EndedError(number)

    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = {
        each: signal.signal(each, end)
        for each in numbers
        if signal.getsignal(each) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _at_least(least: int) -> Callable[[str], int]:
    """Return what reads an option that is a number, and not a smaller one."""

    def number(text: str) -> int:
        found = int(text)
        if found < least:
            raise argparse.ArgumentTypeError(f"at least {least}")
        return found

    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m shunter.train.check",
        description="Suspend a training script at every kind of boundary, let a new process go on, "
        "and compare every bit with a run that nobody stopped.",
    )
    parser.add_argument("script", help="the training script; use few, small batches")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="its arguments")
    parser.add_argument(
        "--random",
        type=_at_least(0),
        default=BY_CHANCE,
        metavar="N",
        help="points by chance (default 5)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the points by chance (default 1)")
    parser.add_argument(
        "--limit",
        type=_at_least(1),
        default=LIMIT_S,
        metavar="S",
        help=f"seconds a process may take (default {LIMIT_S})",
    )
    parser.add_argument(
        "--link",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="lies in the empty folder in which the script runs, under its own name; repeatable",
    )
    parser.add_argument("--json", metavar="FILE", help="also write what came of it, as JSON")
    return parser


def _checked(script: Path, told: argparse.Namespace, scratch: Path) -> int:
    imported_by(script)  # a script that cannot be parsed is refused in a line
    options: dict[str, Any] = {"limit_s": told.limit, "links": told.link}
    with Script(script, told.words, **options) as runs:
        first = _trained(runs, scratch / "first")
        # Another order of sets, and no import in common.
        with Script(script, told.words, **options, hash_seed=1) as others:
            second = _trained(others, scratch / "second")
        _check_equal(first, second)
        keep_steady(first.saw, second.saw)
        batches = batches_of(first.records)
        _say(f"{script}: {len(batches)} mini-batches; two undisturbed runs are equal")
        found = []
        chosen = points(first.records, told.random, told.seed)
        for number, point in enumerate(chosen):
            found.append(_tried(runs, scratch / str(number), point, first))
            _show(found[-1])
    _note(found)
    has = {point.kind for point in chosen}
    lacking = [kind for kind in KINDS if kind not in has]
    if lacking:
        _say(f"this script has no boundary of these kinds: {', '.join(lacking)}")
    if told.json:
        document = {
            "script": script.name,
            "batches": len(batches),
            "lacking": lacking,
            "points": [_as_json(each) for each in found],
        }
        Path(told.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return _summed_up(found)


def _note(found: Sequence[Verdict]) -> None:
    """Say once which variables begin again, though nothing trained depends on it."""
    names = list(dict.fromkeys(name for each in found for name in each.others))
    if names:
        _say(
            "exact, but these variables of the script have other values after a stop: "
            f"{listed(names)}: keep in a part what decides anything"
        )


def _as_json(found: Verdict) -> dict[str, Any]:
    return {name: value for name, value in found._asdict().items() if name != "others"}


def _summed_up(found: Sequence[Verdict]) -> int:
    bad = sum(not each.is_good for each in found)
    if not any(each.left for each in found):
        sys.stderr.write("it never left: nothing was checked" + "\n")
        return 1
    outcomes = [each.outcome for each in found]
    counted = [f"{outcomes.count(name)} {name}" for name in dict.fromkeys(outcomes)]
    _say(f"{', '.join(counted)}: {f'{bad} of {len(found)} wrong' if bad else 'as it has to be'}")
    return 1 if bad else 0


def _trained(runs: Script, folder: Path) -> Attempt:
    """Run the script to its end, outside Shunter.

    Raises:
        UnfitError: it fails, shows nothing, or comes to no boundary.
    """
    found = runs.run_alone(folder, None)
    if found.code:
        raise UnfitError(f"outside Shunter {ended_with(found)}")
    if not found.saw:
        raise UnfitError(
            "no mini-batch was counted: does it call `train.start`, then `run.step()` after each, "
            "or use an adapter?"
        )
    if not any(each["what"] == "boundary" for each in found.records):
        raise UnfitError(
            f"it shows {len(found.saw)} mini-batches and comes to no boundary, so it never leaves: "
            "call `run.step()` after each, or use an adapter"
        )
    if not any(each["seen"] for each in found.saw):
        raise UnfitError(
            "there is nothing to compare: give `train.start` what it trains as parts, or show it "
            "by `check.saw(batch=..., loss=..., model=...)` after each mini-batch"
        )
    return found


def _check_equal(first: Attempt, second: Attempt) -> None:
    """Refuse a script that is not the same twice.

    Raises:
        UnfitError: nobody could say of a resumed run what it lacks.
    """
    at = first_difference(first.saw, second.saw)
    if at is None:
        return
    where = ""
    if at < min(len(first.saw), len(second.saw)):
        one, other = first.saw[at], second.saw[at]
        names = differing(one["seen"], other["seen"])
        sources = [*differing(one["chance"], other["chance"])]
        sources += [name for name in differing(one["held"], other["held"]) if name in one["held"]]
        where = f" in {', '.join(names)}" if names else ""
        where += f" (and so do: {', '.join(sources)})" if sources else ""
    raise UnfitError(
        f"two undisturbed runs differ at mini-batch {at + 1}{where}: seed what it draws, take "
        "deterministic kernels, and iterate over no set, before it is checked"
    )


def _tried(runs: Script, folder: Path, point: Point, first: Attempt) -> Verdict:
    """Return what comes of a point."""
    attempts: list[Attempt] = []
    more: dict[str, str] | None = {}
    for number, workers in enumerate(point.workers):
        ask = point.asks[number] if number < len(point.asks) else None
        if point.damage and ask is None:
            more = damaged(point.damage, attempts[-1])
            if more is None:
                return untried(point, attempts)
        attempts.append(runs.run(folder, ask, workers, number + 1, more))
        if not attempts[-1].has_left:
            break
    found = verdict(point, attempts, first.saw)
    if point.kind != WORKERS or found.outcome != DIFFERENT:
        return found
    return _of_workers(runs, folder, point, found, first)


def _of_workers(
    runs: Script, folder: Path, point: Point, found: Verdict, first: Attempt
) -> Verdict:
    """Say whether a run under other numbers of workers can be equal at all.

    It is run undisturbed under each number that the script does not have itself.
    """
    own = next(each["number"] for each in first.records if each["what"] == "workers")
    for number in point.workers:
        if number is not None and number != own:
            alone = runs.run_alone(folder / f"workers-{number}", number)
            at = None if alone.code else first_difference(alone.saw, first.saw)
            if at is not None and at < (found.differs_at or 0):
                return incomparable(found, number, own, at)
    return found


def _show(found: Verdict) -> None:
    asked = ", ".join(str(number) for number in found.asked) or "-"
    left = ", ".join(str(number) for number in found.left) or "-"
    differs = f" from mini-batch {found.differs_at} on" if found.differs_at else ""
    _say(f"{found.kind:14} asked after {asked:8} left after {left:8} {found.outcome}{differs}")
    for line in found.because:
        _say(f"{'':14} {line}")


if __name__ == "__main__":
    sys.exit(main())
