"""Shares of jobs that take turns, as `queue` tells them, recomputed from the facts of a log."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.api import Present, TurnPart, queue_document
from shunter.ask import fold_events
from shunter.backends.node import Member, Rotation
from shunter.backends.simulated import Costs, Slicing
from shunter.core import ChangePriority, Command, State, SuspendJob, fair_shares
from shunter.core.planning import PLACEMENTS
from shunter.events import Event, JobSubmitted, SuspendMode, TurnEnded, TurnStarted
from shunter.policies.gandiva import Gandiva
from tests.commanded import Commanded
from tests.factories import World, job_id, run, servers, trace_job
from tests.slices import searched

SECOND = 1_000_000
SLICING = Slicing(60 * SECOND, SECOND)


def played(*gangs: int, orders: Sequence[Command] = (), **spec: Any) -> list[Event]:
    """Run jobs of an hour each on a server of four GPUs."""
    jobs = tuple([trace_job(n, g, lasts=3600 * SECOND, **spec) for n, g in enumerate(gangs)])
    costs = Costs(start_us=5 * SECOND)
    world = World(servers=servers(4), jobs=jobs, slicing=SLICING, costs=costs, live_reactions=True)
    by = Gandiva.build(Gandiva.Params(), PLACEMENTS["consolidated"]())
    return run(world, by, wrapped=lambda backend: Commanded(backend, orders)).events


def rows_at(events: Sequence[Event], at_us: int) -> list[dict[str, Any]]:
    """Return what `queue` tells of each job at an instant."""
    state = State()
    fold_events(state, [event for event in events if event.at_us <= at_us])
    now = Present(at_us, lambda job: "")
    found = queue_document(state, state.jobs.values(), str, now="", ranks={}, present=now)
    rows: list[dict[str, Any]] = found["jobs"]
    return rows


def turns_at(events: Sequence[Event], at_us: int) -> dict[str, dict[str, Any] | None]:
    """Return what `queue` tells of the turns of each job at an instant."""
    return {row["id"]: row["turns"] for row in rows_at(events, at_us)}


@pytest.mark.parametrize("at_s", [30, 65, 100, 3000, 5399])
def test_turns_of_six_jobs_on_four_gpus_are_those_of_the_log(at_s: int) -> None:
    """A turn counts from its first fact to its second; GPUs are held from the launch on, at 0."""
    events = played(*[1] * 6)
    now_us = at_s * SECOND
    had_us = dict.fromkeys((f"j{n}" for n in range(6)), 0)
    begun_us: dict[str, int] = {}
    for event in events:
        if event.at_us > now_us:
            break
        if isinstance(event, TurnStarted):
            begun_us[event.job_id] = event.at_us
        elif isinstance(event, TurnEnded):
            had_us[event.job_id] += event.at_us - begun_us.pop(event.job_id)

    found = turns_at(events, now_us)

    for name, turns in found.items():
        assert turns is not None
        TurnPart.model_validate(turns)
        assert turns["is_on"] is (name in begun_us)
        on_us = had_us[name] + (now_us - begun_us[name] if name in begun_us else 0)
        assert turns["used"] == pytest.approx(on_us / now_us)
        assert turns["held_s"] == at_s
        assert turns["fair_share"] == pytest.approx(4 / 6)
        if at_s >= 3000:
            assert turns["used"] == pytest.approx(turns["fair_share"], abs=60 / at_s + 0.02)


def test_since_is_the_launch_of_the_attempt_however_many_turns_it_had() -> None:
    """Taken from the facts: GPUs are given, and jobs launched on them, at 0."""
    events = played(*[1] * 6)
    last_us = max(e.at_us for e in events if isinstance(e, TurnStarted) and e.at_us < 999 * SECOND)
    assert last_us > 900 * SECOND
    assert [row["since_at"] for row in rows_at(events, 999 * SECOND)] == ["0"] * 6


def test_priority_doubles_a_fair_share_as_far_as_there_is_time() -> None:
    orders = [ChangePriority(SECOND * 70, job_id(n), p) for n, p in ((0, 1), (1, 5))]
    found = turns_at(played(*[1] * 6, orders=orders), SECOND * 80)
    shares = {name: turns and turns["fair_share"] for name, turns in found.items()}
    assert shares["j1"] == 1.0  # 32 of 38 is more than all the time of one GPU
    assert shares["j0"] == pytest.approx(1.0)  # 2 of the other 6, of 3 GPUs
    assert [shares[f"j{n}"] for n in range(2, 6)] == [pytest.approx(0.5)] * 4


def test_gangs_share_as_many_gpus_as_they_can_be_on_at_once() -> None:
    """Three gangs of three on four GPUs: one at a time, so a third for each."""
    assert fair_shares([(1.0, 3)] * 3, 4) == [pytest.approx(1 / 3)] * 3


def test_job_on_gpus_of_its_own_has_no_turns() -> None:
    assert turns_at(played(4, 4), SECOND * 10)["j0"] is not None
    events = [event for event in played(2) if isinstance(event, JobSubmitted)]
    assert turns_at([*servers(4), *events], 0) == {"j0": None}


def test_job_that_somebody_stopped_takes_no_turns_and_leaves_its_share() -> None:
    orders = [SuspendJob(SECOND * 70, job_id(0))]
    events = played(*[1] * 6, orders=orders, suspend_mode=SuspendMode.stop)
    found = turns_at(events, SECOND * 90)
    assert found.pop("j0") is None
    assert [turns and turns["fair_share"] for turns in found.values()] == [pytest.approx(0.8)] * 5


@searched(30)
@given(
    weights=st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0, 8.0]), min_size=1, max_size=9),
    size=st.integers(1, 2),
)
def test_rotation_comes_to_the_fair_shares(weights: list[float], size: int) -> None:
    """After many quanta each has had its part, to as many quanta as one may be ahead."""
    rotation, gpus, quanta = Rotation(1), 4, 4000
    for number, weight in enumerate(weights):
        home = 0b11 << 2 * (number % 2) if size == 2 else 1 << number % gpus
        rotation.join(Member(str(number), home, weight, is_fixed=False), 0)
    had = dict.fromkeys(rotation.members, 0)
    for now in range(quanta):
        rotation.switch(rotation.next_turns(now), now)
        for member in rotation.members.values():
            had[member.name] += bool(member.mask)
    expected = fair_shares([(weight, size) for weight in weights], rotation.gpus.bit_count())
    for share, turns in zip(expected, had.values(), strict=True):
        assert turns / quanta == pytest.approx(share, abs=0.02)
