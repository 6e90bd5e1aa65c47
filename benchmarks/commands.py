"""Commands of Shunter in processes of their own: what they print and what they cost."""

import compileall
import json
import resource
import subprocess
import sys
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT.parent / "shared" / "traces"


@dataclass(frozen=True)
class Ran:
    """A command that has ended well: the seconds it took, and what it printed."""

    wall_s: float
    cpu_s: float
    printed: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON that it printed."""
        document: dict[str, Any] = json.loads(self.printed)
        return document


def shunter(
    *words: str, environment: Mapping[str, str] | None = None, codes: Container[int] = (0,)
) -> Ran:
    """Run a command of Shunter, whose modules are compiled, as an installation leaves them.

    Args:
        words: the command.
        environment: what it is given; None: that of this process.
        codes: the exit codes with which it has done well.
    Raises:
        SystemExit: it failed, with its last words.
    """
    _compile_modules()
    before_s, begun_s = children_cpu_s(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "shunter", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    wall_s = time.perf_counter() - begun_s
    if done.returncode not in codes:
        raise SystemExit(f"shunter {' '.join(words)}: {done.stderr.strip()}")
    return Ran(wall_s, children_cpu_s() - before_s, done.stdout)


def simulated(config: Path, log: Path, *words: str) -> Ran:
    """Simulate a config into a log that may be there already; it prints its document."""
    return shunter("simulate", str(config), *words, "--log", str(log), "--overwrite", "--json")


@cache
def _compile_modules() -> None:
    """Compile all modules once, for shells that keep Python from writing what it compiled."""
    compileall.compile_dir(ROOT / "shunter", quiet=1)


def children_cpu_s() -> float:
    """Return the CPU seconds of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
