"""The daemon's end of a conversation with a host: see `shunter.backends.node.far.session`.

Each question has a deadline. One that is not answered in time, or whose connection ends, is
unknown, never failed: a lost connection does not raise by itself, it ends the output.
"""

import json
import secrets
import shlex
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from shunter.backends.node.crashes import crash_point
from shunter.backends.node.heartbeat import uptime_ns
from shunter.backends.ssh.clocks import FarClock
from shunter.backends.ssh.connecting import UnreachedError, hinted
from shunter.backends.ssh.settings import SshHost
from shunter.errors import BackendError

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess

__all__ = ["Conversation", "asked_aside", "conversing"]

Record = dict[str, Any]
READ_BYTES = 1 << 16
NOISE_BYTES_MAX = 1 << 20


class Conversation:
    """Questions and answers over one channel, in any order."""

    def __init__(self, host: SshHost, process: "SSHClientProcess[bytes]") -> None:
        self.greeting: Record = {}
        self.clock = FarClock()
        self.uptime = FarClock()
        self.went_silent = False
        self._host = host
        self._process = process
        self._asked: dict[int, tuple[anyio.Event, list[Record]]] = {}
        self._number = 0
        self._left = b""
        self._ended = ""

    @property
    def is_over(self) -> bool:
        """Whether no question gets an answer any more."""
        return bool(self._ended)

    async def greeted(self, nonce: str) -> None:
        """Read past all noise of a shell up to the greeting.

        Raises:
            UnreachedError: there is none.
        """
        mark, asked = f"\n{nonce} ".encode(), _clocks()
        while mark not in self._left or b"\n" not in self._left.partition(mark)[2]:
            read = await self._process.stdout.read(READ_BYTES)
            if not read or len(self._left) > NOISE_BYTES_MAX:
                raise UnreachedError(await self._silence())
            self._left += read
        line, _, self._left = self._left.partition(mark)[2].partition(b"\n")
        self.greeting = json.loads(line)
        self._set_clocks(self.greeting, asked)

    async def ask(self, do: str, limit_s: float, **fields: Any) -> Record:
        """Ask; return the answer.

        Raises:
            UnreachedError: there is none in time, so what was asked for is unknown.
            BackendError: it could not be done.
        """
        if self._ended:
            raise UnreachedError(self._ended)
        self._number += 1
        number, came, found = self._number, anyio.Event(), list[Record]()
        self._asked[number] = (came, found)
        asked = _clocks()
        try:
            with anyio.fail_after(limit_s):
                line = json.dumps({"id": number, "do": do, **fields})
                crash_point(f"ask {do}")
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()
                crash_point(f"asked {do}")
                await came.wait()
                crash_point(f"answered {do}")
        except (TimeoutError, OSError) as error:
            cause = f"host {self._host.name} did not answer '{do}' within {limit_s:g} s"
            self.went_silent = True
            self._end(cause)
            raise UnreachedError(cause) from error
        finally:
            del self._asked[number]
        if not found:
            raise UnreachedError(self._ended)
        self._set_clocks(found[0], asked)
        if "error" in found[0]:
            raise BackendError(f"host {self._host.name}: {found[0]['error']}", retryable=True)
        return found[0]

    async def listen(self, tell: Callable[[list[Record]], None]) -> str:
        """Hand answers out and news over until the conversation ends; return why it did."""
        import asyncssh

        try:
            while not self._ended:
                *lines, self._left = self._left.split(b"\n")
                for line in lines:
                    self._take(json.loads(line), tell)
                read = await self._process.stdout.read(READ_BYTES)
                if not read:
                    self._end(await self._silence())
                self._left += read
        except (asyncssh.Error, OSError) as error:
            self.went_silent = "keepalive" in str(error)  # only its words tell it apart
            self._end(f"the connection to host {self._host.name} was lost: {error}")
        except ValueError:
            self._end(f"host {self._host.name} said what is no answer")
        finally:
            self._end("the conversation was ended")
        return self._ended

    def local_ns(self, far_ns: int) -> int:
        """Return a reading of the host's monotonic clock as one of ours."""
        return self.clock.ours(far_ns)

    def far_uptime_ns(self) -> int:
        """Return for how long the host has been up by now, its sleep included."""
        return self.uptime.theirs(uptime_ns())

    def _end(self, cause: str) -> None:
        """Give no more answers; who waits for one is told."""
        self._ended = self._ended or cause
        for came, _ in self._asked.values():
            came.set()

    def _take(self, line: Record, tell: Callable[[list[Record]], None]) -> None:
        if "id" in line:
            asked = self._asked.get(line["id"])
            if asked is not None:
                asked[1].append(line)
                asked[0].set()
        elif "changed" in line:
            tell(line["changed"])

    def _set_clocks(self, told: Record, asked: tuple[int, int]) -> None:
        """Note what an answer tells of the host's clocks."""
        came = _clocks()
        self.clock.note(asked[0], told["now_ns"], came[0])
        self.uptime.note(asked[1], told["up_ns"], came[1])

    async def _silence(self) -> str:
        """Return why a host says nothing more, in its own words where it left any."""
        said = b""
        with anyio.move_on_after(1.0):
            said = await self._process.stderr.read(READ_BYTES)
        words, host = said.decode("utf-8", "replace").strip(), self._host
        if not words:
            return f"the connection to host {host.name} was lost"
        return f"host {host.name}: {host.python} ended: {hinted(words)}"


