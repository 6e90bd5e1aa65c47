"""Checkpoints that go with a job to another host, where the hosts share no folder.

What the last attempt left on the hosts of its ranks is put together, each file from where it was
written last, and made to lie on every host of the next attempt. The files that a host lacks are
streamed from host to host through this machine without resting on it. On both ends a process of the
job's user reads or writes them (shunter.backends.node.host.checkpoint_transfer), and what arrives
takes the place of what was there only when all of it is right.
"""

import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from shunter.backends.live.checkpoint_lists import (
    FileLists,
    StaysError,
    TooManyEntriesError,
    failed,
    key_of,
    path_of,
    read_answer,
    record_of,
)
from shunter.backends.live.node_agent import NOISE_BYTES_MAX, PROGRAMS, NodeAgent
from shunter.backends.live.orders import checkpoints_of
from shunter.backends.live.settings import Limits, Owner
from shunter.backends.live.transport import AgentProcess, Link, UnreachedError, hinted
from shunter.backends.node import failpoint
from shunter.backends.node.host import (
    COMMIT,
    END,
    RECORD_BYTES_MAX,
    TOO_MUCH,
    listings,
    packed,
    pieces,
)
from shunter.errors import BackendError
from shunter.events import JobId, NodeName, UserName

READ_BYTES = 1 << 18


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


DIGEST_MOST = 64
_JOINED = (
    "FROM listed LEFT JOIN several_names AS names USING (host, inode)"
    " LEFT JOIN alike USING (host, path) WHERE listed.is_chosen"
)
_IS_FIRST = "coalesce(names.path, listed.path) = listed.path"
_IS_SENT = f"listed.kind = 'file' AND listed.host != ? AND alike.is_same IS NOT 1 AND {_IS_FIRST}"
_ROWS = f"""
SELECT listed.path, listed.kind, listed.mode, listed.mtime_ns, listed.size, listed.target,
    listed.inode,
    CASE WHEN {_IS_SENT} THEN 'stream' WHEN listed.kind = 'file' AND {_IS_FIRST} THEN 'here'
    ELSE '' END,
    iif({_IS_FIRST}, NULL, names.number)
{_JOINED} ORDER BY listed.path
"""
_SENT_BY = f"SELECT listed.path {_JOINED} AND {_IS_SENT} AND listed.host = ? ORDER BY listed.path"
_LOOKS_SAME = """
INSERT OR IGNORE INTO alike SELECT host, path, NULL, NULL FROM listed
WHERE path = ? AND is_chosen AND (kind, mode, mtime_ns, size) = (?, ?, ?, ?) AND host != ?
"""
_NEXT = "SELECT path FROM alike WHERE host = ? AND path > ? ORDER BY path LIMIT ?"
_DIGESTS = {
    False: "UPDATE alike SET digest = ? WHERE host = ? AND path = ?",
    True: "UPDATE alike SET is_same = (digest = ?) WHERE host = ? AND path = ?",
}


