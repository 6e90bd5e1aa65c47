"""One process that thinks for the daemon: started, asked with a deadline, and ended.

A question that is not answered in time ends the process, as does anything it says that is no
answer. The loop of the daemon never waits in it: others go on while a plan is made.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio
import msgspec

from shunter.daemon.policy_process.ahead import Child, taken
from shunter.daemon.policy_process.messages import HEADER, REPLY, DryRun, Failed, Reply, Request
from shunter.errors import PlanError

R = TypeVar("R")

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from shunter.daemon.policy_process.child import main; main()"
)
END_S = 5.0
REPLY_BYTES_MOST = 64 << 20


def start_process(theirs: socket.socket) -> subprocess.Popen[bytes]:
    """Start the process, with its end of the socket."""
    path = msgspec.json.encode([one or str(Path.cwd()) for one in sys.path]).decode()
    words = [sys.executable, "-c", BOOT, str(theirs.fileno()), str(os.getpid()), path]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(theirs.fileno(),))


class Replies:
    """One end of a socket on which replies come."""

    def __init__(self, ours: socket.socket) -> None:
        ours.settimeout(0)
        self._socket = ours
        self._received = bytearray()

    async def reply(self) -> Reply:
        """Wait for the reply; one that is given up may be waited for again.

        Raises:
            PlanError: the process has ended, or what it says is no reply.
        """
        while (body := self._whole()) is None:
            try:
                part = self._socket.recv(1 << 20)
            except BlockingIOError:
                with suppress(anyio.ClosedResourceError):  # which the next look at it says
                    await anyio.wait_readable(self._socket)
                continue
            except OSError:
                part = b""
            if not part:
                raise self._gone()
            self._received += part
        try:
            found = REPLY.decode(body)
        except msgspec.MsgspecError as error:
            raise PlanError(f"its process said what is no answer: {error}") from error
        if isinstance(found, Failed):
            raise PlanError(found.cause)
        return found

    def close(self) -> None:
        """Take no more replies; who waits for one is told that there is none."""
        with suppress(RuntimeError):  # without a loop nobody waits
            anyio.notify_closing(self._socket)
        self._socket.close()

    def _whole(self) -> bytes | None:
        """Take a whole reply out of what has been received.

        Raises:
            PlanError: it has more bytes than are held of one.
        """
        if len(self._received) < HEADER.size:
            return None
        size = HEADER.size + int(HEADER.unpack_from(self._received)[0])
        if size > REPLY_BYTES_MOST:
            raise PlanError(
                f"its process says {size:,} bytes at once, and {REPLY_BYTES_MOST >> 20} MiB at "
                "most are taken: a plan or the policy's memory is far too large"
            )
        if len(self._received) < size:
            return None
        body = bytes(self._received[HEADER.size : size])
        del self._received[:size]
        return body

    def _gone(self) -> PlanError:
        """Say how that ended from which replies came."""
        return PlanError("its process closed its connection")


class PolicyProcess(Replies):
    """A process with a socket to it; `close` ends it."""

    def __init__(self) -> None:
        self._process: Child
        if forked := taken():
            ours, self._process = forked
        else:
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = start_process(theirs)
        super().__init__(ours)

    async def send(self, request: Request, descriptors: Sequence[int] = ()) -> None:
        """Send a request, and descriptors with it; the one before has been answered.

        Raises:
            PlanError: the process has ended.
        """
        body = msgspec.msgpack.encode(request)
        rest = memoryview(HEADER.pack(len(body)) + body)
        while rest:
            try:
                if descriptors:
                    rest = rest[socket.send_fds(self._socket, [rest], descriptors) :]
                    descriptors = ()
                else:
                    rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except OSError:
                raise self._gone() from None

    async def dry_run(self, request: DryRun) -> Replies:
        """Ask for a dry run, in a copy of the process; return where its reply comes.

        Raises:
            PlanError: the process has ended.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            await self.send(request, [theirs.fileno()])
        return Replies(ours)

    def close(self) -> None:
        """End the process, whatever it is at."""
        super().close()
        self._process.kill()
        self._process.wait()

    def _gone(self) -> PlanError:
        """Say how the process ended."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return super()._gone()
        if code >= 0:
            return PlanError(f"its process ended with exit code {code}")
        return PlanError(f"its process was ended by {signal.Signals(-code).name}")
