"""Whether servers are drained or lost, or others hold GPUs of them, where a job waits for that.

A round records one reason for all. A drained server is somebody's order, and its jobs run on; so
where all that are missing are drained, the wait is told as that. Where there would be enough GPUs
but for those that others hold, it is told as that.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from shunter.ask.replaying.waits import told_apart
from shunter.ask.replaying.why.timeline import Segment
from shunter.core.cluster import Health
from shunter.core.fold import apply
from shunter.core.state import State
from shunter.events.facts.cluster import (
    GpuQuarantined,
    GpuRestored,
    GpusTaken,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeReachable,
    NodeRemoved,
    NodeRestored,
    NodeUnreachable,
)
from shunter.events.facts.run import ConfigChanged, SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.values.ids import GpuType, NodeName
from shunter.events.values.reasons import Reason

_KINDS = frozenset(
    kind.__name__
    for kind in (
        *(NodeAdded, NodeDrained, NodeRestored, NodeLost),
        *(NodeUnreachable, NodeReachable, NodeRemoved),
        *(GpuQuarantined, GpuRestored, GpusTaken),
    )
)


def unheld_by_log(
    terms: Sequence[tuple[int, SchedulerStarted | ConfigChanged]], state: State
) -> frozenset[NodeName]:
    """Return the nodes that Slurm has not given, by what a log says.

    No answer is expected of them: in pilot mode nodes that nothing needs are given back, and are
    silent from then on. One on which something of ours runs is held, and has to answer.
    """
    config = json.loads(terms[-1][1].config) if terms else {}
    backend = config.get("backend", {}) if isinstance(config, dict) else {}
    if backend.get("kind") != "slurm":
        return frozenset()
    used = {share.node for job in state.jobs.values() for share in job.held.shares}
    servers = state.cluster.servers.values()
    silent = (each.name for each in servers if each.health is Health.unreachable)
    return frozenset(name for name in silent if name not in used)


async def segments_told_apart(
    reader: LogReader, segments: Sequence[Segment], gpu_types: Sequence[GpuType], seq: int
) -> list[Segment]:
    """Return parts of waits, told as of drained servers or GPUs others hold.

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
        replace(part, wait=replace(part.wait, reason=_reason_of(events, gpu_types, part)))
        if _is_told_as_lost(part)
        else part
        for part in segments
    ]


def _is_told_as_lost(part: Segment) -> bool:
    """Say whether a round told it: the loss of its own server is the job's own."""
    is_of_servers = part.wait.reason in (Reason.node_lost, Reason.gpu_type_unavailable)
    return is_of_servers and part.told is not None and not part.wait.detail


def _reason_of(events: Sequence[Event], gpu_types: Sequence[GpuType], part: Segment) -> Reason:
    """Return why too few GPUs were in service when a part began.

    Nor may a server have been lost since that is to be told as drained, or as others': a part ends
    when servers are restored, or soon after.
    """
    state = State()
    for event in events:
        if event.at_us >= max(part.to_us, part.from_us + 1):
            break
        if event.at_us <= part.from_us or isinstance(event, NodeLost | NodeUnreachable):
            apply(state, event)
    reason = told_apart(part.wait, gpu_types, state.cluster)
    is_lost = reason is Reason.node_lost
    return part.wait.reason if is_lost else reason