class CopyPlan:
    """What one host is to get of joined lists.

    Args:
        lists: those, joined.
        target: the host.
    """

    def __init__(self, lists: FileLists, target: NodeName) -> None:
        self._lists, self._run = lists, lists.database.execute
        self._target, self._number = target, lists.number_of(target)
        self._run("DELETE FROM alike")
        self._last: dict[tuple[NodeName, bool], bytes] = {}

    def compare(self, line: bytes) -> bool:
        """Note which files the target seems to have; return whether that was all.

        Args:
            line: a record of what it lists.
        Raises:
            BackendError: it is none.
        """
        record = record_of(self._target, line)
        try:
            values = [
                (key_of(entry.path), *entry[1:5], self._number)
                for entry in record.entries
                if entry.kind == "file"
            ]
        except ValueError as error:
            raise failed(f"host {self._target} said what is no list of files") from error
        self._lists.database.executemany(_LOOKS_SAME, values)
        return record.is_last

    def alike(self) -> Sequence[NodeName]:
        """Return whose files the target seems to have."""
        found = self._run("SELECT DISTINCT host FROM alike ORDER BY host").fetchall()
        return [self._lists.name_of(host) for (host,) in found]

    def alike_paths(self, node: NodeName) -> Iterator[Mapping[str, object]]:
        """Yield records of the files of a host that the target seems to have."""
        rows = "SELECT path FROM alike WHERE host = ? ORDER BY path"
        return self._paths(rows, self._lists.number_of(node))

    def take_digests(self, node: NodeName, line: bytes, *, is_target: bool) -> bool:
        """Take in digests of the files of `alike_paths`; return whether those were all.

        Args:
            node: whose files those are.
            line: a record of digests in that order, None of what cannot be read.
            is_target: whether they are those of the target, which come last.
        Raises:
            BackendError: it is no such record.
        """
        said = self._target if is_target else node
        answer = read_answer(said, line)
        if "digests" not in answer:
            return True
        digests, host = answer["digests"], self._lists.number_of(node)
        after = self._last.get((node, is_target), b"")
        if not (isinstance(digests, list) and digests) or not all(
            each is None or (isinstance(each, str) and len(each) <= DIGEST_MOST and each.isascii())
            for each in digests
        ):
            raise failed(f"host {said} said what are no digests")
        paths = self._run(_NEXT, (host, after, len(digests))).fetchall()
        if len(paths) != len(digests):
            raise failed(f"host {said} said more digests than it was asked for")
        values = [(digest, host, path) for (path,), digest in zip(paths, digests, strict=True)]
        self._lists.database.executemany(_DIGESTS[is_target], values)
        if paths:
            self._last[node, is_target] = paths[-1][0]
        return False

    def senders(self) -> Sequence[NodeName]:
        """Return who sends files, in the order in which they come."""
        rows = f"SELECT DISTINCT listed.host {_JOINED} AND {_IS_SENT} ORDER BY listed.host"
        return [self._lists.name_of(host) for (host,) in self._run(rows, (self._number,))]

    def sent_paths(self, node: NodeName) -> Iterator[Mapping[str, object]]:
        """Yield records of the files that a host sends, in the order in which they come."""
        return self._paths(_SENT_BY, self._number, self._lists.number_of(node))

    def _paths(self, rows: str, *values: int) -> Iterator[Mapping[str, object]]:
        for part in pieces(path_of(key) for (key,) in self._run(rows, values)):
            yield {"paths": part}

    def records(self, generation: int) -> Iterator[Mapping[str, object]]:
        """Yield what the target is told: all entries, and in which order files come."""
        rows = self._run(_ROWS, (self._number,))
        yield from listings((path_of(key), fields) for key, *fields in rows)
        for node in self.senders():
            for record in self.sent_paths(node):
                yield {"received": record["paths"]}
        yield {"generation": generation}


T = TypeVar("T")
Records = Iterator[Mapping[str, object]]
LINE_BYTES_FEW = 1 << 16
"""A record of more bytes is read in a thread."""
LARGE_AT_ONCE = PROGRAMS // 2
"""Of checkpoints of many files so many are copied at once from or to a host, others beside them."""


class CheckpointTransfer:
    """Brings checkpoints to where a job runs next."""

    def __init__(self, limits: Limits, owner: Owner, agents: Mapping[NodeName, NodeAgent]) -> None:
        self.limits, self.owner, self.agents = limits, owner, agents
        # One thread for all lists: several would keep the event loop from its turns.
        self.thread = anyio.CapacityLimiter(1)
        self.large: dict[NodeName, anyio.Semaphore] = {}

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
        if self.limits.checkpoints:
            return
        for nodes in sources:
            if nodes == targets and len(nodes) == 1:
                return  # a gang's hosts have the files of their own rank only, each of them
            for node in nodes:
                if not self.agents[node].is_up:  # an older one would shadow it for ever
                    raise UnreachedError(self.agents[node].cause)
            try:
                with closing(FileLists()) as lists:
                    if await _Copy(self, lists, job_id, attempt, user).bring(nodes, targets):
                        return
            except sqlite3.Error as error:
                where = "a temporary file of this machine (in SQLITE_TMPDIR, TMPDIR or /var/tmp)"
                why = f"the list of its files cannot be kept in {where}: {error}"
                raise failed(f"the checkpoint of job {job_id} cannot be copied: {why}") from error


