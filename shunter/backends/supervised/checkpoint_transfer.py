"""Checkpoints that go with a job to another host, where the hosts share no folder.

What the last attempt left on the hosts of its ranks is put together, each file from where it was
written last, and made to lie on every host of the next attempt. The files that a host lacks are
streamed from host to host through this machine without resting on it. On both ends a process of the
job's user reads or writes them (shunter.backends.node.remote.checkpoint_transfer), and what arrives
takes the place of what was there only when all of it is right.
"""

import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import anyio

from shunter.backends.agents.node_agent import NodeAgent
from shunter.backends.agents.settings import Limits, Owner
from shunter.backends.agents.transport import (
    AgentProcess,
    Link,
    UnreachedError,
    hinted,
)
from shunter.backends.node.failpoints import failpoint
from shunter.backends.node.messages.wire import Entry, Manifest
from shunter.backends.supervised.gangs.gang_checkpoints import Joined, joined
from shunter.backends.supervised.orders import checkpoints_of
from shunter.errors import BackendError
from shunter.events.values.ids import JobId, NodeName, UserName

__all__ = ["CheckpointTransfer"]

READ_BYTES = 1 << 18
NOISE_BYTES_MAX = 1 << 20
ANSWER_BYTES_MAX = 1 << 28
COMMIT = b"commit\n"


class CheckpointTransfer:
    """Brings checkpoints to where a job runs next."""

    def __init__(self, limits: Limits, owner: Owner, agents: Mapping[NodeName, NodeAgent]) -> None:
        self._limits = limits
        self._owner = owner
        self._agents = agents

    async def bring(
        self,
        job_id: JobId,
        attempt: int,
        user: UserName,
        sources: Sequence[tuple[NodeName, ...]],
        targets: tuple[NodeName, ...],
    ) -> None:
        """Have the newest checkpoints, of all ranks, on all hosts of an attempt.

        Args:
            job_id: whose.
            attempt: the next.
            user: who owns them, on hosts where we are root.
            sources: the hosts of earlier attempts in order of rank, the newest attempt first,
                without those that are lost.
            targets: the hosts of the next.
        Raises:
            BackendError: they cannot be brought there now, or a host that may have the newest does
                not answer.
        """
        if self._limits.checkpoints:
            return
        for nodes in sources:
            if nodes == targets and len(nodes) == 1:
                return  # a gang's hosts have the files of their own rank only, each of them
            for node in nodes:
                if not self._agents[node].is_up:  # an older one would shadow it for ever
                    raise UnreachedError(self._agents[node].cause)
            told = [(node, await self._manifest(job_id, user, node)) for node in nodes]
            entries = joined(told)
            if any(path for path in entries):
                for target in targets:
                    await self._bring(job_id, attempt, user, entries, target)
                return

    async def _manifest(self, job_id: JobId, user: UserName, node: NodeName) -> Manifest:
        found: Manifest = await self._ask("manifest", job_id, user, node)
        return found

    async def _digests(
        self, job_id: JobId, user: UserName, node: NodeName, paths: list[str]
    ) -> Mapping[str, str]:
        """Return the digests of files on a host, of those that can be read."""
        answer = await self._ask("digest", job_id, user, node, {"paths": paths})
        digests: dict[str, str] = answer["digests"]
        return digests

    async def _ask(
        self,
        verb: str,
        job_id: JobId,
        user: UserName,
        node: NodeName,
        told: Mapping[str, object] | None = None,
    ) -> Any:
        async with (
            self._agents[node].programs() as link,
            self._begun(link, verb, job_id, user, node) as process,
        ):
            if told is not None:
                await process.write(json.dumps(told).encode())
            await process.end_input()
            return await process.answer()

    async def _bring(
        self, job_id: JobId, attempt: int, user: UserName, entries: Joined, target: NodeName
    ) -> None:
        """Make the folder on one host hold these entries, or leave it as it was."""
        kept = await self._kept(job_id, user, entries, target)
        streams: dict[NodeName, list[str]] = {}
        names: dict[tuple[NodeName, str], str] = {}
        listed: list[Entry] = []
        for path, (node, entry) in entries.items():
            same = names.setdefault((node, entry["inode"]), path) if entry["inode"] else path
            origin = ""
            if entry["kind"] == "file" and same == path:
                origin = "here" if node == target or path in kept else "stream"
            if origin == "stream":
                streams.setdefault(node, []).append(path)
            listed.append({**entry, "from": origin, "same": same if same != path else None})
        transfer = {
            "generation": attempt,
            "entries": listed,
            "received": [path for paths in streams.values() for path in paths],
        }
        try:
            await self._transfer(job_id, user, transfer, streams, target)
        except BackendError as error:
            kind = UnreachedError if isinstance(error, UnreachedError) else _failed
            cause = f"the checkpoint of job {job_id} cannot be copied to {target}: {error}"
            raise kind(cause) from error
        failpoint(f"received checkpoints of {job_id}")

    async def _kept(
        self, job_id: JobId, user: UserName, entries: Joined, target: NodeName
    ) -> set[str]:
        """Return the files of other hosts that need not be sent to a host."""
        there = {
            each["path"]: each for each in (await self._manifest(job_id, user, target))["entries"]
        }
        same: dict[NodeName, list[str]] = {}
        for path, (node, entry) in entries.items():
            if node != target and entry["kind"] == "file" and _looks_same(there.get(path), entry):
                same.setdefault(node, []).append(path)
        kept: set[str] = set()
        for node, paths in same.items():
            wanted = await self._digests(job_id, user, node, paths)
            found = await self._digests(job_id, user, target, paths)
            kept |= {path for path in paths if found.get(path) == wanted.get(path, "")}
        return kept

    async def _transfer(
        self,
        job_id: JobId,
        user: UserName,
        transfer: Mapping[str, object],
        streams: Mapping[NodeName, list[str]],
        target: NodeName,
    ) -> None:
        async with AsyncExitStack() as open_here:
            # In order of name: transfers in opposite directions must not wait for each other's
            # programs, of which few run on a node.
            links = {
                node: await open_here.enter_async_context(self._agents[node].programs())
                for node in sorted({target, *streams})
            }
            receiving = await open_here.enter_async_context(
                self._begun(links[target], "receive", job_id, user, target)
            )
            try:
                content = json.dumps(transfer).encode()
                await receiving.write(len(content).to_bytes(8, "big") + content)
                for node, paths in streams.items():
                    async with self._begun(links[node], "stream", job_id, user, node) as sending:
                        await sending.write(json.dumps({"paths": paths}).encode())
                        await sending.end_input()
                        await sending.pour(receiving)
            except _NotTakenError:
                pass  # it says why
            except BackendError:
                await receiving.end_input()
                with suppress(BackendError):  # until it has removed what arrived
                    await receiving.answer()
                raise
            await receiving.answer()
            failpoint(f"copied checkpoints of {job_id}")
            await receiving.write(COMMIT)
            await receiving.end_input()
            await receiving.answer()

    @asynccontextmanager
    async def _begun(
        self, link: Link, verb: str, job_id: JobId, user: UserName, node: NodeName
    ) -> AsyncIterator["_Verb"]:
        """Begin a verb of the agent of a node; it is over at the end.

        Raises:
            UnreachedError: the agent does not begin it.
        """
        nonce, limit_s = secrets.token_hex(8), self._limits.call_s
        folder = checkpoints_of(self._limits, self._owner, self._agents[node].root, job_id)
        try:
            with anyio.fail_after(limit_s):
                process = await link.begin(verb, folder, user, nonce)
        except (OSError, TimeoutError) as error:
            raise UnreachedError(f"host {node} does not begin to {verb}: {error!r}") from error
        try:
            yield _Verb(node, verb, process, nonce, limit_s)
        finally:
            await process.aclose()


