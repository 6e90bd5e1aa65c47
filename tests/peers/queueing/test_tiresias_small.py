"""The public Tiresias simulator in the small: its quirks one at a time, by hand.

Ends are those of the peer, or follow from its rules in a few lines. A job is its GPUs, submission
and length.
"""

import pytest

from shunter.policies import builtin_history
from tests.peers.played import ends_s, play_tiresias
from tests.peers.tiresias_literal import LIMITS, PeerJob, Quirks, gittins_table, peer_run

Rows = tuple[tuple[int, int, int], ...]

C2: Rows = ((8, 0, 5000), (4, 1000, 8000), (8, 1625, 250))
C3: Rows = ((8, 0, 2000), (8, 500, 1000), (4, 1500, 1000))
ROUGH = Quirks()
FORGETS = Quirks(remembered_ends=False)


def jobs_of(rows: Rows) -> list[PeerJob]:
    return [PeerJob(str(number), *row) for number, row in enumerate(rows, start=1)]


def played(rows: Rows, schedule: str, gpus: int = 8) -> tuple[int, ...]:
    ends = ends_s(play_tiresias(jobs_of(rows), gpus, schedule))
    return tuple(ends[str(number + 1)] for number in range(len(rows)))


def literal(rows: Rows, schedule: str, quirks: Quirks, gpus: int = 8) -> tuple[int, ...]:
    ends = peer_run(jobs_of(rows), gpus, schedule, quirks=quirks, samples=(1,)).ends_s
    return tuple(ends[str(number + 1)] for number in range(len(rows)))


def test_waiting_before_a_run_and_after_a_promotion_does_not_count() -> None:
    assert played(C2, "dlas-gpu-1") == literal(C2, "dlas-gpu-1", ROUGH) == (10522, 13250, 2250)


def test_stopped_job_ends_with_the_arrival_that_remembers_it() -> None:
    assert played(C3, "dlas-gpu-1") == literal(C3, "dlas-gpu-1", ROUGH) == (3500, 1500, 2500)


def test_stopped_job_goes_on_without_the_quirk() -> None:
    assert literal(C3, "dlas-gpu-1", FORGETS) == (4000, 3000, 2500)


def test_wide_job_is_passed_by_for_ever_by_its_own_queue() -> None:
    rows: Rows = ((4, 0, 700), (8, 10, 100), (4, 20, 700), (4, 690, 700), (4, 710, 700))
    assert played(rows, "dlas-gpu")[1] > played(rows, "fifo")[1]


def test_knob_of_one_half_is_written_05() -> None:
    rows: Rows = ((8, 0, 3000), (8, 100, 3000), (8, 200, 3000))
    half, whole = played(rows, "dlas-gpu-05"), played(rows, "dlas-gpu-1")
    assert half == literal(rows, "dlas-gpu-05", ROUGH)
    assert half != whole == literal(rows, "dlas-gpu-1", ROUGH)


def test_ties_of_shortest_gpu_keep_the_order_of_the_last_event() -> None:
    """j2 has 200 GPU-seconds left throughout; j1 has passed it and come back level at 100."""
    rows: Rows = ((1, 0, 300), (2, 50, 100), (1, 100, 200), (2, 100, 1000))
    assert played(rows, "shortest-gpu", 2) == literal(rows, "shortest-gpu", ROUGH, 2)


def test_index_of_a_new_job_is_the_documented_one() -> None:
    samples = [sample_us // 1_000_000 for sample_us in builtin_history("yarn-gput1000")]
    table = gittins_table(samples)
    assert len(samples) == 1001
    assert table(0) == pytest.approx(299.701, abs=5e-4)
    assert table(samples[-2]) == table(samples[-1]) == 0.0


def test_queue_limits_are_those_of_the_public_code() -> None:
    assert LIMITS == (3250, 7200)