@dataclass(frozen=True, slots=True)
class _Copy:
    """The copying of what an attempt of a job has left, for its next one."""

    to: CheckpointTransfer
    lists: FileLists
    job_id: JobId
    attempt: int
    user: UserName

    async def bring(self, nodes: tuple[NodeName, ...], targets: tuple[NodeName, ...]) -> bool:
        """Bring what some hosts have to others; return whether that is anything."""
        for node in nodes:
            await self._add_list(node, is_alone=len(nodes) == 1)
        if not await self._worked(self.lists.join):
            return False
        for target in targets:
            await self._bring(target)
        return True

    async def _add_list(self, node: NodeName, *, is_alone: bool) -> None:
        """Add what a host lists to what others have listed.

        Raises:
            StaysError: it is more than is copied.
            BackendError: it cannot be listed.
        """
        self.lists.begin(node)
        not_copied = f"the checkpoint of job {self.job_id} cannot be copied to another host"
        try:
            await self._list(self.lists.take, node)
        except TooManyEntriesError as error:
            places = [
                f"{each}:{self._folder(each)} ({count:,} listed)"
                for each, count in self.lists.sizes
            ]
            why = f"{', '.join(places)} have together {error}; {TOO_MUCH}"
            raise StaysError(f"{not_copied}: {why}") from error
        except UnreachedError:
            raise
        except BackendError as error:
            kind = StaysError if isinstance(error, StaysError) else failed
            stays = f"; on host {node} the job goes on without a copy" if is_alone else ""
            raise kind(f"{not_copied}: {error}{stays}") from error

    async def _list(self, take: Callable[[bytes], bool], node: NodeName) -> None:
        """Have what a host lists taken in, record by record."""
        async with self._asked("manifest", node) as process:
            await process.end_input()
            await self._taken(take, process)

    async def _taken(self, take: Callable[[bytes], bool], process: CheckpointVerb) -> None:
        is_last = False
        while not is_last:
            line = await process.answer_line()
            is_last = await self._worked(partial(take, line), is_long=len(line) > LINE_BYTES_FEW)

    @asynccontextmanager
    async def _asked(self, verb: str, node: NodeName) -> AsyncIterator[CheckpointVerb]:
        """Begin a verb that only looks."""
        async with (
            self.to.agents[node].programs() as link,
            self._begun(link, verb, node) as process,
        ):
            yield process

    async def _bring(self, target: NodeName) -> None:
        """Make the folder on one host hold what is joined, or leave it as it was."""
        plan = await self._worked(partial(CopyPlan, self.lists, target))
        try:
            await self._list(plan.compare, target)
        except StaysError:  # what lies there is replaced, however large it is
            plan = await self._worked(partial(CopyPlan, self.lists, target))
        for node in await self._worked(plan.alike):
            for asked in (node, target):
                take = partial(plan.take_digests, node, is_target=asked == target)
                async with self._asked("digest", asked) as process:
                    await self._write(process, plan.alike_paths(node))
                    await process.end_input()
                    await self._taken(take, process)
        try:
            await self._transfer(plan, target)
        except BackendError as error:
            kind = UnreachedError if isinstance(error, UnreachedError) else failed
            cause = f"the checkpoint of job {self.job_id} cannot be copied to {target}: {error}"
            raise kind(cause) from error
        failpoint(f"received checkpoints of {self.job_id}")

    async def _transfer(self, plan: CopyPlan, target: NodeName) -> None:
        senders = await self._worked(plan.senders)
        # In order of name: transfers in opposite directions must not wait for each other's
        # programs, of which few run on a node.
        nodes = sorted({target, *senders})
        async with AsyncExitStack() as open_here:
            for node in nodes if self.lists.is_large else ():
                few = self.to.large.setdefault(node, anyio.Semaphore(LARGE_AT_ONCE))
                await open_here.enter_async_context(few)
            links = {
                node: await open_here.enter_async_context(self.to.agents[node].programs())
                for node in nodes
            }
            receiving = await open_here.enter_async_context(
                self._begun(links[target], "receive", target)
            )
            try:
                await self._write(receiving, plan.records(self.attempt))
                for node in senders:
                    async with self._begun(links[node], "stream", node) as sending:
                        await self._write(sending, plan.sent_paths(node))
                        await sending.end_input()
                        await sending.pour(receiving)
            except NotTakenError:
                pass  # it says why
            except BackendError:
                await receiving.end_input()
                with suppress(BackendError):  # until it has removed what arrived
                    await receiving.answer()
                raise
            await receiving.answer()
            failpoint(f"copied checkpoints of {self.job_id}")
            await receiving.write(COMMIT)
            await receiving.end_input()
            await receiving.answer()

    async def _write(self, process: CheckpointVerb, records: Records) -> None:
        """Hand a verb records, and their end, each made when the one before it is sent."""
        made = map(packed, records)
        while record := await self._worked(partial(next, made, b"")):
            await process.write(record)
        await process.write(END)

    async def _worked(self, work: Callable[[], T], *, is_long: bool = False) -> T:
        """Return what comes of work, done in a thread where others would wait for it."""
        if is_long or self.lists.is_large:
            return await to_thread.run_sync(work, limiter=self.to.thread)
        return work()

    @asynccontextmanager
    async def _begun(self, link: Link, verb: str, node: NodeName) -> AsyncIterator[CheckpointVerb]:
        """Begin a verb of the agent of a node; it is over at the end."""
        nonce, limit_s = secrets.token_hex(8), self.to.limits.call_s
        try:
            with anyio.fail_after(limit_s):
                process = await link.begin(verb, self._folder(node), self.user, nonce)
        except (OSError, TimeoutError) as error:
            raise UnreachedError(f"host {node} does not begin to {verb}: {error!r}") from error
        try:
            yield CheckpointVerb(node, verb, process, nonce, limit_s)
        finally:
            await process.aclose()

    def _folder(self, node: NodeName) -> str:
        to = self.to
        return checkpoints_of(to.limits, to.owner, to.agents[node].root, self.job_id)
