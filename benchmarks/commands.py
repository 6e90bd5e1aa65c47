"""Commands of Shunter in processes of their own: what they print and what they cost."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Container, Mapping, Sequence
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


@dataclass(frozen=True)
class Checkout:
    """A checkout of Shunter, this one or another, whose commands are run from its folder."""

    root: Path

    @property
    def python(self) -> str:
        """The Python of its own environment, which knows its plug-ins; else this one."""
        own = self.root / ".venv" / "bin" / "python"
        return str(own) if own.exists() and self.root != ROOT else sys.executable

    def shunter(
        self,
        *words: str,
        environment: Mapping[str, str] | None = None,
        codes: Container[int] = (0,),
    ) -> Ran:
        """Run a command of Shunter, whose modules are compiled, as an installation leaves them.

        Args:
            words: the command.
            environment: what it is given; None: that of this process.
            codes: the exit codes with which it has done well.
        Raises:
            SystemExit: it failed, with its last words.
        """
        _compile_modules(self)
        command = [self.python, "-m", "shunter", *words]
        return ran(command, cwd=self.root, environment=environment, codes=codes)

    def simulated(self, config: Path, log: Path, *words: str) -> Ran:
        """Simulate a config into a log that may be there already; it prints its document."""
        into = ("--log", str(log), "--overwrite", "--json")
        return self.shunter("simulate", str(config), *words, *into)


HERE = Checkout(ROOT)
shunter, simulated = HERE.shunter, HERE.simulated


def ran(
    command: Sequence[str],
    *,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    codes: Container[int] = (0,),
) -> Ran:
    """Run a command to its end; return what it took and printed.

    Raises:
        SystemExit: it failed, with its last words.
    """
    before_s, begun_s = children_cpu_s(), time.perf_counter()
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=cwd, env=environment
    )
    wall_s = time.perf_counter() - begun_s
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(command[1:])}: {done.stderr.strip()}")
    return Ran(wall_s, children_cpu_s() - before_s, done.stdout)


@cache
def _compile_modules(checkout: Checkout) -> None:
    """Compile all modules once, for shells that keep Python from writing what it compiled."""
    folders = [str(checkout.root / name) for name in ("shunter", "papers", "peers")]
    command = [checkout.python, "-m", "compileall", "-q", *folders]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def children_cpu_s() -> float:
    """Return the CPU seconds of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
