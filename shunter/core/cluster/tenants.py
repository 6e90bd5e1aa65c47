"""Who shares which GPUs: the one exception to a GPU's belonging to one job.

A GPU with a tenant that does not share it stands in no list here; the bitmaps of its server say all
there is to say. One that is shared has its tenants in order of submission, whatever the order in
which they came, so that the lists follow from the jobs alone. A GPU with one tenant left stays
open to others: nobody else may have it to himself while that one is there.
"""

from bisect import insort
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field

from shunter.errors import IllegalEventError
from shunter.events.values import Allocation, JobId, NodeName, Share, Sharing

Gpu = tuple[NodeName, int]

_SLICED = Sharing.sliced  # members are slow to look up


def gpus_of(share: Share) -> list[Gpu]:
    """Return the GPUs of a share, lowest first."""
    mask, found = share.gpu_mask, []
    assert mask >= 0, "a mask has no bits before the first"
    while mask:
        found.append((share.node, (mask & -mask).bit_length() - 1))
        mask &= mask - 1
    return found


@dataclass(slots=True)
class Tenants:
    """The tenants of each shared GPU, and how many are beyond one a GPU at once.

    Of those that take turns one at most has a GPU at once.
    """

    by_gpu: dict[Gpu, list[tuple[int, JobId]]] = field(default_factory=dict)
    overcommit: int = 0

    def join(self, ordinal: int, job_id: JobId, what: Allocation) -> tuple[Share, ...]:
        """Enter a job; return its shares, with only the GPUs on which it is the first.

        Raises:
            IllegalEventError: it is there already.
        """
        first = []
        for share in what.shares:
            mask = 0
            for gpu in gpus_of(share):
                tenants = self.by_gpu.setdefault(gpu, [])
                if (ordinal, job_id) in tenants:
                    raise IllegalEventError(f"job {job_id} was put on GPU {gpu} twice")
                if tenants:
                    self.overcommit += what.sharing is not _SLICED
                else:
                    mask |= 1 << gpu[1]
                insort(tenants, (ordinal, job_id))
            first.append(Share(share.node, mask, share.cpus_milli, share.memory_mb))
        return tuple(first)

    def leave(self, ordinal: int, job_id: JobId, what: Allocation) -> tuple[Share, ...]:
        """Take a job out; return its shares, with only the GPUs on which it was the last.

        Raises:
            IllegalEventError: it is not there.
        """
        last = []
        for share in what.shares:
            mask = 0
            for gpu in gpus_of(share):
                tenants = self.by_gpu.get(gpu, [])
                if (ordinal, job_id) not in tenants:
                    raise IllegalEventError(f"job {job_id} left GPU {gpu}, where it is not")
                tenants.remove((ordinal, job_id))
                if tenants:
                    self.overcommit -= what.sharing is not _SLICED
                else:
                    del self.by_gpu[gpu]
                    mask |= 1 << gpu[1]
            last.append(Share(share.node, mask, share.cpus_milli, share.memory_mb))
        return tuple(last)

    def of(self, gpu: Gpu) -> tuple[JobId, ...]:
        """Return the tenants of a GPU in order of submission; nobody if it is not shared."""
        return tuple([job_id for _, job_id in self.by_gpu.get(gpu, ())])

    def emptied(self, shares: Iterable[Share], leaving: Container[JobId]) -> tuple[Share, ...]:
        """Return some shares of a packed job, with only the GPUs whose tenants all leave."""
        return tuple(
            [
                _only(share, lambda gpu: all(who in leaving for who in self.of(gpu)))
                for share in shares
            ]
        )

    def beside(self, job_id: JobId, shares: Iterable[Share]) -> tuple[JobId, ...]:
        """Return who shares GPUs with a job, in order of submission."""
        found = {
            tenant
            for share in shares
            for gpu in gpus_of(share)
            for tenant in self.by_gpu.get(gpu, ())
            if tenant[1] != job_id
        }
        return tuple([tenant[1] for tenant in sorted(found)])


class PlannedTenants:
    """The tenants of shared GPUs in a draft: those of today, and its changes."""

    __slots__ = ("_changed", "_today")

    def __init__(self, today: Tenants) -> None:
        self._today = today
        self._changed: dict[Gpu, frozenset[JobId]] = {}

    def of(self, gpu: Gpu) -> frozenset[JobId]:
        """Return the tenants of a GPU; nobody if it is not shared."""
        found = self._changed.get(gpu)
        return frozenset(self._today.of(gpu)) if found is None else found

    def unopened(self, share: Share, usable: int) -> Share:
        """Return a share without the usable GPUs that have tenants already."""
        known = Share(share.node, share.gpu_mask & usable)
        opened = _only(known, lambda gpu: bool(self.of(gpu))).gpu_mask
        return Share(share.node, share.gpu_mask ^ opened, share.cpus_milli, share.memory_mb)

    def join(self, job_id: JobId, shares: Sequence[Share]) -> Callable[[], None]:
        """Enter a job; return what undoes that."""
        return self._change(shares, lambda tenants: tenants | {job_id})

    def leave(self, job_id: JobId, shares: Sequence[Share]) -> Callable[[], None]:
        """Take a job out; return what undoes that."""
        return self._change(shares, lambda tenants: tenants - {job_id})

    def abandoned(self, share: Share) -> Share:
        """Return a share with only the GPUs on which nobody is left."""
        return _only(share, lambda gpu: not self.of(gpu))

    def _change(
        self, shares: Sequence[Share], change: Callable[[frozenset[JobId]], frozenset[JobId]]
    ) -> Callable[[], None]:
        before = {gpu: self.of(gpu) for share in shares for gpu in gpus_of(share)}
        self._changed.update({gpu: change(tenants) for gpu, tenants in before.items()})
        return lambda: self._changed.update(before)


def _only(share: Share, belongs: Callable[[Gpu], bool]) -> Share:
    """Return a share with only some of its GPUs, and all of its CPUs and memory."""
    mask = sum(1 << gpu[1] for gpu in gpus_of(share) if belongs(gpu))
    return Share(share.node, mask, share.cpus_milli, share.memory_mb)
