"""What a live cluster knows of run times that nobody declared."""

from typing import Any

import pytest

from shunter.core import Job, SubmitJob, expected_us, remaining_us, total_us
from shunter.core.planning import Consolidated, Placement, Skew
from shunter.core.ranking import RankedPolicy
from shunter.core.speeds import MeasuredRate
from shunter.events import AttemptStarted, ProfileSampled
from shunter.policies import UNKNOWN_US, RemainingTime
from tests.factories import World, job_id, job_spec, servers


def job(**fields: Any) -> Job:
    spec = job_spec(**fields)
    return Job(job_id(0), 0, spec, spec.demand(), 0)


def test_steps_left_at_the_pace_seen_fall_as_it_works() -> None:
    running = job(total_steps=100)
    running.measured_rate = MeasuredRate(step=40, batch_us=10, at_us=1000)
    running.since_us = running.working_since_us = 500
    assert remaining_us(running, 1000) == 600
    assert remaining_us(running, 1250) == 350
    assert remaining_us(running, 1600) == remaining_us(running, 2000) == 0
    assert total_us(running) == 1000


def test_waiting_job_keeps_what_it_had_left() -> None:
    waiting = job(total_steps=100)
    waiting.measured_rate = MeasuredRate(step=40, batch_us=10, at_us=1000)
    assert remaining_us(waiting, 9_000_000) == 600


def test_limit_counts_where_there_is_no_pace() -> None:
    limited = job(total_steps=100, time_limit_us=500)
    limited.since_us = 100
    assert remaining_us(limited, 300) == 300
    assert remaining_us(limited, 700) == 0
    assert total_us(limited) == 500


def test_job_of_which_nothing_is_known_has_no_estimate() -> None:
    assert remaining_us(job(), 5) is None
    assert total_us(job()) is None


@pytest.mark.parametrize("placement", [Consolidated(), Skew()])
def test_oracle_ranks_by_samples_where_nothing_was_declared(placement: Placement) -> None:
    """Goal: srtf works live. Method: a sample moves a running job, an unknown one stays last."""
    chosen = RankedPolicy(RemainingTime(), placement)
    core, _ = World(servers=servers(4)).scheduler(chosen, instant=False)
    core.step(0, [SubmitJob(0, job_id(n), job_spec(total_steps=100)) for n in (0, 1)])
    core.step(1, [AttemptStarted(1, job_id(n), 1) for n in (0, 1)])
    core.step(9, [ProfileSampled(9, job_id(0), 1, step=50, batch_s=1e-5)])
    core.view.open()
    ranks = [RemainingTime().standing(core.state.jobs[job_id(n)], core.view)[0] for n in (0, 1)]
    assert ranks == [9 + 50 * 10, UNKNOWN_US]
    assert core.memory.entries[job_id(0)].key < core.memory.entries[job_id(1)].key


def test_job_of_which_nothing_is_known_is_taken_to_run_for_as_long_again() -> None:
    running = job()
    running.since_us = running.working_since_us = 500
    running.held_us = 100  # of an earlier attempt
    assert remaining_us(running, 1_000) is None
    assert expected_us(running, 1_000) == 600
    limited = job(time_limit_us=800)
    limited.since_us = limited.working_since_us = 500
    assert expected_us(limited, 1_000) == 300
