"""Shunter ends every job when the simulator does, on any job list: by the literal one.

Method: random lists with gangs, wide ones and all models, so that demands are capped, gangs lie on
several servers and others shrink for them; both ways of picking GPUs, two to four servers.
"""

import json

import pytest
from hypothesis import given, settings, strategies as st

from shunter.errors import PlanError
from shunter.events import (
    AllocationChanged,
    JobRejected,
    JobSpec,
    PlanRejected,
    RoundPlanned,
    encode_record,
    row_decoder,
)
from shunter_peers.synergy.jobs import Server, played_job
from shunter_peers.synergy.orders import Order, ordered
from shunter_peers.synergy.policy import PeerMemory
from shunter_peers.synergy.rounds import Rounds, Rules
from shunter_peers.synergy.servers import Servers
from tests.factories import Outcome, job_id
from tests.peers.synergy.literal import MECHANISMS, MODELS, ORDERS, PeerJob, peer_run
from tests.peers.synergy.played import ends_s, play

HOURS_1000 = 1000 * 3600


@st.composite
def job_lists(draw: st.DrawFn, *, servers: int) -> list[PeerJob]:
    """Return jobs in the order of arrival, all at the beginning or over some hours."""
    widths = draw(st.sampled_from([[1], [1, 1, 2, 4, 8], [1, 2, 3, 5, 6, 7], [1, 4, 9, 12, 16]]))
    at_s = draw(st.sampled_from([0.0, 8.0, 300.0, 299.5]))
    found: list[PeerJob] = []
    for number in range(draw(st.integers(1, 24))):
        found.append(
            PeerJob(
                f"j{number}",
                draw(st.sampled_from(sorted(MODELS))),
                at_s,
                draw(st.sampled_from([1, 400, 3000, 26_435]) | st.integers(1, 9000)),
                min(draw(st.sampled_from(widths)), 8 * servers),
            )
        )
        at_s = round(at_s + draw(st.sampled_from([0.0, 0.001, 40.5, 300.0, 700.0])), 3)
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=12)
@given(data=st.data(), servers=st.integers(2, 4), place=st.booleans())
def test_every_job_ends_when_the_peer_says(
    order: str, mechanism: str, data: st.DataObject, servers: int, *, place: bool
) -> None:
    jobs = data.draw(job_lists(servers=servers))
    expected = peer_run(jobs, order, mechanism, servers=servers, place=place)

    outcome = play(jobs, servers, order=order, mechanism=mechanism, place=place)

    assert not expected.is_stuck
    assert ends_s(outcome) == expected.ends
    counts = counted(outcome)
    assert counts == (expected.rounds, expected.adjustments, expected.peers, expected.switches)
    assert len(outcome.of(RoundPlanned)) == expected.rounds
    assert not outcome.of(PlanRejected)


def counted(outcome: Outcome) -> tuple[int, int, int, int]:
    """Return rounds, adjustments, jobs that shrank for others, and those that did so alone."""
    memory = outcome.core.memory
    assert isinstance(memory, PeerMemory)
    assert memory.rounds is not None
    counts = memory.rounds.counts
    return counts.rounds, counts.adjustments, counts.peers, counts.own_switches


def test_jobs_of_a_static_trace_are_first_looked_at_after_a_second() -> None:
    """Method: an arrival at 0 makes a trace static; others begin with the next full 300 s."""
    assert ends_s(play([PeerJob("j0", "gnmt", 0.0, 1)])) == {"j0": 301}
    assert ends_s(play([PeerJob("j0", "gnmt", 0.001, 1)])) == {"j0": 600}
    assert ends_s(play([PeerJob("j0", "gnmt", 300.0, 1)])) == {"j0": 600}


def test_what_is_left_of_a_round_is_lost() -> None:
    """Method: 300 / 0.67 = 447.8 iterations fit into a round, and the rest of it counts nowhere."""
    done = [PeerJob("j0", "transformer", 8.0, 2 * 447), PeerJob("j1", "transformer", 8.0, 895)]
    assert ends_s(play(done)) == {"j0": 900, "j1": 1200}


TIED_S = (0.0, 593.0, 1014.0, 1014.0, 1014.0)


def test_jobs_of_one_arrival_come_as_the_peer_takes_them_from_its_heap() -> None:
    """Method: the ends are those of the public simulator itself, of which job 5 is before job 3."""
    jobs = [PeerJob(f"j{n}", "gnmt", at_s, 10_000, 4) for n, at_s in enumerate(TIED_S, 1)]

    ends = {"j1": 1201, "j2": 1801, "j4": 2401, "j5": 3001, "j3": 3601}
    assert ends_s(play(jobs, 1, order="srtf", mechanism="tune")) == ends
    assert peer_run(jobs, "srtf", "tune", servers=1).ends == ends


def test_equals_stay_in_the_order_in_which_the_last_round_left_them() -> None:
    """Method: 4 comes before 3 and 5; the public simulator sorts in place, so that 5 ends first."""
    jobs = [PeerJob(f"j{n}", "gnmt", at_s, 5000, 8) for n, at_s in enumerate(TIED_S, 1)]

    ends = {"j1": 601, "j2": 1201, "j5": 2401, "j3": 2701, "j4": 3001}
    assert ends_s(play(jobs, 1, order="las", mechanism="proportional")) == ends
    assert peer_run(jobs, "las", "proportional", servers=1).ends == ends


