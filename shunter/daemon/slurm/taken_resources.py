"""What an earlier term found in the hands of others, told to the backend of this one."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from shunter.core.state import State
from shunter.daemon.backends import LiveBackend
from shunter.events.facts import GpusTaken
from shunter.events.values import Share


@runtime_checkable
class TellsTakenResources(Protocol):
    """A backend that tells what of its servers others hold."""

    def recall_taken(self, told: Sequence[Share]) -> None:
        """Say what an earlier term has found in the hands of others, server by server."""

    async def tell_taken(self) -> None:
        """Tell what others hold now, as far as that is known soon."""


def recall_taken_resources(backend: LiveBackend, state: State) -> None:
    """Have a backend go on from what was told; one that shares nothing gives back."""
    told = [
        Share(name, server.taken, server.taken_cpus_milli, server.taken_memory_mb)
        for name, server in state.cluster.servers.items()
        if server.is_partly_taken
    ]
    if isinstance(backend, TellsTakenResources):
        backend.recall_taken(told)
        return
    for share in told:
        backend.post(
            partial(GpusTaken, node=share.node, gpu_mask=0, cause="its backend shares nothing")
        )


async def tell_taken_resources(backend: LiveBackend) -> None:
    """Have a backend tell what others hold, so that the first plan knows it."""
    if isinstance(backend, TellsTakenResources):
        await backend.tell_taken()
