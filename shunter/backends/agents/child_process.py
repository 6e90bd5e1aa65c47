"""Programs of the agent that run on this machine, as children of the daemon."""

import os
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO

import anyio
from anyio.abc import Process

from shunter.backends.agents.transport import AgentProcess
from shunter.backends.node.verbs import command

COMPLAINT_BYTES = 1 << 16


async def begin_here(verb: str, *words: str) -> AgentProcess:
    """Begin a verb of the agent on this machine, from the files of the package.

    Raises:
        OSError: it cannot be begun.
    """
    with TemporaryFile() as complaints:
        with anyio.CancelScope(shield=True):  # half started, it would be ended by nobody
            process = await anyio.open_process(
                command(verb, *words), stderr=complaints, start_new_session=True
            )
        return _ChildProcess(process, os.fdopen(os.dup(complaints.fileno()), "rb"))


class _ChildProcess:
    """A program of the agent that runs as our child."""

    def __init__(self, process: Process, complaints: IO[bytes]) -> None:
        self._process = process
        self._complaints = complaints

    async def read(self, most: int) -> bytes:
        assert self._process.stdout is not None, "its output is a pipe"
        try:
            return await self._process.stdout.receive(most)
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return b""

    async def write(self, content: bytes) -> None:
        assert self._process.stdin is not None, "its input is a pipe"
        try:
            await self._process.stdin.send(content)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise BrokenPipeError("it has ended") from error

    async def end_input(self) -> None:
        if self._process.stdin is not None:
            await self._process.stdin.aclose()

    async def complaint(self) -> bytes:
        self._complaints.seek(0)
        return self._complaints.read(COMPLAINT_BYTES)

    async def status(self) -> int | None:
        return await self._process.wait()

    async def aclose(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        with anyio.CancelScope(shield=True):  # it dies at once, and is not left unburied
            await self._process.aclose()
        self._complaints.close()
