"""The processes of live policies, forked from one that has imported what they import.

Importing it costs half a second of a core, and tests start hundreds of schedulers, each with such a
process. What is forked is told nothing else and does nothing else than one that is started: its
own process, killed at any instant, with the same socket, surroundings and paths. Schedulers that
are started by their command (tests/live/api, examples, chaos) start it as the product does.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

import shunter.daemon.policy as product

__all__ = ["AS_THE_PRODUCT_DOES", "PolicyForks"]

AS_THE_PRODUCT_DOES = product.start_process

MESSAGE_BYTES = 1 << 18
BOOT = "from tests.policy_forks import serve; import sys; serve(int(sys.argv[1]))"


class Surroundings(msgspec.Struct):
    """What a process has from who starts it."""

    folder: str
    environment: dict[str, str]
    paths: list[str]


class ForkedProcess(subprocess.Popen[bytes]):
    """A forked process, as far as its starter deals with it."""

    def __init__(self, status: int) -> None:
        """Take the pipe on which its number and then its exit code are told."""
        self._status = os.fdopen(status, "rb", buffering=0)
        self._child_created = False  # it is no child of ours: nothing to wait for at the end
        self.returncode = None
        self.pid = int(self._status.readline())

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.returncode is None and not select.select([self._status], [], [], 0)[0]:
            with suppress(ProcessLookupError):  # it has just ended, and that is not told yet
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code, or minus the signal that killed it."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a policy's process", timeout or 0.0)
            with self._status:
                self.returncode = int(self._status.readline() or -signal.SIGKILL)
        return int(self.returncode)


class PolicyForks:
    """A process that forks others, one for each policy that is started."""

    def __init__(self) -> None:
        """Start it; it ends when nobody is left who could ask it."""
        self._asking, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env=os.environ | {"PYTHONPATH": os.pathsep.join(one or "." for one in sys.path)},
            )

    def start(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        """Start a policy's process with its end of a socket."""
        told, status = os.pipe()
        here = Surroundings(str(Path.cwd()), dict(os.environ), sys.path)
        try:
            descriptors = [theirs.fileno(), 2, status]
            socket.send_fds(self._asking, [msgspec.json.encode(here)], descriptors)
        finally:
            os.close(status)
        return ForkedProcess(told)

    def install(self) -> None:
        """Let schedulers of this process, and of those forked from it, start policies so."""
        product.start_process = self.start

    def close(self) -> None:
        """Start no more."""
        self._asking.close()
        self._process.kill()  # a scheduler that a test has left could still ask
        self._process.wait()


def serve(number: int) -> None:
    """Fork what is asked for on a socket until nobody can ask any more."""
    import shunter.policy_process.child  # noqa: F401  what all of them import

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    asked = socket.socket(fileno=number)
    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, MESSAGE_BYTES, 3)
        if not message:
            return
        if os.fork() == 0:
            asked.close()
            _keep(msgspec.json.decode(message, type=Surroundings), *descriptors)
        for one in descriptors:
            os.close(one)


def _keep(here: Surroundings, theirs: int, said: int, status: int) -> NoReturn:
    """Fork a policy's process, and tell its number and how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(status)
        os._exit(_think(here, theirs, said, keeper))
    os.close(theirs)
    os.write(status, f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        os.write(status, f"{code}\n".encode())
    except BrokenPipeError:  # whoever had it started is gone
        os._exit(0)
    os._exit(0)


def _think(here: Surroundings, theirs: int, said: int, parent: int) -> int:
    """Be a policy's process; return its exit code."""
    from shunter.policy_process import main

    null = os.open(os.devnull, os.O_RDONLY)
    for kept, instead in ((null, 0), (said, 1), (said, 2)):
        os.dup2(kept, instead)
    os.chdir(here.folder)
    os.environ.clear()
    os.environ.update(here.environment)
    sys.path[:] = here.paths
    sys.argv = ["-c", str(theirs), str(parent)]
    try:
        main()
    except SystemExit as exited:
        return exited.code if isinstance(exited.code, int) else int(exited.code is not None)
    except BaseException:  # noqa: BLE001  it is told, and the process ends
        traceback.print_exc()
        return 1
    return 0
