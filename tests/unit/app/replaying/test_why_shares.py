"""Why a job waits where a policy divides time: what it got of its share, and of which type."""

import asyncio
from dataclasses import dataclass, replace

from shunter.app.replaying.verification import Verifier
from shunter.app.replaying.why.document import document
from shunter.app.replaying.why.explanation import Explanation
from shunter.app.replaying.why.sentences import details
from shunter.core.placement import PLACEMENTS
from shunter.errors import PlanError
from shunter.events import SchedulerStarted
from shunter.policies.gavel.mechanism import Demands, Fractions, Targets
from shunter.policies.gavel.objectives import Isolated, MaxMinFairness
from shunter.policies.gavel.scheduling import GavelPolicy
from shunter.policies.gavel.scheduling.policy import Timing
from tests.factories import World, node_added, run, trace_job
from tests.replay.recording import Recorded, asked, rebuilt

TURN_US = 60_000_000
MINUTE_US = TURN_US


@dataclass(frozen=True)
class FailsForTwo:
    """An objective that has no answer for more than one job."""

    def fractions(self, demands: Demands) -> Fractions:
        if len(demands.requests) > 1:
            raise PlanError("no target shares: the problem is infeasible")
        return Isolated().fractions(demands)


def recorded(objective: Targets) -> Recorded:
    """Run three jobs on one GPU, the third of which comes in the second minute."""
    world = World(
        servers=(node_added(gpus=1),),
        jobs=(
            trace_job(0, lasts=3 * MINUTE_US),
            trace_job(1, lasts=3 * MINUTE_US),
            trace_job(2, at=MINUTE_US, lasts=3 * MINUTE_US),
        ),
        round_us=TURN_US,
    )
    by = GavelPolicy(objective, PLACEMENTS["consolidated"](), Timing(TURN_US, 10 * TURN_US))
    events = [
        replace(event, simulated=True) if isinstance(event, SchedulerStarted) else event
        for event in run(world, by).events
    ]
    return Recorded(events, rebuilt(by, world.rules(instant=True)))


def why(of: Recorded, job: str, minute: float) -> Explanation:
    return asyncio.run(asked(of, job, round(minute * MINUTE_US)))


def test_waiting_job_says_what_it_got_of_its_share() -> None:
    found = why(recorded(MaxMinFairness()), "j1", 0.5)

    assert document(found)["reason"]["name"] == "share_met"
    said = details(found)[0]
    assert said == "got 0.50 of its 0.50 share of v100; it needs 1 GPU, and 0 are free"


def test_preempted_job_says_what_it_got_of_its_share_and_who_gains() -> None:
    found = why(recorded(MaxMinFairness()), "j0", 1.5)

    said = details(found)[0]
    assert said.startswith("it was preempted at T+00:01:00: ")
    assert "of its 0.33 share of v100" in said
    assert document(found)["decision"]["scores"][0] == 0.333333


def test_running_job_says_by_which_share_it_runs() -> None:
    said = details(why(recorded(MaxMinFairness()), "j1", 1.5))[0]

    assert "target share, got 0." in said
    assert "of its 0.33 share of v100" in said


def test_planning_again_is_left_out_and_that_is_said() -> None:
    again = document(why(recorded(MaxMinFairness()), "j0", 1.5))["planned_again"]

    assert not again["checked"]
    assert again["problem"] == "it decides by what it remembers of the rounds before"


def test_waiting_job_says_that_its_share_could_not_be_computed() -> None:
    said = " ".join(details(why(recorded(FailsForTwo()), "j1", 0.5)))

    assert "shares are the last that could be computed: no target shares: the problem is" in said


def test_a_log_is_decided_again_with_targets_solved_again_or_as_recorded() -> None:
    log = recorded(MaxMinFairness())

    for resolve in (False, True):
        assert Verifier(log.rebuild, resolve=resolve).take(log.events) is None
