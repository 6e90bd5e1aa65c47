"""Run seeds: python -m tests.chaos SEEDS [-j N] [--keep].

SEEDS is a list such as 1-10 or 3,7,20-29. Each seed is a process of its own; whatever is violated
is told with its seed and the command that repeats it.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from tests.chaos.forks import preload
from tests.chaos.run import Result, carried_out
from tests.chaos.scenario import drawn
from tests.live.ssh.namespaces import lacking

__all__ = ["main", "seeds_of"]

PATIENCE_S = 600.0


def seeds_of(text: str) -> list[int]:
    """Return the seeds of a list such as 1-10 or 3,7,20-29."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the seeds that are named; return 1 if anything was violated."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("seeds", type=seeds_of)
    parser.add_argument("-j", dest="at_once", type=int, default=2, help="seeds at a time")
    parser.add_argument("--keep", action="store_true", help="keep the folders of good runs too")
    options = parser.parse_args(arguments)
    if lacking():
        print(f"chaos {lacking()}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))
    begun_s = time.monotonic()
    preload()
    bad = _all(options.seeds, options.at_once, keep=options.keep)
    took_s = time.monotonic() - begun_s
    count = len(options.seeds)
    print(f"{count - bad} passed, {bad} failed in {took_s:.1f}s")
    return 1 if bad else 0


def _all(seeds: Sequence[int], at_once: int, *, keep: bool) -> int:
    """Run seeds, some at a time, each in a process of its own; return how many are bad."""
    left, busy, bad = list(seeds), list[_Seed](), 0
    try:
        while left or busy:
            while left and len(busy) < at_once:
                busy.append(_Seed(left.pop(0)))
            for seed in list(busy):
                if seed.has_ended():
                    busy.remove(seed)
                    bad += seed.told(keep=keep)
            time.sleep(0.05)
    finally:
        for seed in busy:
            os.kill(seed.pid, signal.SIGTERM)
    return bad


class _Seed:
    """A seed under way in a process of its own, forked from one that has imported everything."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._folder = Path(tempfile.mkdtemp(prefix=f"chaos{number}."))
        self._begun_s = time.monotonic()
        self._code = 0
        self.pid = os.fork()
        if not self.pid:
            self._become()

    def has_ended(self) -> bool:
        """Look whether it has ended; end it if it takes too long."""
        if time.monotonic() - self._begun_s > PATIENCE_S:
            os.kill(self.pid, signal.SIGTERM)
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self._code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def told(self, *, keep: bool) -> bool:
        """Say what came of it; return whether that is bad."""
        result = _result(self._folder, self._code)
        _tell(self._number, self._folder, result)
        if not result.violations and not keep:
            shutil.rmtree(self._folder, ignore_errors=True)
        return bool(result.violations)

    def _become(self) -> NoReturn:
        os.setsid()
        file = os.open(self._folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for instead in (1, 2):
            os.dup2(file, instead)
        try:
            scenario = drawn(self._number)
            (self._folder / "scenario.txt").write_text(scenario.told() + "\n")
            result = carried_out(scenario, self._folder)
            (self._folder / "result.json").write_text(json.dumps(asdict(result)))
        except BaseException:  # noqa: BLE001  it is told, and the process ends
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)


def _result(folder: Path, code: int) -> Result:
    """Return what a process has left of its run."""
    path = folder / "result.json"
    if path.exists():
        return Result(**json.loads(path.read_text()))
    tail = " | ".join((folder / "output.txt").read_text(errors="replace").splitlines()[-6:])
    return Result([f"harness: it ended with {code}: {tail}"], 0.0)


def _tell(seed: int, folder: Path, result: Result) -> None:
    counts = ", ".join(f"{value} {name}" for name, value in result.counts.items())
    verdict = f"{len(result.violations)} VIOLATIONS" if result.violations else "passed"
    lines = [f"seed {seed}: {verdict} in {result.took_s:.0f} s ({counts})"]
    if result.violations:
        kinds = Counter(line.partition(":")[0] for line in result.violations)
        lines += [f"    {line}" for line in result.violations]
        lines.append(f"    {dict(kinds)}; all of it lies in {folder}")
        lines.append(f"    again: make chaos SEEDS={seed}")
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
