"""Gangs over several servers that take turns, on the virtual clock."""

from collections import Counter

import pytest

from shunter.backends.simulated import Slicing
from shunter.core import State
from shunter.core.fold import apply
from shunter.core.planning import PLACEMENTS
from shunter.events import Event, JobFinished, JobId, TurnEnded, TurnStarted
from shunter.policies.gandiva import Gandiva
from shunter.workloads import TraceJob
from tests.factories import World, job_id, run, servers, trace_job

QUANTUM_US = 10


def played(gpus: tuple[int, ...], *jobs: TraceJob, switch_us: int = 0) -> list[Event]:
    slicing = Slicing(QUANTUM_US, switch_us)
    policy = Gandiva.build(Gandiva.Params(), PLACEMENTS["consolidated"]())
    world = World(servers=servers(*gpus), jobs=jobs, slicing=slicing)
    return run(world, policy).events


def shares(events: list[Event], upto_us: int) -> dict[JobId, float]:
    """Return the part of the time up to an instant in which each job worked."""
    state, had = State(), dict[JobId, float]()
    for event in events:
        if event.at_us > upto_us:
            break
        apply(state, event)
    for job in state.jobs.values():
        had[job.job_id] = job.service_us(upto_us) / job.held.gpus / upto_us
    return had


def test_two_wide_gangs_have_half_of_the_time_each() -> None:
    events = played((4, 4), trace_job(0, 8, lasts=500), trace_job(1, 8, lasts=500))
    assert list(shares(events, 400).values()) == pytest.approx([0.5, 0.5], abs=QUANTUM_US / 400)


def test_who_is_left_has_all_of_the_time() -> None:
    events = played((4, 4), trace_job(0, 8, lasts=100), trace_job(1, 8, lasts=300))
    ends = {event.job_id: event.at_us for event in events if isinstance(event, JobFinished)}
    assert ends[job_id(0)] <= 200
    assert ends[job_id(1)] == 400  # each instant was somebody's


def test_all_servers_give_a_gang_its_turn_at_one_instant() -> None:
    events = played((2, 2, 2), *(trace_job(number, 6, lasts=90) for number in range(3)))
    told = Counter(
        (event.at_us, type(event), event.job_id)
        for event in events
        if isinstance(event, TurnStarted | TurnEnded)
    )
    assert {count for (_, kind, _), count in told.items() if kind is TurnStarted} == {3}


def test_change_of_hands_is_of_nobody() -> None:
    events = played((2, 2), *(trace_job(one, 4, lasts=500) for one in range(2)), switch_us=2)
    assert sum(shares(events, 400).values()) == pytest.approx(0.8, abs=0.05)


def test_gang_begins_its_turns_on_a_server_that_idles_in_between() -> None:
    away, gangs = trace_job(0, 4, lasts=10), [trace_job(1, 8, lasts=400)]
    gangs += [trace_job(number, 8, at=10 * number, lasts=400) for number in (2, 3)]
    events = played((4, 4, 4, 4), away, *gangs)  # the last one is on a server of each of the others
    assert list(shares(events, 300).values()) == pytest.approx([0.5, 0.5, 0.5], abs=0.05)
    assert sum(isinstance(event, JobFinished) for event in events) == 4
