"""GPUs that their driver says are lost, as readings come in from the agents of nodes.

One reading may be a driver that is being reloaded; what two in a row say is believed. A lost GPU
has no UUID any more, so those that were read before are remembered.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from shunter.backends.agents.attempt_records import GpuReading
from shunter.backends.agents.transport import Server
from shunter.backends.inbox import Stamped
from shunter.backends.profiles import EXPLANATIONS, use_told
from shunter.events.facts.cluster import GpuQuarantined
from shunter.events.values.ids import NodeName

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
