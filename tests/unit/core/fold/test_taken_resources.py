"""What becomes of bookings when others hold CPUs and memory of a server.

Servers of four GPUs, 16 CPUs and 64 MB; tests read: given bookings, when others take, then who
waits.
"""

from collections.abc import Sequence

import pytest

from shunter.core import FoldResult, JobPhase, State
from shunter.core.fold import apply, replay
from shunter.errors import IllegalEventError
from shunter.events import (
    NOTHING,
    Allocation,
    AllocationChanged,
    Because,
    Event,
    GpusTaken,
    Share,
    decode_record,
    encode_record,
)
from tests.factories import attempt_started, job_id, job_submitted, node_added, node_name
from tests.property.invariants import check_state

J0, J1 = job_id(0), job_id(1)
N0, N1 = node_name(0), node_name(1)
SERVERS = tuple(node_added(n, 4, cpus_milli=16_000, memory_mb=64) for n in (0, 1))


def booked(job: int, mask: int, cpus: int, memory_mb: int = 0) -> AllocationChanged:
    share = Share(N0, mask, cpus * 1000, memory_mb)
    return AllocationChanged(0, job_id(job), Allocation((share,)), Because("test"))


BOTH: list[Event] = [
    *SERVERS,
    *(job_submitted(0, 1, cpus_milli=8000), job_submitted(1, 1, cpus_milli=4000)),
    *(booked(0, 0b01, 8), booked(1, 0b10, 4)),
]


def taken(cpus: int, memory_mb: int = 0, at_us: int = 0, gpus: int = 0) -> GpusTaken:
    return GpusTaken(at_us, N0, gpus, "others", cpus * 1000, memory_mb)


def told(history: Sequence[Event], event: Event) -> tuple[State, FoldResult]:
    state = replay(history)
    result = apply(state, event)
    check_state(state, may_be_displaced=True) if not result.displaced else None
    return state, result


def test_what_others_hold_is_free_for_nobody_until_they_leave() -> None:
    state, _ = told(SERVERS, taken(10, 40))
    pool = state.cluster.pools["v100"]
    assert (pool.cpus_free, pool.memory_free) == ([6000, 16_000], [24, 64])

    apply(state, taken(0))
    assert (state.cluster.pools["v100"].cpus_free, pool.memory_free) == ([16_000] * 2, [64, 64])


def test_who_was_submitted_last_gives_way_first_and_no_more_than_need_be() -> None:
    state, result = told(BOTH, taken(6))

    assert [job.job_id for job in result.displaced] == [J1]
    assert (state.jobs[J1].allocation, state.jobs[J1].held) == (NOTHING, NOTHING)
    assert state.cluster.servers[N0].beside_free.cpus_milli == 2000

    _, result = told(BOTH, taken(4))
    assert not result.displaced, "that is just what is left"


def test_who_has_started_keeps_what_it_has_though_others_have_it_too() -> None:
    state, result = told([*BOTH, attempt_started(0)], taken(10))

    assert [job.job_id for job in result.displaced] == [J1]
    assert state.jobs[J0].phase is JobPhase.running
    assert state.cluster.servers[N0].beside_free.cpus_milli == -2000


def test_only_who_has_something_of_what_is_short_gives_way() -> None:
    history: list[Event] = [*SERVERS, job_submitted(0, 1), job_submitted(1, 1)]
    history += [booked(0, 0b01, 0, 60), booked(1, 0b10, 16)]
    _, result = told(history, taken(0, 10))

    assert [job.job_id for job in result.displaced] == [J0]


@pytest.mark.parametrize("event", [taken(17), taken(0, 65), taken(-1)])
def test_no_more_can_be_taken_than_there_is(event: GpusTaken) -> None:
    with pytest.raises(IllegalEventError):
        replay([*SERVERS, event])


def test_a_snapshot_keeps_what_is_taken_and_is_as_before_without_it() -> None:
    state = replay([*BOTH, taken(2, 30)])
    again = decode_record(State, encode_record(state))
    assert encode_record(again) == encode_record(state)
    assert again.cluster.servers[N0].beside_free == state.cluster.servers[N0].beside_free
    before = replay(BOTH)
    apply(state, taken(0))
    before.seq = state.seq
    assert encode_record(state) == encode_record(before), "no field is written for nobody"
