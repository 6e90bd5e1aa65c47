"""A partition of Slurm as a cluster, where each attempt is a batch job of its own.

All nodes have one agent, which is a session within the daemon (`job_session`). What other people's
jobs hold of each node counts as taken.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from shunter import clock
from shunter.backends.live import AgentProcess, Link, UnreachedError, Watch, install_shared
from shunter.backends.slurm.answers import QueuedJob, SlurmNode
from shunter.backends.slurm.backend import SlurmBackend, SlurmLink, SlurmTransport, node_service
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.job_attempts import Key, QueueView, queue_view
from shunter.backends.slurm.job_session import JobCluster, JobSession
from shunter.backends.slurm.node_service import NodeListing
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings
from shunter.core import Launch, Resume
from shunter.errors import BackendError, SlurmUnknownError
from shunter.events import NOTHING, GpusTaken, JobId, NodeName, Share

NAME = NodeName("slurm")


class JobTransport(SlurmTransport):
    """Reaches what Slurm runs: by its commands, and by a folder that all nodes share."""

    def __init__(self, cluster: JobCluster) -> None:
        settings = cluster.settings
        super().__init__(NAME, settings.nodes, settings.root, is_on_demand=False)
        self._cluster = cluster

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        """Put the program of attempts onto the shared folder, and begin.

        Raises:
            UnreachedError: the folder cannot be used.
        """
        try:
            agent = await to_thread.run_sync(install_shared, f"{self.folder}/agent")
        except OSError as error:
            raise UnreachedError(f"the shared folder cannot be used: {error}") from error
        failed: BackendError | None = None
        async with anyio.create_task_group() as tasks:
            try:
                yield _JobLink(self._cluster, agent, tasks)
            except BackendError as error:  # which a task group would pack
                failed = error
            tasks.cancel_scope.cancel()
        if failed is not None:
            raise failed

    async def answers(self) -> bool:
        """Return that it answers: whether the folder can be used is found by using it."""
        return True


class _JobLink(SlurmLink):
    """What can be begun: one session, and verbs that are about files alone."""

    def __init__(self, cluster: JobCluster, agent: str, tasks: TaskGroup) -> None:
        self._cluster = cluster
        self._agent = agent
        self._tasks = tasks

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Begin a session."""
        nonce = secrets.token_hex(8)
        session = JobSession(self._cluster, self._agent, nonce)
        await self._tasks.start(session.run)
        return session, nonce


# What other people's jobs hold of each node. Slurm says what is in use, not by whom. So a listing
# of nodes counts only between two answers of squeue, and only for nodes where all our attempts in
# them have started by our records.
#
# CPUs and memory are amounts only: what our attempts have beyond their booking counts as others'.
# Where ours came or went between the answers, the last result changes only as far as it must.

Own = Mapping[Key, Share]
"""What our attempts have of one node, as it was booked."""