class _Verb:
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
            _NotTakenError: it has ended, and may say why.
            UnreachedError: its host takes nothing any more.
        """
        try:
            with anyio.fail_after(self._limit_s):
                await self._process.write(content)
        except TimeoutError as error:
            raise self._silent() from error
        except OSError as error:
            raise _NotTakenError(str(error)) from error

    async def end_input(self) -> None:
        """Say that there is no more input."""
        await self._process.end_input()

    async def answer(self) -> Any:
        """Return its next answer.

        Raises:
            UnreachedError: the host tells none.
            BackendError: it could not be done.
        """
        await self._reach_mark()
        parts = [self._left]
        while b"\n" not in parts[-1]:
            parts.append(await self._read())
            if not parts[-1] or sum(map(len, parts)) > ANSWER_BYTES_MAX:
                raise await self._failure()
        line, _, self._left = b"".join(parts).partition(b"\n")
        self._left = b"\n" + self._left  # a mark begins with one
        try:
            found = json.loads(line)
        except ValueError as error:
            raise _failed(f"host {self._name} said what is no answer") from error
        if "error" in found:
            raise _failed(f"host {self._name}: {found['error']}")
        return found

    async def pour(self, receiving: "_Verb") -> None:
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
        return _failed(f"host {self._name}: {self._verb} failed: {words}")


class _NotTakenError(UnreachedError):
    """A process has ended that was to be handed more; what it answered says why."""


def _looks_same(there: Entry | None, entry: Entry) -> bool:
    return there is not None and _told_of(there) == _told_of(entry)


def _told_of(entry: Entry) -> tuple[object, ...]:
    return entry["kind"], entry["size"], entry["mtime_ns"], entry["mode"]


def _failed(cause: str) -> BackendError:
    return BackendError(cause, retryable=True)
