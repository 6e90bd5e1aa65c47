"""Gauges of the cluster that are counted from the state."""

from collections.abc import Sequence

from hypothesis import given, strategies as st

from shunter.api import gpus_by_queue
from shunter.core import State
from shunter.core.fold import replay
from shunter.events import Allocation, AllocationChanged, Because, Event, QueueName, Share, Sharing
from tests.factories import job_id, job_submitted, node_added, node_name

A, B, C = QueueName("a"), QueueName("b"), QueueName("c")
LABELS = {A: "a", B: "other", C: "other"}


def shared(places: Sequence[tuple[QueueName, int, int]]) -> State:
    """Return a state in which each job has its turns on one of two servers with four GPUs."""
    events: list[Event] = [node_added(0, 4), node_added(1, 4)]
    for number, (queue, node, mask) in enumerate(places):
        gang = Allocation((Share(node_name(node), mask),), Sharing.sliced)
        events.append(job_submitted(number, mask.bit_count(), queue=queue))
        events.append(AllocationChanged(0, job_id(number), gang, Because("test")))
    return replay(events)


def test_gpu_that_jobs_of_a_queue_share_counts_once() -> None:
    """Seven jobs with turns on four GPUs have four, not seven."""
    state = shared([(A, 0, 1 << number % 4) for number in range(7)])
    assert state.queues[A].gpus == 7  # a quota counts each
    assert gpus_by_queue(state, LABELS) == {"a": 4, "other": 0}


@given(
    places=st.lists(
        st.tuples(st.sampled_from([A, B, C]), st.integers(0, 1), st.integers(1, 15)), max_size=9
    )
)
def test_gpus_of_a_label_are_those_that_any_of_its_jobs_has(
    places: list[tuple[QueueName, int, int]],
) -> None:
    """Counts GPU by GPU; one that jobs of two labels share is in both."""
    found = gpus_by_queue(shared(places), LABELS)
    for label in ("a", "other"):
        gpus = {
            (node, index)
            for queue, node, mask in places
            for index in range(4)
            if LABELS[queue] == label and mask >> index & 1
        }
        assert found[label] == len(gpus)