class TakenResources:
    """What others hold of each node by the last listing, and our attempts."""

    def __init__(self, servers: Sequence[SlurmServer]) -> None:
        self._servers = servers
        self._own: dict[Key, Sequence[Share]] = {}
        self._taken: dict[NodeName, Share] = {}
        self._before: QueueView | None = None
        self._judged: NodeListing | None = None
        self._unknown = {server.name for server in servers}

    @property
    def is_lacking(self) -> bool:
        """Whether it has never been known yet what others hold of some node."""
        return bool(self._unknown)

    def recall(self, recorded: Iterable[Share]) -> None:
        """Take in what the log says of an earlier term, and of no other node."""
        self._taken = {share.node: share for share in recorded}

    def is_known(self, key: Key) -> bool:
        """Say whether it is known what an attempt was given."""
        return key in self._own

    def note(self, key: Key, given: Sequence[Share]) -> None:
        """Note which GPUs an attempt was given, and the CPUs and memory booked with them."""
        self._own[key] = given

    def take(self, queue: QueueView, listing: NodeListing | None) -> Iterator[Share]:
        """Take in an answer of squeue; return what has changed by the last listing.

        Args:
            queue: the answer.
            listing: the newest listing of nodes.

        Returns:
            of each node all that others hold.
        """
        before, self._before = self._before, queue
        if listing is None or listing is self._judged or queue.began_s < listing.ended_s:
            return
        self._judged = listing
        if before is None or before.began_s > listing.began_s:
            return  # it is not known what of ours there was just before
        for server in self._servers:
            node = listing.nodes.get(server.name)
            one, other = (self._own_on(server.name, each.alive, each) for each in (before, queue))
            passed = self._own_on(server.name, partial(_ended_since, before, queue), queue)
            is_clear = one is not None and other is not None and passed is not None
            if node is None or is_clear:
                self._unknown.discard(server.name)
            if node is None or one is None or other is None or passed is None:
                continue
            last = self._taken.get(server.name, Share(server.name, 0))
            taken = _taken(server, node, last, one, other, passed)
            if last != taken:
                self._taken[server.name] = taken
                yield taken
        for key in [key for key in self._own if key not in queue.jobs and key not in before.jobs]:
            del self._own[key]

    def _own_on(
        self, node: NodeName, chosen: Callable[[Key], Iterable[QueuedJob]], queue: QueueView
    ) -> Own | None:
        """Return what of a node chosen jobs of an answer have; None: not known."""
        found: dict[Key, Share] = {}
        for key in queue.jobs:
            if any(node in job.nodes for job in chosen(key)):
                given = self._own.get(key)
                if given is None:
                    return None
                found.update((key, share) for share in given if share.node == node)
        return found


def _ended_since(before: QueueView, after: QueueView, key: Key) -> tuple[QueuedJob, ...]:
    """Return the Slurm jobs of an attempt that ended between two answers."""
    over = {job.id for job in before.jobs.get(key, ()) if job.has_ended}
    return tuple(job for job in after.jobs[key] if job.has_ended and job.id not in over)


def _taken(
    server: SlurmServer, node: SlurmNode, last: Share, before: Own, after: Own, passed: Own
) -> Share:
    """Return what others hold of a node of what the config gives it, by a listing.

    Args:
        server: the node by the config.
        node: the same by Slurm.
        last: what others held by the listing before.
        before: what of it was ours just before the listing.
        after: the same just after it.
        passed: what was ours until some instant between.
    """
    either = {**before, **after, **passed}
    both = [share for key, share in before.items() if key in after]
    mask = (1 << len(server.gpus)) - 1 & _used(node)
    for share in either.values():
        mask &= ~share.gpu_mask
    cpus_milli = _within(
        last.cpus_milli,
        len(server.cpus) * 1000,
        (node.cpus - node.cpus_used) * 1000,
        sum(share.cpus_milli for share in either.values()),
        sum(share.cpus_milli for share in both),
    )
    memory_mb = _within(
        last.memory_mb,
        server.memory_mb,
        node.memory_mb - node.memory_used_mb,
        sum(share.memory_mb for share in either.values()),
        sum(share.memory_mb for share in both),
    )
    return Share(server.name, mask, cpus_milli, memory_mb)


def _within(last: int, all_: int, free: int, most_ours: int, least_ours: int) -> int:
    """Return what is neither free nor ours, or the last result if it may be true."""
    least, most = all_ - free - most_ours, all_ - free - least_ours
    return max(0, min(all_, max(least, min(most, last))))


def _used(node: SlurmNode) -> int:
    """Return the GPUs of a node that are in use, as a mask."""
    found = 0
    for gpus in node.gpus_used_indices.values():
        for gpu in gpus:
            found |= 1 << gpu
    return found


LAUNCHES_AT_ONCE = 16
OTHERS = "jobs of others in Slurm"