def test_job_that_arrives_after_a_round_without_jobs_is_never_looked_at() -> None:
    jobs = [PeerJob("j0", "gnmt", 8.0, 1), PeerJob("j1", "gnmt", 600.0, 1)]
    late = PeerJob("j2", "gnmt", 900.001, 1)

    outcome = play([*jobs, late])

    assert ends_s(outcome) == {"j0": 600, "j1": 900}
    assert [*outcome.state.jobs] == ["j2"]


def test_job_wider_than_the_cluster_is_rejected_where_the_peer_would_never_end() -> None:
    jobs = [PeerJob("j0", "gnmt", 8.0, 1, 17), PeerJob("j1", "gnmt", 9.0, 1, 16)]

    outcome = play(jobs, servers=2)

    assert ends_s(outcome) == {"j1": 600}
    assert [event.job_id for event in outcome.of(JobRejected)] == ["j0"]


@pytest.mark.parametrize(
    ("model", "gpus", "best", "speedup"),
    [
        ("alexnet", 1, (12, 125), 2.94),
        ("alexnet", 4, (24, 500), 1 + 1.94 * (24 - 12) / (48 - 12)),
        ("alexnet", 8, (24, 500), 1.0),
        ("m5", 3, (18, 500), 2.5),
        ("m5", 4, (24, 500), 2.5),
        ("gnmt", 16, (16, 320), 1.0),
        ("res18", 12, (36, 750), 1.0),
        ("res50", 5, (20, 312.5), 1.15),
    ],
)
def test_best_demand_is_clipped_to_one_server(
    model: str, gpus: int, best: tuple[float, float], speedup: float
) -> None:
    """The speedup is interpolated in CPUs only; wider jobs than a server have none (C14)."""
    spec = JobSpec(gpus=gpus, model=model, total_steps=1)

    job = played_job(job_id(), 0, spec, 0, Server())

    assert job.best == best
    assert job.best_speedup == pytest.approx(speedup, rel=1e-12)


def test_floats_compared_exactly_leave_no_room_on_an_empty_server() -> None:
    """Method: 7 x (500/7) is more than 500 in floats (C8)."""
    exact = Servers.empty(2, Server(), 0.0, is_packed=False)
    tolerant = Servers.empty(2, Server(), 1e-9, is_packed=False)

    assert exact.take(7, 21 / 7, 500 / 7) == [(0, 6), (1, 1)]
    assert tolerant.take(7, 21 / 7, 500 / 7) == [(0, 7)]


def test_run_ends_with_an_error_where_exact_floats_make_the_simulator_exit() -> None:
    """Method: what two jobs of seven GPUs leave of memory is a last digit too little (C8)."""
    models = (("m5", 1), ("alexnet", 7), ("mobilenet", 1), ("m5", 7))
    jobs = [PeerJob(f"j{n}", model, n / 1000, 2000, gpus) for n, (model, gpus) in enumerate(models)]

    with pytest.raises(PlanError, match=r"job j3 of 7 GPUs finds no room .* exits here"):
        play(jobs, 2, tolerance=0.0)

    assert len(ends_s(play(jobs, 2))) == 4


@pytest.mark.parametrize("order", [order for order in ORDERS if order != "fifo"])
def test_job_without_a_lease_for_1000_hours_goes_first_from_then_on(order: Order) -> None:
    """Method: two jobs for all GPUs, of which the second has the smaller key in no round."""
    rounds = Rounds(1, Server())
    for number, total in enumerate((9, 9_000_000)):
        spec = JobSpec(gpus=8, model="gnmt", total_steps=total)
        rounds.arrive(played_job(job_id(number), number, spec, 0, Server()))
    first, second = rounds.jobs.values()
    first.left = first.total = 9_000_000 if order == "ftf" else 9
    order_of = ordered([first, second], order, 1, (8, 24.0, 500.0), is_fair=False)
    starved, favoured = order_of[1], order_of[0]
    starved.idle_since_s = -HOURS_1000

    rules = Rules(order, "greedy")
    rounds.play(rules)
    assert ([*rounds.seats], starved.is_urgent) == ([favoured.job_id], True)
    rounds.play(rules)
    assert [*rounds.seats] == [starved.job_id]


def test_memory_is_the_same_once_written_and_read() -> None:
    jobs = [PeerJob(f"j{n}", "alexnet", 8.0 + n, 9000, 1 + n % 4) for n in range(9)]
    memory = play(jobs, 2, order="srtf").core.memory

    assert row_decoder(PeerMemory)(json.loads(encode_record(memory))) == memory


def test_job_keeps_its_gpus_while_it_stays_on_its_server() -> None:
    """Method: the job before it in the walk ends, and it would come to lie on other GPUs."""
    jobs = [PeerJob("j0", "gnmt", 8.0, 1, 2), PeerJob("j1", "gnmt", 9.0, 9000, 2)]

    changes = play(jobs, 1).of(AllocationChanged)

    assert [(each.job_id, each.allocation.shares[0].gpu_mask) for each in changes] == [
        ("j0", 0b0011),
        ("j1", 0b1100),
    ]
