"""Checkpoints that go with a job to another host, where the hosts share no folder.

What the last attempt left on the hosts of its ranks is put together, each file from where it was
written last, and made to lie on every host of the next attempt. The files that a host lacks are
streamed from host to host through this machine without resting on it. On both ends a process of the
job's user reads or writes them (shunter.backends.node.remote.checkpoint_transfer), and what arrives
takes the place of what was there only when all of it is right.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

import anyio
from anyio import to_thread

from shunter.backends.agents.node_agent import NodeAgent
from shunter.backends.agents.settings import Limits, Owner
from shunter.backends.agents.transport import Link, UnreachedError
from shunter.backends.node.failpoints import failpoint
from shunter.backends.node.remote.checkpoint_transfer import COMMIT
from shunter.backends.node.remote.entry_lists import (
    ENTRIES_MAX,
    TOO_MUCH,
    listings,
    pieces,
)
from shunter.backends.supervised.checkpoints.gang_checkpoints import (
    HeavierError,
    Joined,
    ListedEntry,
    Manifest,
    Manifests,
    TooManyEntriesError,
    Weight,
    joined,
    take_listed,
)
from shunter.backends.supervised.checkpoints.lists_in_hand import ListsInHand
from shunter.backends.supervised.checkpoints.verbs import (
    CheckpointVerb,
    NotTakenError,
    failed,
)
from shunter.backends.supervised.orders import checkpoints_of
from shunter.errors import BackendError
from shunter.events.values.ids import JobId, NodeName, UserName

__all__ = ["CheckpointTransfer", "StaysError"]

T = TypeVar("T")
FEW = 1_000
"""Lists of so many files may be held by as many copies as there are; see `Weight`."""


class CheckpointTransfer:
    """Brings checkpoints to where a job runs next."""

    def __init__(self, limits: Limits, owner: Owner, agents: Mapping[NodeName, NodeAgent]) -> None:
        self._limits = limits
        self._owner = owner
        self._agents = agents
        self._in_hand = ListsInHand(ENTRIES_MAX)

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
            asked = job_id, attempt, user, nodes, targets
            try:
                is_brought = await self._bring_of(*asked, FEW)
            except HeavierError:
                # It may be smaller by now, and grow again: that fails the launch, nothing else.
                weight = max(FEW + 1, await self._weight_of(job_id, user, nodes))
                async with self._in_hand.held(weight):
                    is_brought = await self._bring_of(*asked, weight)
            if is_brought:
                return

    async def _bring_of(
        self,
        job_id: JobId,
        attempt: int,
        user: UserName,
        nodes: tuple[NodeName, ...],
        targets: tuple[NodeName, ...],
        weight_most: int,
    ) -> bool:
        """Bring what some hosts have; return whether that is anything.

        Raises:
            HeavierError: their lists take more memory than they may.
        """
        is_large, found = weight_most > FEW, Manifests(weight_most)
        for node in nodes:
            await self._add_manifest(
                job_id, user, node, found, is_large=is_large, is_alone=len(nodes) == 1
            )
        join = partial(joined, found.of_nodes)
        del found  # what only its lists needed takes memory
        entries = await _worked(join, is_long=is_large)
        del join
        if not any(path for path in entries):
            return False
        for target in targets:
            await self._bring(job_id, attempt, user, entries, target, is_large=is_large)
        return True

    async def _weight_of(self, job_id: JobId, user: UserName, nodes: Iterable[NodeName]) -> int:
        """Return how much memory the lists of some hosts take, without holding them."""
        weight = Weight()
        for node in nodes:
            asked = job_id, user, node, Manifest()
            await self._list(*asked, weight.add, weight.add_gone, is_large=True)
        return weight.total

    async def _add_manifest(
        self,
        job_id: JobId,
        user: UserName,
        node: NodeName,
        found: Manifests,
        *,
        is_large: bool,
        is_alone: bool,
    ) -> None:
        """Add what a host lists to what others have listed.

        Raises:
            HeavierError: they are more than may be held.
            BackendError: it cannot be listed, or is more than can be copied.
        """
        manifest = found.begin(node)
        try:
            await self._list(
                job_id,
                user,
                node,
                manifest,
                partial(found.add, manifest),
                partial(found.add_gone, manifest),
                is_large=is_large,
            )
        except HeavierError as error:
            if not is_large:
                raise
            raise failed(f"host {node}: the checkpoint grew while it was listed") from error
        except TooManyEntriesError as error:
            places = [
                f"{each}:{self._folder(job_id, each)} ({len(listed.entries) - 1:,} listed)"
                for each, listed in found.of_nodes
            ]
            why = f"{', '.join(places)} have together {error}; {TOO_MUCH}"
            raise _not_copied(job_id, why) from error
        except UnreachedError:
            raise
        except BackendError as error:
            raise _not_copied(job_id, str(error), node if is_alone else "") from error

    async def _list(
        self,
        job_id: JobId,
        user: UserName,
        node: NodeName,
        manifest: Manifest,
        add: Callable[[ListedEntry], None],
        add_gone: Callable[[list[str]], None],
        *,
        is_large: bool,
    ) -> None:
        """Hand over what a host lists, entry by entry, and note what else it says."""
        async with self._asked("manifest", job_id, user, node) as process:
            while True:
                line = await process.answer_line()
                if await _worked(
                    partial(take_listed, node, line, manifest, add, add_gone), is_long=is_large
                ):
                    return

    async def _digests(
        self, job_id: JobId, user: UserName, node: NodeName, paths: list[str]
    ) -> list[str | None]:
        """Return the digests of files on a host, None of what cannot be read."""
        digests: list[str | None] = []
        async with self._asked("digest", job_id, user, node, paths) as process:
            while "digests" in (answer := await process.answer()):
                digests += answer["digests"]
        return digests

    @asynccontextmanager
    async def _asked(
        self,
        verb: str,
        job_id: JobId,
        user: UserName,
        node: NodeName,
        paths: list[str] | None = None,
    ) -> AsyncIterator[CheckpointVerb]:
        """Begin a verb that only looks, about some files or all."""
        async with (
            self._agents[node].programs() as link,
            self._begun(link, verb, job_id, user, node) as process,
        ):
            if paths is not None:
                await process.write_records({"paths": part} for part in pieces(paths))
            await process.end_input()
            yield process

    async def _bring(
        self,
        job_id: JobId,
        attempt: int,
        user: UserName,
        entries: Joined,
        target: NodeName,
        *,
        is_large: bool,
    ) -> None:
        """Make the folder on one host hold these entries, or leave it as it was."""
        kept = await self._kept(job_id, user, entries, target, is_large=is_large)
        plan = await _worked(partial(_Plan, entries, target, kept), is_long=is_large)
        try:
            await self._transfer(job_id, user, plan, attempt, target)
        except BackendError as error:
            kind = UnreachedError if isinstance(error, UnreachedError) else failed
            cause = f"the checkpoint of job {job_id} cannot be copied to {target}: {error}"
            raise kind(cause) from error
        failpoint(f"received checkpoints of {job_id}")

    async def _kept(
        self,
        job_id: JobId,
        user: UserName,
        entries: Joined,
        target: NodeName,
        *,
        is_large: bool,
    ) -> set[str]:
        """Return the files of other hosts that need not be sent to a host."""
        same: dict[NodeName, list[str]] = {}

        def compare(there: ListedEntry) -> None:
            node, entry = entries.get(there.path, (target, there))
            if node != target and entry.kind == "file" and _looks_same(there, entry):
                same.setdefault(node, []).append(entry.path)

        await self._list(
            job_id, user, target, Manifest(), compare, lambda _: None, is_large=is_large
        )
        kept: set[str] = set()
        for node, paths in same.items():
            wanted = await self._digests(job_id, user, node, paths)
            found = await self._digests(job_id, user, target, paths)
            kept.update(
                path
                for path, one, other in zip(paths, wanted, found, strict=True)
                if one == other is not None
            )
        return kept

    async def _transfer(
        self,
        job_id: JobId,
        user: UserName,
        plan: "_Plan",
        attempt: int,
        target: NodeName,
    ) -> None:
        async with AsyncExitStack() as open_here:
            # In order of name: transfers in opposite directions must not wait for each other's
            # programs, of which few run on a node.
            links = {
                node: await open_here.enter_async_context(self._agents[node].programs())
                for node in sorted({target, *plan.streams})
            }
            receiving = await open_here.enter_async_context(
                self._begun(links[target], "receive", job_id, user, target)
            )
            try:
                await receiving.write_records(plan.records(attempt))
                for node, paths in plan.streams.items():
                    async with self._begun(links[node], "stream", job_id, user, node) as sending:
                        await sending.write_records({"paths": part} for part in pieces(paths))
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
            failpoint(f"copied checkpoints of {job_id}")
            await receiving.write(COMMIT)
            await receiving.end_input()
            await receiving.answer()

    @asynccontextmanager
    async def _begun(
        self, link: Link, verb: str, job_id: JobId, user: UserName, node: NodeName
    ) -> AsyncIterator[CheckpointVerb]:
        """Begin a verb of the agent of a node; it is over at the end.

        Raises:
            UnreachedError: the agent does not begin it.
        """
        nonce, limit_s = secrets.token_hex(8), self._limits.call_s
        folder = self._folder(job_id, node)
        try:
            with anyio.fail_after(limit_s):
                process = await link.begin(verb, folder, user, nonce)
        except (OSError, TimeoutError) as error:
            raise UnreachedError(f"host {node} does not begin to {verb}: {error!r}") from error
        try:
            yield CheckpointVerb(node, verb, process, nonce, limit_s)
        finally:
            await process.aclose()

    def _folder(self, job_id: JobId, node: NodeName) -> str:
        return checkpoints_of(self._limits, self._owner, self._agents[node].root, job_id)


class _Plan:
    """How a host gets the files of a checkpoint: which are sent, and by whom."""

    def __init__(self, entries: Joined, target: NodeName, kept: set[str]) -> None:
        self.streams: dict[NodeName, list[str]] = {}
        self._entries = entries
        self._sources: list[tuple[str, int | None]] = []
        alike: dict[tuple[str, int | None], tuple[str, int | None]] = {}
        names: dict[tuple[NodeName, str], int] = {}
        for number, (path, (node, entry)) in enumerate(entries.items()):
            first = names.setdefault((node, entry.inode), number) if entry.inode else number
            origin = ""
            if entry.kind == "file" and first == number:
                origin = "here" if node == target or path in kept else "stream"
            if origin == "stream":
                self.streams.setdefault(node, []).append(path)
            source = (origin, first if first != number else None)
            self._sources.append(alike.setdefault(source, source))

    def records(self, generation: int) -> Iterator[Mapping[str, object]]:
        """Yield what the host is told: all entries, and in which order files come."""
        rows = zip(self._entries.values(), self._sources, strict=True)
        yield from listings((one.path, [*one[1:-1], *source]) for (_, one), source in rows)
        for paths in self.streams.values():
            yield from ({"received": part} for part in pieces(paths))
        yield {"generation": generation}


async def _worked(work: Callable[[], T], *, is_long: bool) -> T:
    """Return what comes of work, done in a thread where others would wait for it."""
    return await to_thread.run_sync(work) if is_long else work()


def _looks_same(there: ListedEntry, entry: ListedEntry) -> bool:
    return there[1:5] == entry[1:5]  # kind, mode, mtime_ns, size


class StaysError(BackendError):
    """A checkpoint is too large to be copied: its job goes on where that lies."""


def _not_copied(job_id: JobId, why: str, only: str = "") -> BackendError:
    stays = f"; on host {only} the job goes on without a copy" if only else ""
    cause = f"the checkpoint of job {job_id} cannot be copied to another host: {why}{stays}"
    return StaysError(cause, retryable=True) if TOO_MUCH in why else failed(cause)