class JobBackend(SlurmBackend):
    """Runs each attempt as a Slurm job; use it as an async context."""

    def __init__(self, settings: SlurmSettings, start_us: int = 0) -> None:
        self._settings = settings
        self._queue = QueueView()
        self._seen_queue = anyio.Event()
        self._launching_now = anyio.Semaphore(LAUNCHES_AT_ONCE)
        self._slurm = Slurm(deadline_s=settings.command_s, conf=settings.conf)
        self._service = node_service(settings, self._slurm, settings.partition)
        self._taken = TakenResources(settings.nodes)
        self._cluster = JobCluster(settings, self._slurm, self._service, self._take, self._notice)
        super().__init__(settings, settings.owner, [JobTransport(self._cluster)], start_us)

    async def __aenter__(self) -> Self:
        """Watch Slurm's nodes as well.

        Raises:
            BackendError: the shared folder is another scheduler's.
        """
        await super().__aenter__()
        self._tasks.start_soon(self._watch_nodes)
        return self

    async def tell_taken(self) -> None:
        """Tell what others hold now, before anything is planned.

        As far as Slurm says it within the time of a command; the rest follows as it comes.
        """
        with suppress(SlurmUnknownError), anyio.move_on_after(self._settings.command_s):
            self._take(await queue_view(self._slurm, self._settings.cluster_id))
            await self._service.look()
            self._take(await queue_view(self._slurm, self._settings.cluster_id))

    async def _watch_nodes(self) -> None:
        """Look at nodes once the queue was seen, which says whose jobs they run.

        Until something is known of each of them, they are looked at with each poll.
        """
        await self._seen_queue.wait()
        await self._service.run(self._settings.poll_s)

    async def _launch(self, effect: Launch | Resume) -> None:
        """Launch an attempt, a few at once: the limit of a launch is for itself alone."""
        async with self._launching_now:
            await super()._launch(effect)

    def recall_taken(self, told: Sequence[Share]) -> None:
        """Say what an earlier term has found in the hands of others, node by node."""
        self._taken.recall(told)

    def launch_wait(self, job_id: JobId) -> str:
        """Return what Slurm says that an attempt waits for; nothing if none does."""
        gang = self._gangs.get(job_id)
        if gang is None or gang.watch.started is not None:
            return ""
        key = job_id, gang.watch.attempt
        wait = self._queue.wait_of(key, clock.wall_s())
        wait = wait or self._cluster.held_back.get(key, "")
        return "; ".join(said for said in (wait, self.silence) if said)

    def _notice(self, words: str) -> None:
        """Put something where people read it."""
        self._share_notices.put(words)

    def _take(self, queue: QueueView) -> None:
        """Take in an answer of squeue, and tell what others hold."""
        self._queue = queue
        self._seen_queue.set()
        for job_id, gang in self._gangs.items():
            key = (str(job_id), gang.watch.attempt)
            if not self._taken.is_known(key) and (given := _given(gang.watch)):
                self._taken.note(key, given)
        for share in self._taken.take(queue, self._service.listing):
            self._inbox.put(
                partial(
                    GpusTaken,
                    node=share.node,
                    gpu_mask=share.gpu_mask,
                    cause=OTHERS,
                    cpus_milli=share.cpus_milli,
                    memory_mb=share.memory_mb,
                )
            )
        if self._taken.is_lacking:
            self._service.soon()


def _given(watch: Watch) -> Sequence[Share]:
    """Return the GPUs that an attempt was given, with what was booked with them.

    None: it is not known whether it has started.
    """
    planned = (NOTHING if watch.planned is None else watch.planned).shares
    if watch.started is None:
        return planned if watch.told_start else ()
    booked, nothing = {share.node: share for share in planned}, Share(NodeName(""), 0)
    found = []
    for node, mask in watch.started.placement:
        share = booked.get(NodeName(node), nothing)
        found.append(Share(NodeName(node), mask, share.cpus_milli, share.memory_mb))
    return found