def _clocks() -> tuple[int, int]:
    return time.monotonic_ns(), uptime_ns()


async def asked_aside(
    connection: "SSHClientConnection",
    host: SshHost,
    words: list[str],
    *,
    limit_s: float,
    told: Record | None = None,
) -> Record:
    """Ask in a process of its own, which may take long; return its answer.

    Raises:
        UnreachedError: there is none; without an exit status nothing is known of what was done.
        BackendError: it could not be done.
    """
    import asyncssh

    nonce = secrets.token_hex(8)
    command = " ".join(shlex.quote(word) for word in [host.python, "-I", "-S", *words, nonce])
    content = None if told is None else json.dumps(told).encode()
    try:
        with anyio.fail_after(limit_s):
            ran = await connection.run(command, input=content, encoding=None)
    except (asyncssh.Error, OSError, TimeoutError) as error:
        raise UnreachedError(f"host {host.name} did not answer {words[1]!r}: {error!r}") from error
    out, err = (said if isinstance(said, bytes) else b"" for said in (ran.stdout, ran.stderr))
    if ran.exit_status is None:
        raise UnreachedError(f"the connection to host {host.name} was lost")
    answer = out.rpartition(f"\n{nonce} ".encode())[2]
    if ran.exit_status or not answer:
        words_said = hinted(err.decode("utf-8", "replace"))
        raise BackendError(f"host {host.name}: {words[1]} failed: {words_said}", retryable=True)
    found: Record = json.loads(answer)
    return found


@asynccontextmanager
async def conversing(
    connection: "SSHClientConnection", host: SshHost, path: str, limit_s: float
) -> AsyncIterator[Conversation]:
    """Begin a conversation with the file at a path of a host.

    Raises:
        UnreachedError: the host does not begin it in time.
    """
    import asyncssh

    nonce, base = secrets.token_hex(8), path.rpartition("/")[0]
    words = [host.python, "-I", "-S", path, "serve", base, nonce]
    command = "exec " + " ".join(shlex.quote(word) for word in words)
    try:
        with anyio.fail_after(limit_s):
            process = await connection.create_process(command, encoding=None)
            conversation = Conversation(host, process)
            await conversation.greeted(nonce)
    except (asyncssh.Error, OSError, TimeoutError) as error:
        raise UnreachedError(f"host {host.name} does not begin to talk: {error!r}") from error
    try:
        yield conversation
    finally:
        process.close()
