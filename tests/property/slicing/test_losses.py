"""Attempts that took turns live from their launch on: whose losses are early, and who backs off."""

from hypothesis import given, strategies as st

from shunter.backends.simulated import Failures, Slicing
from shunter.core.planning import PLACEMENTS
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    Event,
    JobHeld,
    JobId,
    JobReleased,
    TurnStarted,
)
from shunter.policies.gandiva import Gandiva
from tests.factories import World, node_name, run, servers, trace_job
from tests.slices import searched

MINUTE = 60_000_000
EARLY_US = 10 * MINUTE


def lost_often(seed: int, mtbf_min: int) -> list[Event]:
    """Run three jobs in turns on a server that dies every so often."""
    failures = Failures({node_name(0): ""}, seed, mtbf_min * MINUTE, MINUTE)
    world = World(
        servers=servers(1),
        jobs=tuple([trace_job(n, 1, lasts=30 * MINUTE) for n in range(3)]),
        slicing=Slicing(MINUTE, 0),
        failures=failures,
        live_reactions=True,
        until_us=240 * MINUTE,
    )
    return run(world, Gandiva.build(Gandiva.Params(), PLACEMENTS["consolidated"]())).events


@searched(8)
@given(seed=st.integers(0, 1000), mtbf_min=st.sampled_from([12, 30, 60]))
def test_who_backs_off_was_lost_early_again_however_often_it_had_a_turn(
    seed: int, mtbf_min: int
) -> None:
    """Counts losses in a row anew from the facts: one after ten minutes is the first again."""
    began_us: dict[JobId, int] = {}
    in_a_row: dict[JobId, int] = {}
    expected: dict[tuple[JobId, int], int] = {}
    held: dict[tuple[JobId, int], int] = {}
    for event in lost_often(seed, mtbf_min):
        match event:
            case AttemptStarted():
                began_us[event.job_id] = event.at_us
            case AttemptLost():
                lived_us = event.at_us - began_us[event.job_id]
                before = in_a_row.get(event.job_id, 0) if lived_us < EARLY_US else 0
                in_a_row[event.job_id] = before + 1
                if before:
                    wait_us = min(300, 2 ** (before - 1)) * 1_000_000
                    expected[event.job_id, event.at_us] = event.at_us + wait_us
            case JobHeld():
                assert event.until_us is not None
                held[event.job_id, event.at_us] = event.until_us
            case _:
                pass
    assert held == expected


def test_jobs_are_lost_both_early_and_late_in_these_runs() -> None:
    """Otherwise the test above would hold of anything."""
    events = lost_often(1, 12)
    assert sum(isinstance(event, TurnStarted) for event in events) > 30
    began_us = {e.attempt: e.at_us for e in events if isinstance(e, AttemptStarted)}
    lived_us = [e.at_us - began_us[e.attempt] for e in events if isinstance(e, AttemptLost)]
    assert min(lived_us) < EARLY_US < max(lived_us)
    assert any(isinstance(event, JobReleased) for event in events)
