"""A partition of Slurm as a cluster, where each attempt is a batch job of its own."""

from collections.abc import Mapping
from functools import partial
from typing import Self

import anyio

from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.taken_gpus import TakenGpus
from shunter.backends.slurm.jobs.transport import JobTransport
from shunter.backends.slurm.node_reservations import least_s
from shunter.backends.slurm.node_service import NodeService
from shunter.backends.slurm.settings import SlurmSettings
from shunter.backends.supervised.backend import SupervisedBackend
from shunter.core.effects import Launch, Resume
from shunter.events.facts.cluster import GpusTaken
from shunter.events.values.ids import JobId, NodeName

__all__ = ["JobBackend"]

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
        )
        self._taken = TakenGpus(settings.nodes)
        self._transport = JobTransport(settings, slurm, self._service, self._take)
        super().__init__(settings, settings.owner, [self._transport], start_us)

    async def __aenter__(self) -> Self:
        """Watch Slurm's nodes as well.

        Raises:
            BackendError: the shared folder is another scheduler's.
        """
        await super().__aenter__()
        self._tasks.start_soon(self._watch_nodes)
        return self

    async def _watch_nodes(self) -> None:
        """Look at nodes once the queue was seen, which says whose jobs they run."""
        await self._seen_queue.wait()
        await self._service.run(self._poll_s)

    async def _launch(self, effect: Launch | Resume) -> None:
        """Launch an attempt, a few at once: the limit of a launch is for itself alone."""
        async with self._launching_now:
            await super()._launch(effect)

    def recall_taken(self, masks: Mapping[NodeName, int]) -> None:
        """Say which GPUs an earlier term has found in the hands of others."""
        self._taken.recall(masks)

    def launch_wait(self, job_id: JobId) -> str:
        """Return what Slurm says that an attempt waits for; nothing if none does."""
        gang = self._gangs.get(job_id)
        return "" if gang is None else self._transport.wait_of(job_id, gang.watch.attempt)

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, with why; None: not known yet."""
        return self._service.out_of_service(now_s)

    def _take(self, queue: QueueView) -> None:
        """Take in an answer of squeue, and tell which GPUs others hold."""
        self._seen_queue.set()
        for job_id, gang in self._gangs.items():
            key = (str(job_id), gang.watch.attempt)
            if gang.watch.started is not None and not self._taken.is_known(key):
                self._taken.note(key, dict(gang.watch.started.placement))
        for node, mask in self._taken.take(queue, self._service.listing):
            self._inbox.put(partial(GpusTaken, node=node, gpu_mask=mask, cause=OTHERS))
