"""The product's own commands as processes, forked from one that has imported it already.

Importing it costs a second and a half of a core, and a seed starts a dozen of them. Who forks them
is a process with one thread and nothing else to do, so that nobody's lock is held in a child.
"""

import json
import os
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["Commands", "preload"]

PRELOADED = (
    "aiosqlite",
    "asyncssh",
    "numpy",
    "shunter.api.serving",
    "shunter.cli",
    "shunter.daemon",
    "shunter.ask.verification",
    "shunter.run.setup",
    "shunter.backends.live.ssh",
    "shunter.events.schema",
    "uvicorn",
)


def preload() -> None:
    """Import what the commands import."""
    for name in PRELOADED:
        import_module(name)


class Commands:
    """Starts `shunter` with words, as often as it is asked to."""

    def __init__(self) -> None:
        """Fork the process that forks the others; call it before any thread is begun."""
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            ours.close()
            _serve(theirs)
        theirs.close()
        self._asking = ours
        self._answers = ours.makefile("r")

    def start(self, words: tuple[str, ...], output: Path) -> int:
        """Start a command, whose output is added to a file; return its process id."""
        return int(self._ask(words=words, output=str(output)))

    def code(self, pid: int) -> int | None:
        """Return the exit code of a command, minus a signal that killed it; None: it runs."""
        code = self._ask(pid=pid)
        return None if code is None else int(code)

    def wait(self, pid: int, within_s: float) -> int | None:
        """Wait for the end of a command; return its exit code, or None if it does not come."""
        until_s = time.monotonic() + within_s
        while (code := self.code(pid)) is None and time.monotonic() < until_s:
            time.sleep(0.02)
        return code

    def kill(self, pid: int) -> None:
        """Kill a command without a word, and wait until it is gone."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.wait(pid, 60.0)

    def close(self) -> None:
        """Start no more."""
        self._answers.close()
        self._asking.close()

    def _ask(self, **asked: Any) -> Any:
        self._asking.sendall(json.dumps(asked).encode() + b"\n")
        return json.loads(self._answers.readline())


def _serve(asked: socket.socket) -> None:
    """Fork what is asked for until nobody asks any more."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ended: dict[int, int] = {}
    with asked.makefile("r") as lines:
        for line in lines:
            said = json.loads(line)
            if "words" in said:
                answer: int | None = os.fork()
                if not answer:
                    asked.close()
                    _become(said["words"], said["output"])
            else:
                answer = _code_of(said["pid"], ended)
            asked.sendall(json.dumps(answer).encode() + b"\n")
    os._exit(0)


def _code_of(pid: int, ended: dict[int, int]) -> int | None:
    """Return the exit code of a child, also when it is asked for again."""
    if pid not in ended:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended.get(pid)


def _become(words: list[str], output: str) -> None:
    """Be `shunter` with words."""
    from shunter.cli import main

    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for kept, instead in ((null, 0), (file, 1), (file, 2)):
        os.dup2(kept, instead)
    sys.argv = ["shunter", *words]
    code = 1
    try:
        main()
    except SystemExit as exited:
        code = exited.code if isinstance(exited.code, int) else int(exited.code is not None)
    except BaseException:  # noqa: BLE001  it is told, and the process ends
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
