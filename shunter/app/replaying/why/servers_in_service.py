"""Whether servers are drained or lost, where a job waits because too few GPUs are in service.

A round records one reason for both. A drained server is somebody's order, and its jobs run on; so
where all that are missing are drained, the wait is told as that.
"""

from collections.abc import Sequence
from dataclasses import replace

from shunter.app.replaying.why.timeline import Segment
from shunter.events.facts.cluster import (
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeReachable,
    NodeRemoved,
    NodeRestored,
    NodeUnreachable,
)
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.values.ids import GpuType, NodeName
from shunter.events.values.reasons import Reason

_KINDS = frozenset(
    kind.__name__
    for kind in (
        *(NodeAdded, NodeDrained, NodeRestored, NodeLost),
        *(NodeUnreachable, NodeReachable, NodeRemoved),
    )
)


async def told_apart(
    reader: LogReader, segments: Sequence[Segment], gpu_types: Sequence[GpuType], seq: int
) -> list[Segment]:
    """Return parts of waits, told as of drained servers where none is lost.

    Args:
        reader: the log.
        segments: the parts.
        gpu_types: those that the job accepts; none: all.
        seq: the last event that counts.
    """
    if not any(_is_told_as_lost(part) for part in segments):
        return list(segments)
    events = [event for _, event in await reader.events_of(_KINDS, seq)]
    return [
        replace(part, wait=replace(part.wait, reason=Reason.node_drained))
        if _is_told_as_lost(part) and _only_drained(events, gpu_types, part)
        else part
        for part in segments
    ]


def _is_told_as_lost(part: Segment) -> bool:
    """Say whether a round told it: the loss of its own server is the job's own."""
    is_of_servers = part.wait.reason in (Reason.node_lost, Reason.gpu_type_unavailable)
    return is_of_servers and part.told is not None and not part.wait.detail


def _only_drained(events: Sequence[Event], gpu_types: Sequence[GpuType], part: Segment) -> bool:
    """Say whether all servers out of service when a part began were drained.

    Nor may one have been lost since: it ends when the servers are restored, or soon after.
    """
    types: dict[NodeName, GpuType] = {}
    drained: set[NodeName] = set()
    silent: set[NodeName] = set()
    for event in events:
        if event.at_us > part.from_us and not isinstance(event, NodeLost | NodeUnreachable):
            continue
        if event.at_us >= max(part.to_us, part.from_us + 1):
            break
        if isinstance(event, NodeAdded):
            types[event.node] = event.configuration.gpu_type
        elif isinstance(event, NodeDrained):
            drained.add(event.node)
        elif isinstance(event, NodeRestored):
            drained.discard(event.node)
        elif isinstance(event, NodeLost | NodeUnreachable):
            silent.add(event.node)
        elif isinstance(event, NodeReachable):
            silent.discard(event.node)
        elif isinstance(event, NodeRemoved):
            drained.discard(event.node)
            silent.discard(event.node)
    accepted = {node for node, name in types.items() if not gpu_types or name in gpu_types}
    return bool(drained & accepted) and not silent & accepted
