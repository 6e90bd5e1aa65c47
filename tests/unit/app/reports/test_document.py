"""What a report shows, recomputed from events and from the simulation."""

from collections import Counter, defaultdict
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.ask import PARTS, Curves, Slice, Spot, gantt, jain_index
from shunter.core import State
from shunter.core.fold import apply
from shunter.events import NodeDrained, NodeName
from tests.factories import granted, job_finished, job_submitted, node_added, node_name
from tests.unit.app.reports.conftest import Reported


def test_measures_are_those_that_the_simulation_printed(reported: Reported) -> None:
    for name, value in reported.run["measures"].items():
        found: Any = reported.result.document
        for part in name.split("."):
            found = found[part]
        assert value == found, name
    assert reported.run["counts"] == reported.result.document["jobs"]


def test_queue_is_what_was_submitted_and_held_nothing(reported: Reported) -> None:
    """Sums over time: jobs are there from submission to end, and hold GPUs for their held time."""
    curves, part_s = reported.run["curves"], reported.run["curves"]["part_s"]
    end_us = reported.run["end_us"]
    lengths = [max(0.0, min(part_s, end_us / 1e6 - part * part_s)) for part in range(PARTS)]
    waiting_s = sum(map(float.__mul__, curves["waiting"], lengths))
    running_s = sum(map(float.__mul__, curves["running"], lengths))
    stories = list(reported.result.stories())

    assert running_s == pytest.approx(sum(story.held_us for story in stories) / 1e6, rel=1e-3)
    assert waiting_s == pytest.approx(
        sum(story.wait_us or 0 for story in stories) / 1e6, rel=1e-3, abs=PARTS
    )
    assert all(
        most >= mean - 1e-3
        for most, mean in zip(curves["waiting_most"], curves["waiting"], strict=True)
    )


def test_gpus_in_use_are_the_service_that_was_attained(reported: Reported) -> None:
    curves, part_s = reported.run["curves"], reported.run["curves"]["part_s"]
    lengths = [
        max(0.0, min(part_s, reported.run["end_us"] / 1e6 - part * part_s)) for part in range(PARTS)
    ]
    used_s = sum(map(float.__mul__, curves["gpus_used"], lengths))
    up_s = sum(map(float.__mul__, curves["gpus_up"], lengths))
    document = reported.result.document

    assert document["gpu_utilisation"] is not None
    assert used_s == pytest.approx(
        document["gpu_utilisation"] * up_s * document["makespan_s"] * 1e6 / reported.run["end_us"],
        rel=0.02,
    )
    assert all(0 <= share <= 1 for share in curves["utilisation"] if share is not None)


def test_reasons_are_of_all_jobs_that_wait(reported: Reported) -> None:
    """At the beginning of each part those wait that came and hold nothing, as the log has it."""
    part_us = round(reported.run["curves"]["part_s"] * 1e6)
    if any(event["kind"] == "AttemptStarted" for event in reported.events):
        return  # holding and being told to hold are two instants there
    holds: dict[str, bool] = {}
    counts, events = [], iter(reported.events)
    event = next(events, None)
    for part in range(PARTS):
        while event is not None and event["at_us"] <= part * part_us:
            job_id = str(event.get("job_id"))
            if event["kind"] == "JobSubmitted":
                holds[job_id] = False
            elif event["kind"] == "AllocationChanged":
                holds[job_id] = bool(event["allocation"].get("shares"))
            elif event["kind"] == "AttemptLost":
                holds[job_id] = False
            elif event["kind"] in ("JobFinished", "JobFailed", "JobRejected"):
                holds.pop(job_id)
            event = next(events, None)
        counts.append(sum(not held for held in holds.values()))
    reasons = reported.run["reasons"]
    shown = [sum(counted[part] for counted in reasons.values()) for part in range(PARTS)]
    assert shown == counts


def test_preemptions_are_those_of_the_jobs(reported: Reported) -> None:
    found, document = reported.run["preempted"], reported.result.document
    assert sum(reported.run["curves"]["preempted"]) == document["preemptions"]
    assert sum(each["preemptions"] for each in found["rules"]) == document["preemptions"]
    times = Counter(story.preemptions for story in reported.result.stories())
    assert dict(map(tuple, found["jobs_by_times"])) == times


