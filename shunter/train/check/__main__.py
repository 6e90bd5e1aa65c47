"""The command `python -m shunter.train.check`: exit status 0 if every resume was exact, else 1."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from shunter.train.check.attempts import LIMIT_S, Script
from shunter.train.check.points import KINDS, batches_of, points
from shunter.train.check.verdicts import differing, first_difference, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.train.check.attempts import Attempt, Record
    from shunter.train.check.points import Point
    from shunter.train.check.verdicts import Verdict

BY_CHANCE = 5


class UnfitError(Exception):
    """A script of which no check can say anything."""


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a script, and print what came of it."""
    told = _parser().parse_args(arguments)
    script = Path(told.script)
    if not script.is_file():
        sys.stderr.write(f"error: {script}: no such file; expected a training script" + "\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="shunter-check-") as scratch:
        try:
            return _checked(script, told, Path(scratch))
        except (UnfitError, SyntaxError, OSError) as error:
            sys.stderr.write(f"error: {script}: {error}" + "\n")
            return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m shunter.train.check",
        description="Suspend a training script at every kind of boundary, let a new process go on, "
        "and compare every bit with a run that nobody stopped.",
    )
    parser.add_argument("script", help="the training script; use few, small batches")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="its arguments")
    parser.add_argument(
        "--random", type=int, default=BY_CHANCE, metavar="N", help="points by chance (default 5)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the points by chance (default 1)")
    parser.add_argument(
        "--limit", type=int, default=LIMIT_S, metavar="S", help="seconds a process may take"
    )
    parser.add_argument("--json", metavar="FILE", help="also write what came of it, as JSON")
    return parser


def _checked(script: Path, told: argparse.Namespace, scratch: Path) -> int:
    with Script(script, told.words, told.limit) as runs:
        undisturbed = _undisturbed(runs, scratch)
        batches = batches_of(undisturbed.records)
        _say(f"{script}: {len(batches)} mini-batches; two undisturbed runs are equal")
        found = []
        chosen = points(undisturbed.records, told.random, told.seed)
        for number, point in enumerate(chosen):
            found.append(_tried(runs, scratch / str(number), point, undisturbed.saw))
            _show(found[-1])
    has = {point.kind for point in chosen}
    lacking = [kind for kind in KINDS if kind not in has]
    if lacking:
        _say(f"this script has no boundary of these kinds: {', '.join(lacking)}")
    if told.json:
        document = {
            "script": script.name,
            "batches": len(batches),
            "lacking": lacking,
            "points": [each._asdict() for each in found],
        }
        Path(told.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    bad = sum(not each.is_good for each in found)
    left = sum(bool(each.left) for each in found)
    if not left:
        sys.stderr.write("it never left: nothing was checked" + "\n")
        return 1
    _say(f"{len(found) - bad} of {len(found)} exact" if bad else f"all {len(found)} exact")
    return 1 if bad else 0


def _undisturbed(runs: Script, scratch: Path) -> Attempt:
    """Run the script twice to its end.

    Raises:
        UnfitError: it fails, shows nothing, or is not the same twice.
    """
    first, second = (runs.run_alone(scratch / name, None) for name in ("first", "second"))
    for each in (first, second):
        if each.code:
            raise UnfitError(f"it ends with status {each.code} outside Shunter:\n{each.output}")
    if not first.saw:
        raise UnfitError("no mini-batch was counted: does it call `run.step()`, or `check.saw`?")
    if not any(each["seen"] for each in first.saw):
        raise UnfitError(
            "there is nothing to compare: give `train.start` what it trains as parts, or show it "
            "by `check.saw(batch=..., loss=..., model=...)` after each mini-batch"
        )
    at = first_difference(first.saw, second.saw)
    if at is not None:
        raise UnfitError(
            f"two undisturbed runs differ at mini-batch {at + 1}{_in(first, second, at)}: "
            "seed what it draws, and choose deterministic kernels, before it is checked"
        )
    return first


def _in(first: Attempt, second: Attempt, at: int) -> str:
    if at >= min(len(first.saw), len(second.saw)):
        return ""
    names = differing(first.saw[at]["seen"], second.saw[at]["seen"])
    return f" in {', '.join(names)}" if names else ""


def _tried(runs: Script, folder: Path, point: Point, undisturbed: Sequence[Record]) -> Verdict:
    attempts: list[Attempt] = []
    for number, workers in enumerate(point.workers):
        ask = point.asks[number] if number < len(point.asks) else None
        attempts.append(runs.run(folder, ask, workers, number + 1))
        if not attempts[-1].has_left:
            break
    return verdict(point, attempts, undisturbed)


def _show(found: Verdict) -> None:
    asked = ", ".join(str(number) for number in found.asked) or "-"
    left = ", ".join(str(number) for number in found.left) or "-"
    differs = f" from mini-batch {found.differs_at} on" if found.differs_at else ""
    _say(f"{found.kind:14} asked after {asked:8} left after {left:8} {found.outcome}{differs}")
    for line in found.because:
        _say(f"{'':14} {line}")


if __name__ == "__main__":
    sys.exit(main())
