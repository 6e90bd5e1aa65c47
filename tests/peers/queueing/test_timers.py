"""Timers of the public Tiresias simulator: late, and dependent on when it last looked."""

import pytest

from shunter.events import Demand, JobId
from shunter_peers.queueing.items import Item
from shunter_peers.queueing.timers import NEVER_S, Timers

LIMITS = (3250, 7200)


def running(gpus: int, *, since_s: int = 0, executed_s: int = 0, ordinal: int = 0) -> Item:
    item = Item(JobId(f"j{ordinal}"), ordinal, Demand(gpus), gpus, 0, since_s)
    item.runs, item.executed_s = True, executed_s
    item.begun_s = since_s - executed_s
    return item


def timers_of(*items: Item, two_d: bool = True) -> Timers:
    timers = Timers(LIMITS, two_d)
    for item in items:
        timers.add(item)
    return timers


@pytest.mark.parametrize(
    ("gpus", "first_s", "second_s"), [(8, 761, 1565), (2, 1625, 4412), (1, 3250, 7200)]
)
def test_lone_job_is_demoted_when_the_public_simulator_does_it(
    gpus: int, first_s: int, second_s: int
) -> None:
    item = running(gpus)
    timers = timers_of(item)
    assert timers.next_look(0) == first_s
    assert timers.crossed(first_s) == [item]
    item.queue = 1
    timers.add(item)
    assert timers.next_look(first_s) == second_s
    assert timers.crossed(second_s) == [item]
    item.queue = 2
    timers.add(item)
    assert timers.next_look(second_s) == NEVER_S


def test_job_is_demoted_at_the_limit_where_only_time_counts() -> None:
    timers = timers_of(running(8), two_d=False)
    assert timers.next_look(0) == 3250


def test_any_event_past_the_limit_demotes() -> None:
    item = running(8)
    timers = timers_of(item)
    assert timers.crossed(406) == []
    assert timers.crossed(407) == [item]


def test_look_that_demotes_nobody_is_passed_over_unless_each_is_asked_for() -> None:
    timers = timers_of(running(8))
    assert timers.next_look(0, each=True) == 406
    assert timers.next_look(406, each=True) == 761


def test_event_in_between_puts_the_look_off() -> None:
    timers = timers_of(running(8))
    assert timers.next_look(100) == 100 + (3250 - 100) // 8


def test_job_that_has_stopped_sets_no_timer() -> None:
    item = running(8)
    timers = timers_of(item)
    item.begun_s = -1
    assert timers.next_look(0) == NEVER_S
    assert timers.crossed(9000) == []


def test_earliest_of_several_jobs_and_widths_counts() -> None:
    first, second = running(1, executed_s=3000), running(4, ordinal=1)
    timers = timers_of(first, second)
    assert timers.next_look(0, each=True) == 250
    assert timers.crossed(5000) == [first, second]
