"""What supervisors on hosts sample of their attempts, with the GPUs of each host.

Samples come with every look at a host. Those of a gang become one: how far and how fast it is says
its first rank, and what it uses is the sum over its hosts. Downsampled and in batches they go on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shunter.backends.inbox import Inbox
from shunter.backends.profiles import Downsampler, GpuUse, profile_of, use_told
from shunter.backends.ssh.gangs import Gang
from shunter.backends.supervised.profile_forwarding import forward_profiles
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.values.ids import JobId, NodeName

__all__ = ["Samples"]

Record = dict[str, Any]


class Samples:
    """Gathers the samples of gangs."""

    def __init__(self, inbox: Inbox, gangs: Mapping[JobId, Gang]) -> None:
        self._inbox = inbox
        self._gangs = gangs
        self._downsampler = Downsampler()
        self._gpus: dict[NodeName, list[GpuUse]] = {}
        self._latest: dict[tuple[JobId, int], dict[NodeName, Record]] = {}

    def take(
        self, node: NodeName, samples: Sequence[Record], gpus: Sequence[Record] | None
    ) -> None:
        """Take in what a host has told, and hand on what is due."""
        if gpus is not None:
            self._gpus[node] = [use_told(reading) for reading in gpus]
        for sample in samples:
            gang = self._gangs.get(sample["job"])
            if gang is None or gang.watch.attempt != sample["attempt"] or node not in gang.parts:
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
        forward_profiles(self._downsampler, self._inbox, running)

    def _profile(
        self, gang: Gang, latest: Mapping[NodeName, Record], first: Record
    ) -> ProfileSampled:
        known = [sample for node, sample in latest.items() if node in gang.parts]
        whole = {**first, "cpus": _sum(known, "cpus"), "memory_mb": _sum(known, "memory_mb")}
        whole["pids"] = [pid for sample in known for pid in sample["pids"]]
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


def _gpus_of(gang: Gang, node: NodeName) -> set[str | None]:
    """Return the GPUs of a gang on a host, as CUDA names them."""
    started = (gang.parts[node].record or {}).get("started") or {}
    return set(started.get("gpus", ()))


def _sum(samples: Sequence[Record], name: str) -> Any:
    known = [sample[name] for sample in samples if sample[name] is not None]
    return sum(known) if known else None
