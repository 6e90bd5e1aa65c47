"""A machine of its own for tests of the supervisor: real attempts below a temporary folder."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shunter.backends.node import Known, attempts, command, processes
from tests.live.ssh.farm import parent_of

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Machine:
    """A root folder with a term in force, and what tests do with it."""

    root: Path

    def order(self, program: str, *, attempt: int = 1, **fields: Any) -> dict[str, Any]:
        """Return an order for a Python program on each rank."""
        return self.ordering([sys.executable, "-I", "-S", "-c", program], attempt, **fields)

    def ordering(
        self, argv: list[str], attempt: int = 1, ranks: int = 1, **fields: Any
    ) -> dict[str, Any]:
        """Return an order for a command on each rank."""
        rank = {"argv": argv, "cpus": [], "directory": str(self.root)}
        environment = {"PATH": os.environ["PATH"], "WORLD_SIZE": str(ranks)}
        suspend = {"mode": "cooperative", "cooperative_s": 0.5, "signal_s": 0.5, "restart_s": 0.5}
        order = {
            "job": "j0",
            "attempt": attempt,
            "term": 1,
            "placement": [],
            "ranks": [
                {**rank, "env": {**environment, "RANK": str(number)}} for number in range(ranks)
            ],
            "suspend": {**suspend, "signal": int(signal.SIGUSR1)},
            "grace_s": 0.3,
            "heartbeat": None,
        }
        return {**order, **fields}

    def starts(self, order: dict[str, Any]) -> dict[str, Any]:
        """Start an attempt; return the answer."""
        ran = subprocess.run(
            command("start", str(self.root)),
            input=json.dumps(order),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        )
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer

    def folder(self, attempt: int = 1) -> Path:
        return self.root / "jobs" / "j0" / str(attempt)

    def state(self, attempt: int = 1) -> str:
        return str(attempts.probe(str(self.folder(attempt)))["state"])

    def status(self, attempt: int = 1) -> dict[str, Any]:
        """Wait for the end of an attempt; return how it ended."""
        found: dict[str, Any] = wait_for(
            lambda: attempts.probe(str(self.folder(attempt)))["status"],
            "a status",
            lambda: self.told(attempt),
        )
        return found

    def sends(self, what: str, attempt: int = 1, **fields: Any) -> None:
        assert attempts.send(str(self.folder(attempt)), {"do": what, "term": 1, **fields})

    def supervisor(self, attempt: int = 1) -> int:
        """Return the process that supervises an attempt."""
        return pid_of(attempts.probe(str(self.folder(attempt))))

    def kill_supervisor(self, attempt: int = 1, *, with_reaper: bool = False) -> None:
        """Kill the supervisor of an attempt; with its reaper, what it leaves lives on."""
        pid = self.supervisor(attempt)
        for each in [parent_of(pid)] * with_reaper + [pid]:
            os.kill(each, signal.SIGKILL)

    def told(self, attempt: int = 1) -> str:
        """Return what there is to say of an attempt that does not end."""
        folder = self.folder(attempt)
        journal = folder / "journal"
        lines = [f"{folder}: {attempts.probe(str(folder))['state']}"]
        lines += journal.read_text().splitlines() if journal.exists() else []
        for pid in processes():
            with suppress(OSError):
                known = Path(f"/proc/{pid}/cmdline").read_bytes()
                known += Path(f"/proc/{pid}/environ").read_bytes()
                if str(self.root).encode() in known:
                    status = Path(f"/proc/{pid}/status").read_text().splitlines()
                    said = [
                        one for one in status if one.startswith(("State", "PPid", "Sig", "Shd"))
                    ]
                    waits = Path(f"/proc/{pid}/wchan").read_text()
                    lines.append(f"{pid} {waits} {' '.join(said)}".replace("\t", " "))
        return "\n".join(lines)

    def said(self, text: str, attempt: int = 1, rank: int = 0) -> str:
        """Wait for the first rank to print something; return all it printed."""
        path = self.folder(attempt) / f"stdout.{rank}"
        wait_for(lambda: path.exists() and text in path.read_text(), text)
        return path.read_text()


def pid_of(known: Known) -> int:
    """Return the process of the supervisor of an attempt that has started."""
    assert known.started is not None
    return known.started.pid


def wait_for(look: Callable[[], Any], what: str, told: Callable[[], str] = str) -> Any:
    """Look again until there is something to see; if that is in vain, say what there is."""
    until_s = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < until_s, f"waited in vain for {what}\n{told()}"
        time.sleep(0.005)
    return found


def is_alive(pid: int) -> bool:
    """Say whether a process lives; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@contextmanager
def machine_at(root: Path) -> Iterator[Machine]:
    """Open a machine, and leave nothing running on it."""
    attempts.raise_term(str(root), 1)
    machine = Machine(root)
    yield machine
    for known in attempts.inventory(str(root)):
        _empty(machine, known["folder"], known["attempt"])


def _empty(machine: Machine, folder: str, attempt: int) -> None:
    def is_over() -> bool:
        # Told each time: a supervisor whose folder was removed may be about to make it anew.
        attempts.send(folder, {"do": "fence", "term": 1 << 40})
        return attempts.remains(folder) == "lost"

    wait_for(is_over, "an empty machine", lambda: machine.told(attempt))


def fill(disk: Path) -> Path:
    """Leave no room on a disk; return what takes it."""
    ballast = disk / "ballast"
    full = subprocess.run(
        ["dd", "if=/dev/zero", f"of={ballast}", "bs=512"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No space left" in full.stderr
    return ballast


def top_up(ballast: Path) -> None:
    """Take what has become free on a full disk since."""
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(512)):
            pass


def use_up_files(disk: Path) -> list[Path]:
    """Leave no room for another file on a disk; return those that take it."""
    made: list[Path] = []
    with suppress(OSError):
        while True:
            path = disk / f"file-{len(made)}"
            path.touch()
            made.append(path)
    return made
