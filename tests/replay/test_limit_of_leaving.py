"""A time limit that ends a job which is leaving already: nothing of it comes at that instant."""

from dataclasses import replace

from shunter.ask import Verifier
from shunter.backends.simulated import Costs
from shunter.events import RoundPlanned, SchedulerStarted, TimeLimitReached
from tests.factories import World, policy, run, servers, trace_job
from tests.replay.recording import rebuilt


def test_round_is_planned_at_the_instant_of_the_limit_and_verify_expects_it() -> None:
    """j0 leaves from 8 to 13 for the shorter j1; its limit is over at 10, when j2 comes."""
    jobs = (
        trace_job(0, lasts=100, time_limit_us=10),
        trace_job(1, at=8, lasts=20),
        trace_job(2, at=10, lasts=1),
    )
    world = World(servers=servers(1), jobs=jobs, costs=Costs(suspend_us=5))
    by = policy("srtf")
    outcome = run(world, by)
    (limit,) = outcome.of(TimeLimitReached)
    assert limit.at_us == 10
    assert 10 in [planned.at_us for planned in outcome.of(RoundPlanned)]

    start = outcome.events[0]
    assert isinstance(start, SchedulerStarted)
    rules = world.rules(instant=False)
    verifier = Verifier(rebuilt(by, rules))
    divergence = verifier.take([replace(start, simulated=True), *outcome.events[1:]])
    assert divergence is None, "\n".join(divergence.lines())
