"""Traces for Perfetto, decoded by its own schema and recounted from the run and the log."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from shunter.run import RunResult
from tests.unit.app.recounted import Recounted, recounted

BEGIN, END, INSTANT, COUNTER = (
    TrackEvent.TYPE_SLICE_BEGIN,
    TrackEvent.TYPE_SLICE_END,
    TrackEvent.TYPE_INSTANT,
    TrackEvent.TYPE_COUNTER,
)
PARTS = ("with costs", "failing", "in turns", "packed")


class Decoded:
    """A trace as its schema has it: tracks by number, and slices by track."""

    def __init__(self, path: Path) -> None:
        trace = Trace()
        trace.ParseFromString(path.read_bytes())
        self.tracks = {
            packet.track_descriptor.uuid: packet.track_descriptor
            for packet in trace.packet
            if packet.HasField("track_descriptor")
        }
        self.events = [
            (packet.timestamp // 1000, packet.track_event)
            for packet in trace.packet
            if packet.HasField("track_event")
        ]
        self.slices: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
        begun: dict[int, tuple[str, int]] = {}
        for at_us, event in self.events:
            if event.type == BEGIN:
                assert event.track_uuid not in begun, "slices of one track lie beside each other"
                begun[event.track_uuid] = event.name, at_us
            elif event.type == END:
                name, since_us = begun.pop(event.track_uuid)
                self.slices[event.track_uuid].append((name, since_us, at_us))
        assert not begun, "every slice ends"

    def of(self, name: str) -> int:
        """Return the number of the track of a name."""
        (number,) = (int(uuid) for uuid, track in self.tracks.items() if track.name == name)
        return number

    def values(self, name: str) -> list[tuple[int, float]]:
        """Return the instants and values of a counter."""
        number = self.of(name)
        return [
            (at_us, event.double_counter_value or event.counter_value)
            for at_us, event in self.events
            if event.track_uuid == number
        ]


Run = tuple[RunResult, Decoded, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=PARTS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    found = recounted(request.param, tmp_path_factory)
    drawn = tmp_path_factory.mktemp("drawn") / "run.pftrace"
    found.told("log", "export", found.url, "--perfetto", str(drawn))
    return found.result, Decoded(drawn), found.events


def test_slices_of_a_job_are_the_service_that_it_attained(run: Run) -> None:
    result, decoded, _ = run
    drawn: Counter[str] = Counter()
    for slices in decoded.slices.values():
        for name, since_us, until_us in slices:
            drawn[name.rpartition(".")[0]] += until_us - since_us
    attained = {str(story.job_id): story.service_gpu_us for story in result.stories()}
    assert drawn == {name: us for name, us in attained.items() if us}


def test_slices_lie_on_gpus_of_servers(run: Run) -> None:
    result, decoded, _ = run
    for number in decoded.slices:
        track = decoded.tracks[number]
        assert track.name.startswith("GPU ")
        assert decoded.tracks[track.parent_uuid].name.startswith("server n")
    gpus = [track for track in decoded.tracks.values() if track.name.startswith("GPU ")]
    own = [track for track in gpus if "(" not in track.name]
    assert len(own) == result.document["cluster"]["gpus"]


def test_arrows_join_the_attempts_of_each_job(run: Run) -> None:
    _, decoded, _ = run
    arrows: dict[int, set[str]] = defaultdict(set)
    for _, event in decoded.events:
        for flow in event.flow_ids:
            arrows[flow].add(event.name.rpartition(".")[0])
    assert all(len(jobs) == 1 for jobs in arrows.values())
    begun = {event.name for _, event in decoded.events if event.type == BEGIN}
    joined = {event.name for _, event in decoded.events if event.flow_ids}
    assert joined == begun


def test_decisions_stand_at_their_instants_with_their_reasons(run: Run) -> None:
    _, decoded, events = run
    number = decoded.of("decisions")
    drawn = [
        (at_us, {note.name: note.string_value for note in event.debug_annotations})
        for at_us, event in decoded.events
        if event.track_uuid == number
    ]
    recorded = [event for event in events if event["kind"] == "AllocationChanged"]
    assert [(at_us, said["job"], said["rule"]) for at_us, said in drawn] == [
        (event["at_us"], event["job_id"], event["because"]["rule"]) for event in recorded
    ]


def test_counters_are_those_of_the_log(run: Run) -> None:
    """Waiting and running recounted from submissions, ends and slices; at the end all are 0."""
    _, decoded, events = run
    used = Counter[int]()
    for number, slices in decoded.slices.items():
        if "(" not in decoded.tracks[number].name:
            for _, since_us, until_us in slices:
                used[since_us] += 1
                used[until_us] -= 1
    if not any("(" in track.name for track in decoded.tracks.values()):
        at, now, recounted = dict[int, float](), 0, []
        for at_us, change in sorted(used.items()):
            now += change
            if change:
                recounted.append((at_us, now))
        at = dict(decoded.values("GPUs in use"))
        assert [(at_us, at[at_us]) for at_us, _ in recounted] == recounted
    there = sum(event["kind"] == "JobSubmitted" for event in events)
    waiting, running = decoded.values("jobs that wait"), decoded.values("jobs that run")
    assert waiting[-1][1] == running[-1][1] == decoded.values("GPUs in use")[-1][1] == 0
    assert max(value for _, value in waiting) <= there
    assert max(value for _, value in running) > 1


def test_utilisation_is_the_used_part_of_the_gpus_that_are_up(run: Run) -> None:
    result, decoded, events = run
    assert decoded.tracks[decoded.of("utilisation of GPUs")].counter.unit_name == "%"
    if any(event["kind"] == "NodeLost" for event in events):
        return
    gpus = result.document["cluster"]["gpus"]
    shown = [(at_us, used * 100 / gpus) for at_us, used in decoded.values("GPUs in use")]
    drawn = decoded.values("utilisation of GPUs")
    assert [value for _, value in drawn][1:] == pytest.approx([value for _, value in shown][1:])


def test_each_queue_has_its_length_where_there_are_several(tmp_path: Path) -> None:
    rows = ["job_id,submit_s,duration_s,gpus,queue"]
    rows += [f"j{i},{i},{300 + i},4,{'ab'[i % 2]}" for i in range(12)]
    (tmp_path / "jobs.csv").write_text("\n".join(rows) + "\n")
    workload = {"workload": {"trace": str(tmp_path / "jobs.csv")}}
    found, drawn = Recounted(str(tmp_path / "run.db"), workload), tmp_path / "run.pftrace"
    found.told("log", "export", found.url, "--perfetto", str(drawn))
    decoded = Decoded(drawn)
    in_all = dict(decoded.values("jobs that wait"))
    by_queue = [dict(decoded.values(f"queue {name}: jobs that wait")) for name in "ab"]
    now: list[float] = [0, 0]
    for at_us in sorted({*in_all, *by_queue[0], *by_queue[1]}):
        now = [each.get(at_us, last) for each, last in zip(by_queue, now, strict=True)]
        if at_us >= max(min(each) for each in by_queue):
            assert sum(now) == in_all.get(at_us, sum(now))
    assert sum(now) == 0
    assert max(max(each.values()) for each in by_queue) > 1