def test_gantt_shows_who_had_which_gpu_how_long(reported: Reported) -> None:
    drawn: dict[int, int] = defaultdict(int)
    found = reported.run["gantt"]
    for row in found["rows"]:
        flat, end = row["slices"], 0
        for gap, length, job in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            assert gap >= 0
            assert length >= 0
            end += gap + length
            drawn[job] += length
        assert end * found["tick_us"] <= reported.run["end_us"]
    slices = Counter(job for row in found["rows"] for job in row["slices"][2::3])
    for story in reported.result.stories():
        rounded = slices[story.ordinal] * found["tick_us"]
        length_us = drawn[story.ordinal] * found["tick_us"]
        assert abs(length_us - story.service_gpu_us) <= rounded
    assert found["left_out"] == 0


def test_users_share_all_service(reported: Reported) -> None:
    stories = list(reported.result.stories())
    for row in reported.run["fairness"]["rows"]:
        own = [story for story in stories if story.user == row["user"]]
        done = [story for story in own if story.status == "finished"]
        assert row["jobs"] == len(own)
        assert row["gpu_h"] == pytest.approx(sum(story.service_gpu_us for story in own) / 3.6e9)
        if done:
            assert row["jct_s"] == pytest.approx(fmean(story.jct_us or 0 for story in done) / 1e6)
            slow = [(story.jct_us or 0) / story.held_us for story in done if story.held_us]
            assert row["slowdown"] == pytest.approx(fmean(slow))
    assert sum(row["share"] for row in reported.run["fairness"]["rows"]) == pytest.approx(1)


def test_distributions_are_order_statistics(reported: Reported) -> None:
    took = sorted(
        (story.jct_us or 0) / 1e6
        for story in reported.result.stories()
        if story.status == "finished"
    )
    shown = reported.run["jct_s"]
    assert (shown[0], shown[-1]) == (took[0], took[-1])
    assert shown == sorted(shown)
    assert set(shown) <= set(took)


def test_worst_jobs_name_the_command_that_asks(reported: Reported) -> None:
    worst = reported.run["worst"]
    rates = [job["slowdown"] for job in worst]
    assert rates == sorted(rates, reverse=True)
    assert worst[0]["ask"] == f"shunter why {worst[0]['id']} --log {reported.url}"


spans = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(1, 30)), max_size=30)


@given(spans, st.integers(0, 40))
def test_shortest_slices_are_left_out(drawn: list[tuple[int, int, int]], most: int) -> None:
    slices, ends = [], dict[int, int]()
    for ordinal, (gpu, gap, length) in enumerate(drawn):
        since = ends.get(gpu, 0) + gap
        ends[gpu] = since + length
        slices.append(Slice(Spot(NodeName("n"), gpu, 0), since, ends[gpu], ordinal))
    found = gantt(slices, State(), most)

    kept = [
        (row["slices"][i + 1]) for row in found["rows"] for i in range(0, len(row["slices"]), 3)
    ]
    lengths = sorted((each.to_us - each.from_us for each in slices), reverse=True)
    assert sorted(kept, reverse=True) == lengths[:most]
    assert found["left_out"] == len(slices) - len(kept)


@given(st.lists(st.floats(0.1, 1e6), min_size=1))
def test_jain_index_is_between_one_nth_and_one(values: list[float]) -> None:
    index = jain_index(values)
    assert index is not None
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9


def test_jain_index_of_equal_values_is_one() -> None:
    assert jain_index([3.0, 3.0]) == pytest.approx(1)
    assert jain_index([1.0, 0.0]) == pytest.approx(0.5)
    assert jain_index([]) is None


def test_gpus_that_jobs_hold_on_a_drained_server_are_there() -> None:
    """Goal: what is in use is never more than what there is."""
    drained = NodeDrained(PARTS // 2, node_name(0))
    start = (node_added(0, 4), job_submitted(0, 3), granted(0, 0, n0=0b111, instant=True))
    state, curves = State(), Curves(1)
    for event in (*start, drained, job_finished(0, PARTS - 100), node_added(1, 1, at=PARTS)):
        curves.before(event, state)
        curves.take(event, state, apply(state, event))
    curves.close(state)
    assert curves.gpus_used == [3.0] * (PARTS - 100) + [0.0] * 100
    assert curves.gpus_up == [4.0] * (PARTS // 2) + [3.0] * (PARTS // 2 - 100) + [0.0] * 100
