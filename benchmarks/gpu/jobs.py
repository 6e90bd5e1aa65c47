"""Jobs that the parts start, ask and watch as a supervisor would: by a channel and a file."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from benchmarks.gpu.machine import Machine

ROOT = Path(__file__).parents[2]
PATIENCE_S = 150.0
STEPS_MOST = 1_000_000
EXIT_SUSPENDED = 75


class JobFailedError(Exception):
    """A job ended that should not have."""


class Job:
    """One attempt of a training job; a context, after which no process of it is left."""

    def __init__(
        self,
        here: Machine,
        folder: Path,
        model: str,
        *,
        attempt: int = 1,
        takes_turns: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.own = folder, folder / f"attempt-{attempt}"
        self.own.mkdir(parents=True)
        self._line = self.own / "channel"
        os.mkfifo(self._line)
        self._reader = os.open(self._line, os.O_RDWR | os.O_NONBLOCK)
        self.told: list[dict[str, Any]] = []
        self._lines: list[dict[str, Any]] = []
        self._read = 0
        self._turn = 1
        own = {
            "SHUNTER_CHANNEL": str(self._line),
            "SHUNTER_SUSPEND": str(self.own / "suspend"),
            "SHUNTER_CHECKPOINT_DIR": str(folder / "checkpoints"),
            "SHUNTER_ATTEMPT": str(attempt),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        if takes_turns:
            own["SHUNTER_TURN"] = str(self.own / "turn")
            self._write_turn(ends=0)
        words = [sys.executable, "-m", "benchmarks.gpu.job", model, here.device, str(STEPS_MOST)]
        with (self.own / "stdout").open("wb") as out, (self.own / "stderr").open("wb") as error:
            self.process = subprocess.Popen(
                words + ["--small"] * here.rehearses,
                cwd=ROOT,
                env={**os.environ, **own, **(environment or {})},
                stdout=out,
                stderr=error,
                start_new_session=True,
            )
        self.begun_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._reader)

    def lines(self) -> list[dict[str, Any]]:
        """Return all that it has printed so far."""
        with (self.own / "stdout").open("rb") as file:
            file.seek(self._read)
            said = file.read()
        whole = said[: said.rfind(b"\n") + 1]
        self._read += len(whole)
        self._lines += [json.loads(line) for line in whole.splitlines()]
        return self._lines

    def steps(self) -> list[float]:
        """Return when each mini-batch was done, in order."""
        return [line["at_s"] for line in self.lines() if line["what"] == "step"]

    def said(self, what: str) -> dict[str, Any]:
        """Wait until it has printed something of a kind; return the first."""
        self.wait(lambda: any(line["what"] == what for line in self.lines()), f"its {what!r}")
        return next(line for line in self.lines() if line["what"] == what)

    def wait_steps(self, count: int) -> None:
        """Wait until so many mini-batches are done."""
        self.wait(lambda: len(self.steps()) >= count, f"{count} mini-batches")

    def wait(self, is_so: Callable[[], bool], what: str, limit_s: float = PATIENCE_S) -> None:
        """Wait for something while the job lives.

        Raises:
            JobFailedError: it ends, or takes too long.
        """
        until_s = time.monotonic() + limit_s
        while not is_so():
            if self.process.poll() is not None and not is_so():
                raise JobFailedError(f"a job ended with {self.process.returncode}: {self.errors()}")
            if time.monotonic() > until_s:
                raise JobFailedError(f"waited {limit_s:.0f} s for {what}: {self.errors()}")
            time.sleep(0.002)

    def errors(self) -> str:
        """Return the end of what it printed to stderr."""
        return (self.own / "stderr").read_text(errors="replace").strip()[-400:]

    def hears(self, what: str, **fields: object) -> bool:
        """Say whether it has told something by its channel, with these fields."""
        with suppress(BlockingIOError):
            while piece := os.read(self._reader, 1 << 16):
                self.told += [json.loads(line) for line in piece.splitlines()]
        return any(
            told["what"] == what and all(told.get(key) == fields[key] for key in fields)
            for told in self.told
        )

    def rate(self, seconds: float) -> float:
        """Return how many mini-batches it does a second from now on, over a while."""
        begun = len(self.steps())
        self.wait(lambda: len(self.steps()) > begun, "a mini-batch")
        first, since_s = len(self.steps()), self.steps()[-1]
        self.wait(
            lambda: self.steps()[-1] >= since_s + seconds and len(self.steps()) > first, "its rate"
        )
        times = self.steps()
        return (len(times) - first) / (times[-1] - since_s)

    def batch_s(self) -> float:
        """Return the median of the last mini-batches."""
        times = self.steps()[-50:]
        gaps = sorted(later - earlier for earlier, later in pairwise(times))
        return gaps[len(gaps) // 2]

    def ask(self) -> float:
        """Ask it to save and leave; return when."""
        asked_s = time.monotonic()
        (self.own / "suspend").touch()
        return asked_s

    def end_turn(self) -> float:
        """Ask it to stand still at its next boundary; return how long that took."""
        self._turn += 1
        asked_s = time.monotonic()
        self._write_turn(ends=self._turn)
        self.wait(lambda: self.hears("standing", turn=self._turn), "a boundary")
        return time.monotonic() - asked_s

    def begin_turn(self) -> None:
        """Let it go on."""
        self._turn += 1
        self._write_turn(ends=0)

    def _write_turn(self, *, ends: int) -> None:
        fresh = self.own / "turn.new"
        fresh.write_text(json.dumps({"number": self._turn, "mask": 1, "ends": ends}))
        fresh.replace(self.own / "turn")

    def signal(self, number: int) -> None:
        """Send all of its processes a signal."""
        os.killpg(self.process.pid, number)

    def peak_host_mb(self) -> int:
        """Return the most memory of the host that it has held, in MB; 0 once it has ended."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) // 1024
        return 0
