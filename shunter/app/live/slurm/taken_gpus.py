"""GPUs that an earlier term found in the hands of others, told to the backend of this one."""

from collections.abc import Mapping
from functools import partial
from typing import Protocol, runtime_checkable

from shunter.app.live.backends import LiveBackend
from shunter.core.state import State
from shunter.events.facts.cluster import GpusTaken
from shunter.events.values.ids import NodeName

__all__ = ["TellsTakenGpus", "recall_taken_gpus"]


@runtime_checkable
class TellsTakenGpus(Protocol):
    """A backend that tells which GPUs others hold."""

    def recall_taken(self, masks: Mapping[NodeName, int]) -> None:
        """Say which GPUs an earlier term has found in the hands of others."""


def recall_taken_gpus(backend: LiveBackend, state: State) -> None:
    """Have a backend go on from what was told; one that shares none gives back."""
    masks = {name: server.taken for name, server in state.cluster.servers.items() if server.taken}
    if isinstance(backend, TellsTakenGpus):
        backend.recall_taken(masks)
        return
    for node in masks:
        backend.post(partial(GpusTaken, node=node, gpu_mask=0, cause="its backend shares no GPUs"))
