"""How an agent is reached: programs of it are begun on its node, and talk over three pipes.

A transport knows one agent and the servers it works for. Opening it gives a link, over which the
session and whatever else is asked in a process of its own are begun. A link that is lost does not
raise by itself: what was begun over it ends without an exit status. After the protocols come
children of the daemon, and the one file for hosts without Shunter.
"""

import io
import json
import marshal
import os
import secrets
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from hashlib import sha256
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Protocol, TypeVar

import anyio
from anyio.abc import Process

from shunter.backends import node
from shunter.backends.live.settings import Socket
from shunter.backends.node import (
    Shape,
    WrongMessageError,
    command,
    create_private,
    own_folder,
    parsed,
)
from shunter.errors import BackendError
from shunter.events import NodeName

T = TypeVar("T")
READ_BYTES = 1 << 18
ANSWER_BYTES_MOST = 4 << 20
"""Of a verb that runs in a process of its own: an eighth of a second to parse."""
NO_DEVICE = ""
"""Stands for a unit of CPU among the names of GPUs."""


class UnreachedError(BackendError):
    """An agent does not answer, or not as it should; what was asked of it is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class TooMuchSaidError(Exception):
    """A program prints more than is held of it."""


class Server(Protocol):
    """A server of an agent.

    Its GPUs are named as CUDA does (index or UUID), its CPUs by number. Where it has units of CPU
    in place of GPUs, each of them is `NO_DEVICE`. Without `sockets` nobody says which CPUs are near
    to which GPUs.
    """

    @property
    def name(self) -> NodeName: ...

    @property
    def gpus(self) -> tuple[str, ...]: ...

    @property
    def cpus(self) -> tuple[int, ...]: ...

    @property
    def sockets(self) -> tuple[Socket, ...]: ...


class AgentProcess(Protocol):
    """A program of the agent that was begun on its node.

    What is lost raises OSError (`write`), or ends the output (`read`); the status is None then.
    """

    async def read(self, most: int) -> bytes:
        """Return what it has printed; nothing once it has ended."""

    async def write(self, content: bytes) -> None:
        """Hand it more of its input."""

    async def end_input(self) -> None:
        """Say that there is no more input."""

    async def complaint(self) -> bytes:
        """Return what it has printed on stderr."""

    async def status(self) -> int | None:
        """Return what it exited with, once it has; None if that is unknown."""

    async def aclose(self) -> None:
        """Let go of it, wherever it is."""


class Link(Protocol):
    """An open way to an agent."""

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        """Begin a verb of the agent; see `shunter.backends.node.verbs`.

        Raises:
            OSError: it cannot be begun.
        """

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Begin a session below a folder; return it, and the nonce that it greets with.

        Raises:
            OSError: it cannot be begun.
        """


class Transport(Protocol):
    """How one agent is reached, and what is fixed of its node.

    `address` is what the ranks of a gang on other nodes call it. `cgroup` is a control group there
    that is ours to divide (None: the one the agent finds itself in). `is_here` says that it is on
    this machine: its clock is ours, and it sleeps when we do. `is_on_demand` says that its servers
    come and go: one that is silent is lost only if something may run there. `reason` says why
    nobody is there, where a transport knows more than that; it may change at any time.
    """

    name: NodeName
    servers: Sequence[Server]
    address: str
    environment: Mapping[str, str]
    cgroup: str | None
    folder: str
    is_here: bool
    is_on_demand: bool
    reason: str

    def opened(self) -> AbstractAsyncContextManager[Link]:
        """Reach the agent.

        Raises:
            UnreachedError: it cannot be reached in time.
        """

    async def answers(self) -> bool:
        """Return whether there is anybody at all; it may take seconds to tell."""


async def run_verb(
    link: Link,
    name: str,
    words: Sequence[str],
    *,
    limit_s: float,
    shape: Shape[T],
    told: Mapping[str, object] | None = None,
) -> T:
    """Run a verb of the agent in a process of its own; return its answer.

    Raises:
        UnreachedError: there is none; without an exit status nothing is known of what was done.
        BackendError: it could not be done, or its answer has more than ANSWER_BYTES_MOST bytes.
    """
    nonce, verb = secrets.token_hex(8), words[0]
    try:
        with anyio.fail_after(limit_s):
            process = await link.begin(*words, nonce)
            try:
                if told is not None:
                    with suppress(BrokenPipeError):  # one that ended unread says itself why
                        await process.write(json.dumps(told).encode())
                await process.end_input()
                said = await read_all(process.read, ANSWER_BYTES_MOST)
                status, complaint = await process.status(), await process.complaint()
            finally:
                await process.aclose()
    except TooMuchSaidError as error:
        raise BackendError(f"host {name}: the answer to {verb!r} {error}", retryable=True) from None
    except (OSError, TimeoutError) as error:
        raise UnreachedError(f"host {name} did not answer {verb!r}: {error!r}") from error
    if status is None:
        raise UnreachedError(f"the connection to host {name} was lost")
    _, mark, answer = said.rpartition(f"\n{nonce} ".encode())
    if status or not mark or not answer:
        words_said = hinted(complaint.decode("utf-8", "replace"))
        raise BackendError(f"host {name}: {verb} failed: {words_said}", retryable=True)
    try:
        return shape(parsed(answer))
    except WrongMessageError as error:
        raise BackendError(f"host {name}: no answer to {verb!r}: {error}") from None


