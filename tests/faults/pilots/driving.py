"""A pilot process on this machine, and the questions that a daemon asks it."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from shunter.backends.node import command, uptime_ns
from shunter.backends.slurm import PilotStream
from tests.faults.pilots.dialling import PATIENCE_S, until

TRAINS = (
    "import os,time\nwhile not os.path.exists(os.environ['SHUNTER_SUSPEND']): time.sleep(.02)\n"
)
SUSPENDS = f"{TRAINS}\nraise SystemExit(75)"


@contextmanager
def pilot_process(
    path: Path, base: Path, program: list[str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a pilot as its job would; kill it at the end, and what it has started."""
    ours = command("pilot", str(path), str(base))
    words = ours if program is None else [*program, "pilot", str(path), str(base)]
    environment = {**os.environ, "SLURM_JOB_ID": "42", "SLURMD_NODENAME": "n3"}
    with (base.parent / "pilot.err").open("ab") as complaints:
        started = subprocess.Popen(words, env=environment, stderr=complaints)
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        for pid in below(base):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def below(base: Path) -> list[int]:
    """Return the processes that have to do with a folder: sessions, supervisors, ranks."""
    found = []
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if str(base).encode() in said:
                    found.append(int(entry.name))
    return found


class Questions:
    """A daemon's side of the RPC session over one stream."""

    def __init__(self, stream: PilotStream) -> None:
        self._stream, self._number = stream, 0
        self._said, self._lines = anyio.create_memory_object_stream[bytes](math.inf)
        self.greeting: dict[str, Any] = {}
        self.news: list[dict[str, Any]] = []

    async def read_all(self) -> None:
        """Read what the pilot says, to the end."""
        left = b""
        with self._said, self._lines:
            while data := await self._stream.read(1 << 16):
                *lines, left = (left + data).split(b"\n")
                for line in lines:
                    said = json.loads(line) if line.startswith(b"{") else {"id": 0}
                    if "id" in said:
                        self._said.send_nowait(line)
                    else:  # told unasked, maybe in its last words
                        self.news.append(said)

    async def greet(self) -> None:
        """Read the greeting, and claim the node."""
        nonce, line = self._stream.nonce.encode(), b""
        with anyio.fail_after(PATIENCE_S):
            while not line.startswith(nonce):
                line = await self._lines.receive()
        self.greeting = json.loads(line.partition(b" ")[2])
        claim = {"cluster": "c1", "term": 1, "holder": "h", "node": "n3", "cgroup": ""}
        answer = await self.ask("claim", asked_ns=uptime_ns(), **claim)
        assert "refused" not in answer, answer

    async def ask(self, do: str, **fields: object) -> dict[str, Any]:
        self._number += 1
        line = json.dumps({"id": self._number, "do": do, **fields})
        with anyio.fail_after(PATIENCE_S):
            await self._stream.write(line.encode() + b"\n")
            while True:
                said = json.loads(await self._lines.receive())
                if said["id"] == self._number:
                    assert "error" not in said, said
                    return dict(said)

    async def look(self, job: str = "j1") -> dict[str, Any]:
        """Return what is known of the first attempt of a job."""
        watched = [[job, 1, 0, 0]]
        fields = {"asked_ns": uptime_ns(), "watched": watched, "anew": [[job, 1]], "is_all": True}
        (known,) = (await self.ask("look", **fields))["changed"]
        return dict(known)

    async def start(self, program: str, job: str = "j1", **fields: object) -> None:
        """Start an attempt that runs a Python program."""
        answer = await self.ask(
            "start", before_ns=uptime_ns() + 10**10, order=self._order(program, job, **fields)
        )
        assert answer["answer"] == "started", answer

    async def until_state(self, state: str, job: str = "j1") -> dict[str, Any]:
        """Look until an attempt has come to a state; return what is known of it.

        A pilot that has told of it unasked may be gone before the next question.
        """
        with anyio.fail_after(PATIENCE_S):
            while True:
                try:
                    known = await self.look(job)
                except (anyio.ClosedResourceError, BrokenPipeError):
                    told = [each for news in self.news for each in news.get("changed", ())]
                    (*_, known) = [each for each in told if each["job"] == job]
                    assert known["state"] == state, known
                if known["state"] == state:
                    return known
                await anyio.sleep(0.05)

    async def output(self, job: str = "j1") -> str:
        """Return what an attempt has printed."""
        fields = {"job": job, "attempt": 1, "name": "stdout.0", "offset": 0, "bytes": 1 << 18}
        return str((await self.ask("read", **fields))["data"])

    def _order(self, program: str, job: str, **fields: object) -> dict[str, object]:
        root = f"{self.greeting['base']}/clusters/c1"
        argv = [sys.executable, "-I", "-S", "-c", program]
        suspend = {"mode": "cooperative", "cooperative_s": 30, "signal_s": 30, "restart_s": 30}
        order = {
            "job": job,
            "attempt": 1,
            "term": 1,
            "placement": [],
            "ranks": [{"argv": argv, "env": {}, "cpus": [], "directory": "/"}],
            "suspend": {**suspend, "signal": int(signal.SIGUSR1)},
            "grace_s": 1,
            "heartbeat": None,
            "checkpoints": f"{root}/jobs/{job}/checkpoints",
            "user": None,
            "user_name": "",
            "memory_mb": 0,
            "home": None,
        }
        return {**order, **fields}


def session_of(pilot: "subprocess.Popen[bytes]") -> int:
    """Return the process that serves the session of a pilot.

    Beside it a pilot may have one that still notes how its GPUs are wired.
    """
    children = Path(f"/proc/{pilot.pid}/task/{pilot.pid}/children").read_text().split()
    (session,) = (int(pid) for pid in children if b"serve" in _words(pid))
    return session


def _words(pid: str) -> list[bytes]:
    """Return the command line of a process; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class Sessions:
    """All sessions that pilots have begun with a daemon."""

    def __init__(self) -> None:
        self.all: list[Questions] = []

    async def serve(self, stream: PilotStream) -> None:
        """Read what a pilot says; the test asks."""
        self.all.append(Questions(stream))
        await self.all[-1].read_all()

    async def begun(self, number: int = 1) -> Questions:
        """Wait for a connection, and claim the node."""
        await until(lambda: len(self.all) >= number)
        await self.all[number - 1].greet()
        return self.all[number - 1]


async def exit_code(process: "subprocess.Popen[bytes]") -> int:
    """Return how a process ends."""
    began_s = time.monotonic()
    await until(lambda: process.poll() is not None or time.monotonic() - began_s > PATIENCE_S)
    return -1 if process.returncode is None else process.returncode
