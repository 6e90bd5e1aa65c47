"""A log as a trace for the Perfetto viewer: servers and GPUs as tracks, attempts as slices.

    cluster      decisions as instants, with their reasons; jobs that wait (in all, and in each
                 queue, if there are several) and run, GPUs in use, utilisation
    server n1    what became of it as instants
      GPU 0      the attempts that had it as slices, with arrows from each attempt to the next one

Written with the schema of the package `perfetto` (Apache 2.0), one packet after the other, in order
of time. Timestamps are the log's, in nanoseconds.
"""

from collections.abc import Mapping
from typing import IO, Any, Final

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from shunter.ask.log_reading import Advance, Follower, LogFold
from shunter.ask.run_history import JobCounts, Occupancy, Spot, jobs_of
from shunter.ask.words import because_in_words
from shunter.core import FoldResult, State, UsableGpus
from shunter.events import (
    CLUSTER_CHANGES,
    AllocationChanged,
    Event,
    JobId,
    NodeAdded,
    NodeName,
    QueueName,
)
from shunter.events.log import LogReader

_ABOUT_SERVERS = frozenset(kind for kind in CLUSTER_CHANGES if "node" in kind.__annotations__)

_Said = Mapping[str, str | int]
_SEQUENCE: Final = 1
_CLUSTER: Final = 1
_DECISIONS: Final = 2
_UTILISATION: Final = "utilisation of GPUs"
_COUNTERS: Final = {"jobs that wait": 3, "jobs that run": 4, "GPUs in use": 5, _UTILISATION: 6}
_FIRST_FREE: Final = 16
"""Numbers of tracks; from the last one on they are servers' and GPUs'."""


async def write_perfetto(
    reader: LogReader, file: IO[bytes], to: int, advance: Advance | None = None
) -> int:
    """Write a log up to an event as a trace; return how many packets that were.

    Raises:
        LogDamagedError: the bytes are not what was written.
        IllegalEventError: an event does not fit those before it.
    """
    drawing = _Drawing(file)
    state = await LogFold(reader).forward(to, (drawing,), advance)
    drawing.close(state.now_us)
    return drawing.packets