async def read_all(read: Callable[[int], Awaitable[bytes]], most: int) -> bytes:
    """Return all that a program prints.

    Args:
        read: returns the next bytes, at most so many; nothing at the end.
        most: how many bytes are held.
    Raises:
        TooMuchSaidError: there are more.
    """
    pieces, size = [], 0
    while piece := await read(READ_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise TooMuchSaidError(f"has more than {most:,} bytes")
    return b"".join(pieces)


def hinted(said: str) -> str:
    """Return what a host's Python said last, and what helps if it is too old."""
    words = json.dumps(said.strip()[-300:])
    return (
        f"{words}: it is older than 3.8: name another, python = PATH" if is_too_old(said) else words
    )


def is_too_old(said: str) -> bool:
    """Say whether that is what a Python before 3.8 says of the agent."""
    if "null bytes" in said:  # a file of the agent that is damaged, which any Python says
        return False
    return any(mark in said for mark in ("SyntaxError", "Unknown option: -I"))


# Programs of the agent as children of the daemon.

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


# The agent as a zip application, for hosts without Shunter (docs/decisions/live.md).
#
# It holds code compiled by this Python next to each module; other versions pass over it (PEP 552,
# not checked against the source). Nothing is compressed, dates are fixed and names sorted, so the
# same sources give the same bytes, and a host that has a file of this digest needs no other.

NODE = Path(node.__file__).parent
NOT_PACKED = ("host/base_folder.py",)
"""What comes over stdin instead."""
PACKAGES = ("shunter", "shunter/backends")
IN_ZIP = "shunter/backends/node"
FIRST_DATE = (1980, 1, 1, 0, 0, 0)  # zip files know none before it
UNIX, MODE = 3, 0o100644
UNCHECKED = (1).to_bytes(4, "little")
WITHOUT_REFERENCES = 2
"""The format of marshal before references, which hang on what else a process holds."""
MAIN = """\
import sys

if sys.version_info < (3, 8):
    raise SyntaxError("the agent of Shunter needs Python 3.8 or later")

from shunter.backends.node.verbs import main

main()
"""


def zip_application() -> bytes:
    """Return the file; it needs the standard library of Python 3.8 or later."""
    packed = {f"{name}/__init__.py": b"" for name in PACKAGES}
    packed["__main__.py"] = MAIN.encode()
    for path in sorted(NODE.rglob("*.py")):
        name = path.relative_to(NODE).as_posix()
        if name not in NOT_PACKED:
            packed[f"{IN_ZIP}/{name}"] = source = path.read_bytes()
            with suppress(ValueError):  # newer versions of Python may have what it cannot say
                packed[f"{IN_ZIP}/{name}c"] = _compiled(source, f"{IN_ZIP}/{name}")
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name in sorted(packed):
            about = zipfile.ZipInfo(name, FIRST_DATE)
            about.create_system, about.external_attr = UNIX, MODE << 16
            archive.writestr(about, packed[name])
    return written.getvalue()


def _compiled(source: bytes, name: str) -> bytes:
    """Return what Python keeps of a module in its cache.

    Raises:
        ValueError: the format without references does not know something in it.
    """
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    head = MAGIC_NUMBER + UNCHECKED + source_hash(source)
    return head + marshal.dumps(code, WITHOUT_REFERENCES)


def installer() -> bytes:
    """Return the program that puts the file on a host: see host/base_folder.py."""
    source = (NODE / "host/base_folder.py").read_bytes()
    return source + b"\n\ninstall(*sys.argv[3:])\n"


def install_shared(folder: str) -> str:
    """Put the file into a folder that other machines share; return its path.

    Raises:
        OSError: it cannot be written.
    """
    content = zip_application()
    own_folder(folder)
    path = Path(folder) / f"shunter-{digest(content)}.pyz"
    if not path.exists() or path.read_bytes() != content:
        fresh = path.with_suffix(f".{os.getpid()}")
        with create_private(str(fresh)) as file:
            file.buffer.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    return str(path)


def digest(content: bytes) -> str:
    """Return what the file is named by: 16 hexadecimal digits of its SHA-256."""
    return sha256(content).hexdigest()[:16]
