"""What supervisors sample of their attempts, with the GPUs of each node, on its way to the log.

Samples come with every look at a node. Those of a gang become one: how far and how fast it is says
its first rank, and what it uses is the sum over its hosts. Downsampled and in batches they go on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec import structs

from shunter.backends.agents.attempt_records import GpuReading, Sample
from shunter.backends.agents.settings import Limits
from shunter.backends.agents.transport import Server
from shunter.backends.inbox import Inbox, Stamped
from shunter.backends.profiles import EXPLANATIONS, Downsampler, GpuUse, profile_of, use_told
from shunter.backends.supervised.gangs.gang import Gang
from shunter.events.facts import GpuQuarantined, ProfileSampled
from shunter.events.values import JobId, NodeName

# GPUs that their driver says are lost, as readings come in from the agents of nodes.
#
# One reading may be a driver that is being reloaded; what two in a row say is believed. A lost GPU
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


class Samples:
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
        whole = structs.replace(
            first,
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