class _Drawing(Follower):
    """Draws what changes with each event.

    `_counts` is how many jobs stand how; `_told` are the counters as they were written last.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.packets = 0
        self._builder = StreamingTraceProtoBuilder(file)
        self._occupancy = Occupancy()
        self._servers: dict[NodeName, int] = {}
        self._gpus: dict[Spot, int] = {}
        self._next = _FIRST_FREE
        self._counts = JobCounts()
        self._usable = UsableGpus()
        self._told: dict[str, float] = {}
        self._counters: dict[str, int] = dict(_COUNTERS)
        self._track(_CLUSTER, "cluster")
        self._track(_DECISIONS, "decisions", _CLUSTER)
        for rank, (name, uuid) in enumerate(_COUNTERS.items(), 1):
            unit = "%" if name == _UTILISATION else ""
            self._track(uuid, name, _CLUSTER, rank, unit=unit)

    def before(self, event: Event, state: State) -> None:
        """Write the counters of an instant once it is over."""
        if event.at_us != state.now_us:
            self._count(state.now_us)

    def take(self, event: Event, state: State, result: FoldResult) -> None:
        """Draw what an event has changed."""
        kind = type(event)
        if kind in _ABOUT_SERVERS:
            self._server(event)
        if kind in CLUSTER_CHANGES:
            self._usable.servers_changed(state.cluster)
        else:
            self._usable.holders_changed()
        for job_id in jobs_of(event, result):
            self._job(job_id, event, state)
        if isinstance(event, AllocationChanged):
            self._decision(event)

    def close(self, at_us: int) -> None:
        """End what is drawn where the log ends."""
        self._count(at_us)
        for spot in self._occupancy.left_over():
            self._event(self._gpus[spot], at_us, TrackEvent.TYPE_SLICE_END)

    def _job(self, job_id: JobId, event: Any, state: State) -> None:
        """Draw what a job has now, if that has changed."""
        at_us = event.at_us
        left, taken = self._occupancy.take(job_id, event, state)
        for spot in left:
            self._event(self._gpu(spot), at_us, TrackEvent.TYPE_SLICE_END)
        job = state.jobs.get(job_id)
        if taken and job is not None:
            name = f"{job_id}.{job.attempt}"
            for number, spot in enumerate(taken):
                flow = 0 if number else job.ordinal + 1
                said: _Said = {"user": job.spec.user, "gpus": job.spec.gpus} if flow else {}
                track = self._gpu(spot)
                self._event(track, at_us, TrackEvent.TYPE_SLICE_BEGIN, name, said, flow)
        self._counts.note(job_id, state)

    def _decision(self, event: AllocationChanged) -> None:
        """Draw what was decided for a job, and why."""
        shares, because = event.allocation.shares, event.because
        said: dict[str, str | int] = {
            "job": event.job_id,
            "rule": because.rule,
            "because": because_in_words(because),
            "gpus": event.allocation.gpus,
            "servers": ", ".join(share.node for share in shares),
            "for": ", ".join(because.beneficiaries),
        }
        name = f"{'start' if shares else 'stop'} {event.job_id}: {because.rule}"
        told = {key: value for key, value in said.items() if value not in ("", 0)}
        self._event(_DECISIONS, event.at_us, TrackEvent.TYPE_INSTANT, name, told)

    def _server(self, event: Any) -> None:
        track = self._server_track(event.node)
        said = {"cause": event.cause} if getattr(event, "cause", "") else {}
        self._event(track, event.at_us, TrackEvent.TYPE_INSTANT, type(event).__name__, said)
        if isinstance(event, NodeAdded):
            for gpu in range(event.configuration.gpus):
                self._gpu(Spot(event.node, gpu, 0))

    def _count(self, at_us: int) -> None:
        """Write the counters that are others now than when they were written last."""
        used, up = self._occupancy.used, self._usable.count
        counts = self._counts
        values = (counts.waiting, counts.running, used, 100 * used / up if up else 0.0)
        now: dict[str, float] = dict(zip(_COUNTERS, values, strict=True))
        if len(counts.by_queue) > 1:
            now.update({_queue(name): count for name, count in counts.by_queue.items()})
        for name, value in now.items():
            if self._told.get(name) != value:
                packet = self._packet(self._counter(name), at_us, TrackEvent.TYPE_COUNTER)
                if name == _UTILISATION:
                    packet.track_event.double_counter_value = value
                else:
                    packet.track_event.counter_value = int(value)
                self._write(packet)
        self._told = now

    def _counter(self, name: str) -> int:
        """Return the track of a counter; that of a queue begins with its first value."""
        track = self._counters.get(name)
        if track is None:
            track, self._next = self._next, self._next + 1
            self._counters[name] = track
            self._track(track, name, _CLUSTER, len(self._counters), unit="")
        return track

    def _server_track(self, node: NodeName) -> int:
        track = self._servers.get(node)
        if track is None:
            track = self._servers[node] = self._new_track(f"server {node}", 0, len(self._servers))
        return track

    def _gpu(self, spot: Spot) -> int:
        track = self._gpus.get(spot)
        if track is None:
            name = f"GPU {spot.gpu}" + (f" ({spot.lane + 1})" if spot.lane else "")
            rank = spot.gpu * 1000 + spot.lane
            track = self._new_track(name, self._server_track(spot.node), rank)
            self._gpus[spot] = track
        return track

    def _new_track(self, name: str, parent: int, rank: int) -> int:
        number, self._next = self._next, self._next + 1
        self._track(number, name, parent, rank)
        return number

    def _track(
        self, number: int, name: str, parent: int = 0, rank: int = 0, *, unit: str | None = None
    ) -> None:
        """Write what a track is; one with a unit, which may be empty, is a counter."""
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        track = packet.track_descriptor
        track.uuid, track.name = number, name
        if parent:
            track.parent_uuid = parent
        track.sibling_order_rank = rank
        track.child_ordering = track.EXPLICIT
        if unit is not None:
            track.counter.SetInParent()
            if unit:
                track.counter.unit_name = unit
        self._write(packet)

    def _event(
        self,
        track: int,
        at_us: int,
        kind: int,
        name: str = "",
        said: _Said | None = None,
        flow: int = 0,
    ) -> None:
        packet = self._packet(track, at_us, kind)
        event = packet.track_event
        if name:
            event.name = name
        if flow:
            event.flow_ids.append(flow)
        for key, value in (said or {}).items():
            note = event.debug_annotations.add()
            note.name = key
            if isinstance(value, str):
                note.string_value = value
            else:
                note.int_value = value
        self._write(packet)

    def _packet(self, track: int, at_us: int, kind: int) -> TracePacket:
        packet = self._builder.create_packet()
        packet.timestamp = at_us * 1000
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def _write(self, packet: TracePacket) -> None:
        self._builder.write_packet(packet)
        self.packets += 1


def _queue(name: QueueName) -> str:
    return f"queue {name}: jobs that wait"
