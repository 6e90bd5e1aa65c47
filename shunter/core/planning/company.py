"""Who would share which GPUs, as far as a plan has been checked."""

from shunter.core.cluster import Gpu, Health, gpus_of
from shunter.core.state import Job, State
from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.ids import JobId

_UP = Health.up  # members are slow to look up


class Company:
    """The tenants of shared GPUs in the state, and what granted changes made of them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._changed: dict[Gpu, set[JobId]] = {}

    def first_of(self, target: Allocation) -> tuple[Share, ...]:
        """Return the shares without the GPUs that have tenants open to others.

        What is left must be free. GPUs that do not exist or are not to be used are left as well.
        """
        return tuple([self._first(share) for share in target.shares])

    def join(self, job: Job, target: Allocation) -> tuple[Share, ...]:
        """Enter a job; return its shares, with only the GPUs on which it is the first."""
        first = self.first_of(target)
        for share in target.shares:
            for gpu in gpus_of(share):
                self._tenants(gpu).add(job.job_id)
        return first

    def leave(self, job: Job, left: Allocation) -> tuple[Share, ...]:
        """Take a job out; return its shares, with only the GPUs on which it was the last."""
        last = []
        for share in left.shares:
            mask = 0
            for gpu in gpus_of(share):
                tenants = self._tenants(gpu)
                tenants.discard(job.job_id)
                mask |= 0 if tenants else 1 << gpu[1]
            last.append(Share(share.node, mask, share.cpus_milli, share.memory_mb))
        return tuple(last)

    def _first(self, share: Share) -> Share:
        server = self._state.cluster.servers.get(share.node)
        if server is None or server.health is not _UP or share.gpu_mask & ~server.all_gpus:
            return share
        mask = share.gpu_mask
        for gpu in gpus_of(share):
            bit = 1 << gpu[1]
            if self._tenants(gpu) and not bit & server.quarantined:
                mask ^= bit
        return Share(share.node, mask, share.cpus_milli, share.memory_mb)

    def _tenants(self, gpu: Gpu) -> set[JobId]:
        found = self._changed.get(gpu)
        if found is None:
            found = self._changed[gpu] = set(self._state.cluster.deciding.of(gpu))
        return found
