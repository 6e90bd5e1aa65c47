"""What supervisors sample of their attempts, with the GPUs of this machine, on its way to the log.

A supervisor leaves its newest sample in a file; GPUs are read once for all attempts, since NVML
tells of whole GPUs. Downsampled and in batches they become inputs of the round loop.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import anyio
from anyio import to_thread

from shunter.backends.inbox import Inbox
from shunter.backends.node.messages.attempt_records import sample_in
from shunter.backends.node.messages.wire import Sample
from shunter.backends.profiles import Downsampler, GpuReader, GpuUse, NoGpus, profile_of
from shunter.backends.supervised.profile_forwarding import forward_profiles
from shunter.backends.supervised.watch import Watch
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.values.ids import JobId

__all__ = ["Samples"]

Watched = Callable[[], Collection[Watch]]


class Samples:
    """Gathers the samples of a machine's attempts."""

    def __init__(self, inbox: Inbox, every_s: float, reader: GpuReader | None = None) -> None:
        self._inbox = inbox
        self._every_s = every_s
        self._reader = reader or GpuReader()
        self._downsampler = Downsampler(batch_us=int(every_s * 1e6))
        self._taken_ns: dict[JobId, int] = {}
        self.gpu_state: tuple[GpuUse, ...] | NoGpus = ()

    async def run(self, watched: Watched) -> None:
        """Gather for ever; nothing is gathered where `every_s` is 0."""
        while self._every_s:
            await anyio.sleep(self._every_s)
            await self.gather(watched)

    async def gather(self, watched: Watched) -> None:
        """Read what is new, and hand on what is due."""
        for job_id in sorted(self._taken_ns.keys() - {watch.job_id for watch in watched()}):
            del self._taken_ns[job_id]
            self._downsampler.forget(job_id)
        read = await to_thread.run_sync(_read, [*watched()], dict(self._taken_ns))
        if read:
            self.gpu_state = await to_thread.run_sync(self._reader.read)
        for watch, sample in read:
            self._taken_ns[watch.job_id] = sample["at_ns"]
            self._downsampler.offer(self._profile(watch, sample, watched()))
        running = {(watch.job_id, watch.attempt) for watch in watched()}
        forward_profiles(self._downsampler, self._inbox, running)

    def _profile(self, watch: Watch, sample: Sample, watches: Iterable[Watch]) -> ProfileSampled:
        own = gpus_of(watch)
        others = {gpu for other in watches if other is not watch for gpu in gpus_of(other)}
        gpus = () if isinstance(self.gpu_state, NoGpus) else self.gpu_state
        return profile_of(
            self._inbox.instant_us(sample["at_ns"]),
            watch.job_id,
            watch.attempt,
            sample,
            [gpu for gpu in gpus if own & {str(gpu.index), gpu.uuid}],
            is_exclusive=not own & others,
        )


def gpus_of(watch: Watch) -> set[str]:
    """Return the GPUs of an attempt as CUDA names them."""
    return set(watch.started["gpus"]) if watch.started is not None else set()


def _read(watches: Iterable[Watch], taken_ns: Mapping[JobId, int]) -> list[tuple[Watch, Sample]]:
    """Return the samples that were not taken before; runs in a thread."""
    found = [(watch, sample_in(watch.folder)) for watch in watches]
    return [
        (watch, sample)
        for watch, sample in found
        if sample is not None and sample["at_ns"] > taken_ns.get(watch.job_id, 0)
    ]
