"""What supervisors sample of their attempts, with the GPUs of each node, on its way to the log.

The samples of a gang become one: progress and speed are its first rank's, use is the sum over its
hosts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from shunter.backends.live.gang import Gang
from shunter.backends.live.gpus import EXPLANATIONS, GpuUse, use_told
from shunter.backends.live.inbox import Inbox, Stamped
from shunter.backends.live.settings import Limits
from shunter.backends.live.transport import Server
from shunter.backends.node import GpuReading, Sample
from shunter.events import GpuQuarantined, JobId, NodeName, ProfileSampled

# Profiles, downsampled for the log: a sample is kept on a change, or where the last one is old.


def profile_of(
    at_us: int,
    job_id: JobId,
    attempt: int,
    sample: Sample,
    gpus: Sequence[GpuUse],
    *,
    is_exclusive: bool,
) -> ProfileSampled:
    """Return the profile of an instant; a value that cannot be had is None.

    Args:
        at_us: the instant of the sample.
        job_id: whose it is.
        attempt: of which attempt.
        sample: the supervisor's record (see node/sampling.py).
        gpus: readings of the attempt's own GPUs, as far as there are any.
        is_exclusive: whether nobody else is on them.
    """
    return ProfileSampled(
        at_us=at_us,
        job_id=job_id,
        attempt=attempt,
        step=sample.step,
        batch_s=sample.batch_s,
        gpu_utilisation=_utilisation(gpus),
        gpu_memory_mb=_gpu_memory_mb(gpus, sample.pids, is_exclusive=is_exclusive),
        cpus=sample.cpus,
        memory_mb=sample.memory_mb,
    )


def _utilisation(gpus: Sequence[GpuUse]) -> float | None:
    """Return the mean over the GPUs that tell it."""
    known = [each.utilisation for each in gpus if each.utilisation is not None]
    return round(sum(known) / len(known), 4) if known else None


def _gpu_memory_mb(
    gpus: Sequence[GpuUse], pids: Sequence[int], *, is_exclusive: bool
) -> int | None:
    """Return what the job holds: by process, or its GPUs where none is named.

    In a container NVML names processes by their ids on the host: none is the job's then.
    """
    known = [each for each in gpus if each.memory_mb is not None]
    if not known:
        return None
    shares = [(each.memory_by_pid or {}).items() for each in known]
    own = sum(megabytes for share in shares for pid, megabytes in share if pid in pids)
    return own if own or not is_exclusive else sum(each.memory_mb or 0 for each in known)


# A change below this is noise, however large a part of the value it is.
_NOISE = {
    "batch_s": 0.0,
    "gpu_utilisation": 0.05,
    "gpu_memory_mb": 64,
    "cpus": 0.1,
    "memory_mb": 64,
}


class Downsampler:
    """Decides which samples go to the log, and gathers them into batches.

    Args:
        every_us: a sample is kept at least so often.
        at_least_us: and no two are closer than this.
        tolerance: the relative change of a value that is worth telling.
        batch: so many samples are a batch before its time.
        batch_us: a batch waits for at most this.
    """

    def __init__(
        self,
        *,
        every_us: int = 60_000_000,
        at_least_us: int = 5_000_000,
        tolerance: float = 0.2,
        batch: int = 100,
        batch_us: int = 10_000_000,
    ) -> None:
        self._every_us = every_us
        self._at_least_us = at_least_us
        self._tolerance = tolerance
        self._batch = batch
        self._batch_us = batch_us
        self._kept: dict[JobId, ProfileSampled] = {}
        self._waiting: list[ProfileSampled] = []

    def offer(self, sample: ProfileSampled) -> bool:
        """Take a sample in, and say whether it will go to the log."""
        last = self._kept.get(sample.job_id)
        if last is not None and last.attempt == sample.attempt and not self._is_news(last, sample):
            return False
        self._kept[sample.job_id] = sample
        self._waiting.append(sample)
        return True

    def due(self, now_us: int) -> tuple[ProfileSampled, ...]:
        """Return a batch in the order of its samples, or nothing while it may wait."""
        oldest = min((each.at_us for each in self._waiting), default=now_us)
        is_due = len(self._waiting) >= self._batch or now_us - oldest >= self._batch_us
        return self.flush() if is_due else ()

    def flush(self) -> tuple[ProfileSampled, ...]:
        """Return everything that waits."""
        batch, self._waiting = tuple(self._waiting), []
        return batch

    def forget(self, job_id: JobId) -> None:
        """Drop what is known of a job that ended; what waits still goes to the log."""
        self._kept.pop(job_id, None)

    def _is_news(self, last: ProfileSampled, sample: ProfileSampled) -> bool:
        age_us = sample.at_us - last.at_us
        if age_us < self._at_least_us:
            return False
        return age_us >= self._every_us or any(self._differs(last, sample, name) for name in _NOISE)

    def _differs(self, last: ProfileSampled, sample: ProfileSampled, name: str) -> bool:
        before, now = getattr(last, name), getattr(sample, name)
        if before is None or now is None:
            return before is not now
        noise = max(_NOISE[name], self._tolerance * max(abs(before), abs(now)))
        return bool(abs(now - before) > noise)


# Lost GPUs. One reading may be a driver that is being reloaded, so two in a row count. A lost GPU
# has no UUID any more, so those that were read before are remembered.

READINGS_LEAST = 2
"""So many readings in a row must say that a GPU is lost."""


class LostGpus:
    """Counts by GPU the readings in a row in which it was lost."""

    def __init__(self) -> None:
        self._uuids: dict[tuple[NodeName, int], str] = {}
        self._lost: dict[tuple[NodeName, int], int] = {}

    def take(
        self, agent: NodeName, servers: Sequence[Server], gpus: Sequence[GpuReading]
    ) -> Iterator[Stamped]:
        """Yield the quarantines that follow from a reading.

        They are yielded again with each reading that is no better.

        Args:
            agent: whose node was read.
            servers: those that the agent has, each with some of the GPUs.
            gpus: the reading; none where the driver did not answer, which says nothing.
        """
        causes: dict[str, str] = {}
        for use in map(use_told, gpus):
            if use.uuid:
                self._uuids[agent, use.index] = use.uuid
            if use.loss is not None:
                cause = f"{READINGS_LEAST} readings in a row say: {EXPLANATIONS[use.loss]}"
                names = str(use.index), use.uuid or self._uuids.get((agent, use.index), "")
                causes |= dict.fromkeys(names, cause)
        for server in servers if gpus else ():
            for number, name in enumerate(server.gpus):
                key = server.name, number
                if name not in causes or not name:
                    self._lost.pop(key, None)
                    continue
                self._lost[key] = self._lost.get(key, 0) + 1
                if self._lost[key] >= READINGS_LEAST:
                    cause = causes[name]
                    yield partial(GpuQuarantined, node=server.name, gpu=number, cause=cause)


AT_LEAST_US = 5_000_000
"""No two samples of a gang that go on are closer than this, unless somebody needs them."""


class SampleCollector:
    """Gathers the samples of gangs, and hands on what they say that is new.

    Where the limits say that all are wanted, each goes on at once.
    """

    def __init__(self, inbox: Inbox, gangs: Mapping[JobId, Gang], limits: Limits) -> None:
        self._inbox = inbox
        self._gangs = gangs
        if limits.downsamples:
            every_us, batch_us = int(limits.told_every_s * 1e6), int(limits.sample_s * 1e6)
            self._downsampler = Downsampler(
                every_us=every_us,
                at_least_us=min(AT_LEAST_US, every_us),
                batch_us=min(batch_us, every_us),
            )
        else:
            self._downsampler = Downsampler(every_us=0, at_least_us=0, batch_us=0)
        self._lost_gpus = LostGpus()
        self._gpus: dict[NodeName, list[GpuUse]] = {}
        self._latest: dict[tuple[JobId, int], dict[NodeName, Sample]] = {}

    def take(
        self,
        node: NodeName,
        samples: Sequence[Sample],
        gpus: Sequence[GpuReading] | None,
        servers: Sequence[Server] = (),
    ) -> None:
        """Take in what a host has told, of its servers too; hand on what is due."""
        for quarantined in self._lost_gpus.take(node, servers, gpus or ()):
            self._inbox.put(quarantined)
        if gpus is not None:
            self._gpus[node] = [use_told(reading) for reading in gpus]
        for sample in samples:
            gang = self._gangs.get(JobId(sample.job))
            if gang is None or gang.watch.attempt != sample.attempt or node not in gang.parts:
                continue
            latest = self._latest.setdefault((gang.watch.job_id, gang.watch.attempt), {})
            latest[node] = sample
            first = next(iter(gang.parts))
            if node == first:
                self._downsampler.offer(self._profile(gang, latest, sample))
        running = {(gang.watch.job_id, gang.watch.attempt) for gang in self._gangs.values()}
        for gone in [key for key in self._latest if key not in running]:
            del self._latest[gone]
            self._downsampler.forget(gone[0])
        for profile in self._downsampler.due(self._inbox.now_us()):
            if (profile.job_id, profile.attempt) in running:
                self._inbox.put(_stamped(profile))

    def _profile(
        self, gang: Gang, latest: Mapping[NodeName, Sample], first: Sample
    ) -> ProfileSampled:
        known = [sample for node, sample in latest.items() if node in gang.parts]
        cpus = [sample.cpus for sample in known if sample.cpus is not None]
        memory_mb = [sample.memory_mb for sample in known if sample.memory_mb is not None]
        whole = first.replaced(
            cpus=sum(cpus) if cpus else None,
            memory_mb=sum(memory_mb) if memory_mb else None,
            pids=tuple(pid for sample in known for pid in sample.pids),
        )
        own = [use for node in gang.parts for use in self._own(gang, node)]
        return profile_of(
            self._inbox.now_us(),
            gang.watch.job_id,
            gang.watch.attempt,
            whole,
            own,
            is_exclusive=not self._shares(gang),
        )

    def _own(self, gang: Gang, node: NodeName) -> list[GpuUse]:
        names = _gpus_of(gang, node)
        return [use for use in self._gpus.get(node, ()) if names & {str(use.index), use.uuid}]

    def _shares(self, gang: Gang) -> bool:
        return any(
            _gpus_of(gang, node) & _gpus_of(other, node)
            for other in self._gangs.values()
            for node in gang.parts
            if other is not gang and node in other.parts
        )


def _stamped(profile: ProfileSampled) -> Stamped:
    return lambda at_us: replace(profile, at_us=at_us)


def _gpus_of(gang: Gang, node: NodeName) -> set[str | None]:
    """Return the GPUs of a gang on a host, as CUDA names them."""
    started = gang.parts[node].started
    return set(started.gpus) if started is not None else set()
