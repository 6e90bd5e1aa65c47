"""A verb about checkpoints at work on a host: what it is told, and what it answers."""

import json
from typing import Any

import anyio

from shunter.backends.agents.answers import ERROR_CHARACTERS
from shunter.backends.agents.transport import AgentProcess, UnreachedError, hinted
from shunter.backends.node.host.file_trees import RECORD_BYTES_MAX
from shunter.backends.node.messages import cleaned
from shunter.errors import BackendError

READ_BYTES = 1 << 18
NOISE_BYTES_MAX = 1 << 20


class CheckpointVerb:
    """A verb that runs on a host.

    Each read and write has a deadline, the whole has none: it may be of any size.
    """

    def __init__(
        self,
        name: str,
        verb: str,
        process: AgentProcess,
        nonce: str,
        limit_s: float,
    ) -> None:
        self._name, self._verb, self._limit_s = name, verb, limit_s
        self._process = process
        self._mark = f"\n{nonce} ".encode()
        self._left = b""

    async def write(self, content: bytes) -> None:
        """Hand it more of its input.

        Raises:
            NotTakenError: it has ended, and may say why.
            UnreachedError: its host takes nothing any more.
        """
        try:
            with anyio.fail_after(self._limit_s):
                await self._process.write(content)
        except TimeoutError as error:
            raise self._silent() from error
        except OSError as error:
            raise NotTakenError(str(error)) from error

    async def end_input(self) -> None:
        """Say that there is no more input."""
        await self._process.end_input()

    async def answer(self) -> Any:
        """Return its next answer.

        Raises:
            UnreachedError: the host tells none.
            BackendError: it could not be done.
        """
        return read_answer(self._name, await self.answer_line())

    async def answer_line(self) -> bytes:
        """Return its next answer as it is.

        Raises:
            UnreachedError: the host tells none.
            BackendError: it ended without one.
        """
        await self._reach_mark()
        parts = [self._left]
        while b"\n" not in parts[-1]:
            parts.append(await self._read())
            if not parts[-1] or sum(map(len, parts)) > RECORD_BYTES_MAX:
                raise await self._failure()
        line, _, self._left = b"".join(parts).partition(b"\n")
        self._left = b"\n" + self._left  # a mark begins with one
        return line

    async def pour(self, receiving: "CheckpointVerb") -> None:
        """Hand all of its output to another.

        Raises:
            UnreachedError: its host tells no more.
            BackendError: it ended before all was told.
        """
        await self._reach_mark()
        piece = self._left
        while True:
            if piece:
                await receiving.write(piece)
            piece = await self._read()
            if not piece:
                break
        if await self._status() != 0:
            raise await self._failure()

    async def _reach_mark(self) -> None:
        """Read past what a shell has printed, and the empty lines of who works."""
        while self._mark not in self._left:
            read = await self._read()
            if not read or len(self._left) > NOISE_BYTES_MAX:
                raise await self._failure()
            self._left += read
        self._left = self._left.partition(self._mark)[2]

    async def _read(self) -> bytes:
        try:
            with anyio.fail_after(self._limit_s):
                return await self._process.read(READ_BYTES)
        except TimeoutError as error:
            raise self._silent() from error
        except OSError as error:
            raise UnreachedError(f"the connection to host {self._name} was lost") from error

    async def _status(self) -> int | None:
        with anyio.move_on_after(self._limit_s):
            return await self._process.status()
        return None

    def _silent(self) -> UnreachedError:
        waited = f"within {self._limit_s:g} s"
        return UnreachedError(f"host {self._name} did not go on with '{self._verb}' {waited}")

    async def _failure(self) -> BackendError:
        """Return why it ended without an answer, in its own words where it left any."""
        said = await self._process.complaint()
        if await self._status() is None:
            return UnreachedError(f"the connection to host {self._name} was lost")
        words = hinted(said.decode("utf-8", "replace"))
        return failed(f"host {self._name}: {self._verb} failed: {words}")


class NotTakenError(UnreachedError):
    """A process has ended that was to be handed more; what it answered says why."""


class StaysError(BackendError):
    """A checkpoint is too large to be copied: its job goes on where that lies."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


def read_answer(node: str, line: bytes) -> Any:
    """Return an answer of a host.

    Raises:
        StaysError: it says that there is more than is copied.
        BackendError: it is none, or says what went wrong.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise failed(f"host {node} said what is no answer") from error
    if not isinstance(found, dict):
        raise failed(f"host {node} said what is no answer")
    if "error" in found:
        kind = StaysError if found.get("is_too_large") is True else failed
        raise kind(f"host {node}: {cleaned(found['error'], ERROR_CHARACTERS)}")
    return found


def failed(cause: str) -> BackendError:
    """Return what says that a checkpoint cannot be copied now."""
    return BackendError(cause, retryable=True)
