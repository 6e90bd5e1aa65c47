"""A partition of Slurm as a cluster, where each attempt is a batch job of its own."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Self

import anyio

from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.jobs.queue_view import QueueView, queue_view
from shunter.backends.slurm.jobs.taken_resources import TakenResources
from shunter.backends.slurm.jobs.transport import JobTransport
from shunter.backends.slurm.node_reservations import least_s
from shunter.backends.slurm.node_service import NodeService
from shunter.backends.slurm.settings import SlurmSettings
from shunter.backends.supervised.backend import SupervisedBackend
from shunter.backends.supervised.watch import Watch
from shunter.core.effects import Launch, Resume
from shunter.errors import SlurmUnknownError
from shunter.events.facts.cluster import GpusTaken
from shunter.events.values.allocation import NOTHING, Share
from shunter.events.values.ids import JobId, NodeName

LAUNCHES_AT_ONCE = 16
OTHERS = "jobs of others in Slurm"


class JobBackend(SupervisedBackend):
    """Runs each attempt as a Slurm job; use it as an async context."""

    def __init__(self, settings: SlurmSettings, start_us: int = 0) -> None:
        self._poll_s = settings.poll_s
        self._seen_queue = anyio.Event()
        self._launching_now = anyio.Semaphore(LAUNCHES_AT_ONCE)
        slurm = Slurm(deadline_s=settings.command_s, conf=settings.conf)
        self._service = NodeService(
            slurm,
            [server.name for server in settings.nodes],
            least_s=least_s(settings.time_limit_s),
            options=settings.options,
            partition=settings.partition,
        )
        self._taken = TakenResources(settings.nodes)
        self._slurm, self._settings = slurm, settings
        self._transport = JobTransport(settings, slurm, self._service, self._take, self._notice)
        super().__init__(settings, settings.owner, [self._transport], start_us)

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

        As far as Slurm says it within the time of a command; the rest is told as it comes.
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
        await self._service.run(self._poll_s)

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
        wait = self._transport.wait_of(job_id, gang.watch.attempt)
        return "; ".join(said for said in (wait, self.silence) if said)

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, with why; None: not known yet."""
        return self._service.out_of_service(now_s)

    @property
    def silence(self) -> str:
        """For how long Slurm has not answered, and why not; nothing where it answers."""
        return self._service.silence

    def _notice(self, words: str) -> None:
        """Have people told of something."""
        self._share_notices.put(words)

    def _take(self, queue: QueueView) -> None:
        """Take in an answer of squeue, and tell what others hold."""
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
    """Return the GPUs that an attempt was given, with what was booked beside them.

    None: it is not known whether it has started.
    """
    planned = (NOTHING if watch.planned is None else watch.planned).shares
    if watch.started is None:
        return planned if watch.told_start else ()
    booked, nothing = {share.node: share for share in planned}, Share(NodeName(""), 0)
    found = []
    for node, mask in watch.started.placement:
        beside = booked.get(NodeName(node), nothing)
        found.append(Share(NodeName(node), mask, beside.cpus_milli, beside.memory_mb))
    return found
