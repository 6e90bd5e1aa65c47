"""What each input becomes: commands that come too late, and ends that cross each other."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest

from shunter.core import (
    HANDLERS,
    AttemptExited,
    CancelJob,
    ChangePriority,
    Command,
    Effect,
    HoldJob,
    Input,
    JobPhase,
    Move,
    ReleaseJob,
    RestoreNode,
    Scheduler,
    Start,
    SubmitJob,
    SuspendAttempt,
    Terminate,
    Weigh,
    launch_of,
)
from shunter.errors import IllegalEventError
from shunter.events import NOTHING, Allocation, Dependency, Event, Sharing, facts
from tests.factories import BECAUSE, World, allocation, job_id, job_spec, node_name, policy, servers
from tests.property.puppet import Puppet

J0, J1, J2 = (job_id(number) for number in range(3))
N0, N1 = node_name(0), node_name(1)


def core_of(*gpus: int, chosen: Any = None) -> Scheduler:
    """Return a core with some servers that plans at every event; outcomes take time."""
    world = World(servers=servers(*gpus))
    core, _ = world.scheduler(chosen or policy("fifo"), instant=False)
    return core


def submit(number: int, gpus: int = 1, **fields: Any) -> SubmitJob:
    return SubmitJob(0, job_id(number), job_spec(gpus, **fields), 10)


def kinds(core: Scheduler, *inputs: Input, at: int = 0) -> list[type[Event]]:
    """Return the kinds of facts that inputs lead to."""
    return [type(event) for event in core.step(at, inputs)[0]]


def effects(core: Scheduler, *inputs: Input, at: int = 0) -> Sequence[Effect]:
    return core.step(at, inputs)[1]


def running(core: Scheduler, number: int = 0, gpus: int = 1) -> Scheduler:
    """Let a job start to run."""
    core.step(0, [submit(number, gpus)])
    core.step(0, [facts.AttemptStarted(0, job_id(number), 1)])
    return core


def test_every_command_and_observation_has_a_handler() -> None:
    """One without would end a running loop with KeyError."""
    assert set(HANDLERS) == set(get_args(Input))


@pytest.mark.parametrize(
    "late",
    [
        CancelJob(0, J1),
        HoldJob(0, J1),
        ReleaseJob(0, J1),
        ChangePriority(0, J1, 3),
        ReleaseJob(0, J0),
        RestoreNode(0, N0),
    ],
    ids=str,
)
def test_command_that_comes_too_late_changes_nothing(late: Command) -> None:
    core = running(core_of(2))
    assert kinds(core, late) == []


def moved(core: Scheduler, puppet: Puppet, wish: Move | Start) -> None:
    puppet.wishes = [wish]
    core.step(0, [])
    puppet.wishes = []


def test_promise_on_a_lost_server_is_taken_back_from_a_waiting_job() -> None:
    puppet = Puppet(wishes=[Start(J0, allocation(n0=1), BECAUSE)])
    core = core_of(1, 1, chosen=puppet)
    running(core)
    moved(core, puppet, Move(J0, allocation(n1=1), BECAUSE))
    core.step(0, [submit(1)])
    moved(core, puppet, Start(J1, allocation(n0=1), BECAUSE))
    assert core.state.jobs[J1].phase is JobPhase.granted
    core.step(0, [facts.NodeLost(0, N0)])
    assert core.state.jobs[J1].phase is JobPhase.waiting


def test_promise_on_a_lost_server_is_taken_back_from_a_moving_job() -> None:
    puppet = Puppet(wishes=[Start(J0, allocation(n0=1), BECAUSE)])
    core = core_of(1, 1, chosen=puppet)
    running(core)
    moved(core, puppet, Move(J0, allocation(n1=1), BECAUSE))
    core.step(0, [facts.NodeLost(0, N1), facts.JobSuspended(0, J0, 1)])
    assert core.state.jobs[J0].allocation == NOTHING
    orders = effects(core, facts.GpusReleased(0, J0, 1))
    assert not [order for order in orders if not isinstance(order, SuspendAttempt)]
    assert core.state.jobs[J0].phase is JobPhase.waiting


def test_live_round_is_planned_though_a_job_was_cancelled_in_its_very_instant() -> None:
    """Processes take time to end; a round of the grid that is left out never comes again."""
    core, _ = World(servers=servers(4), round_us=10, is_live=True).scheduler(
        policy(), instant=False
    )
    core.step(0, [SubmitJob(0, J0, job_spec(2)), SubmitJob(0, J1, job_spec(4))])
    core.step(1, [facts.AttemptStarted(1, J0, 1), SubmitJob(1, J2, job_spec(1))])
    events, effects = core.step(10, [CancelJob(10, J0)])
    assert [type(event) for event in events] == [facts.JobCancelRequested, facts.RoundPlanned]
    assert effects == [Terminate(J0, 1)]


def test_promised_job_that_is_moved_is_launched_once() -> None:
    puppet = Puppet(wishes=[Start(J0, allocation(n0=1), BECAUSE)])
    core = core_of(1, 1, 1, chosen=puppet)
    running(core)
    moved(core, puppet, Move(J0, allocation(n1=1), BECAUSE))
    core.step(0, [submit(1)])
    moved(core, puppet, Start(J1, allocation(n0=1), BECAUSE))
    moved(core, puppet, Move(J1, allocation(n2=1), BECAUSE))
    assert core.state.jobs[J1].phase is JobPhase.launching
    orders = effects(core, facts.JobSuspended(0, J0, 1), facts.GpusReleased(0, J0, 1))
    assert [order.job_id for order in orders] == [J0]


@pytest.mark.parametrize(
    ("refused", "end"),
    [
        (submit(0, gpus=9), facts.JobRejected),
        (submit(0, depends_on=(Dependency(J1),)), facts.JobCancelled),
    ],
    ids=["too wide", "needs one that failed"],
)
def test_world_may_forget_a_job_that_will_never_start(refused: SubmitJob, end: type[Event]) -> None:
    core = core_of(1)
    core.step(0, [submit(1, gpus=9)])
    events, orders = core.step(0, [refused])
    assert [type(event) for event in events][:2] == [facts.JobSubmitted, end]
    assert orders == [Terminate(J0, 0)]


def test_job_whose_dependency_failed_is_cancelled_with_all_behind_it() -> None:
    core = running(core_of(1))
    core.step(0, [submit(1, depends_on=(Dependency(J0),))])
    core.step(0, [submit(2, depends_on=(Dependency(J1),))])
    events, orders = core.step(0, [AttemptExited(0, J0, 1, 1, released=True)])
    assert [event for event in events if isinstance(event, facts.JobCancelled)] == [
        facts.JobCancelled(0, J1, "dependency"),
        facts.JobCancelled(0, J2, "dependency"),
    ]
    assert orders == [Terminate(J1, 0), Terminate(J2, 0)]


@pytest.mark.parametrize(
    "seen",
    [
        AttemptExited(0, J0, 1, 0, released=True),
        facts.GpusReleased(0, J0, 1),
        facts.JobSuspended(0, J0, 1),
        facts.AttemptLost(0, J0, 1, "x"),
        facts.LaunchFailed(0, J0, 1, "x"),
    ],
)
def test_what_is_seen_of_a_job_that_nobody_knows_is_illegal(seen: Input) -> None:
    core, _ = World(servers=servers(4)).scheduler(policy(), instant=False)
    with pytest.raises(IllegalEventError, match=f"{type(seen).__name__} of job j0, which is unkn"):
        core.step(0, [seen])


def test_priority_is_changed_once_and_told_with_its_group() -> None:
    core = running(core_of(1))
    order = ChangePriority(0, J0, 3, "ana", "search")
    (changed,), orders = core.step(0, [order])
    assert changed == facts.JobPriorityChanged(0, J0, 3, "ana", "search")
    assert orders == [], "who takes no turns is told nothing"
    assert kinds(core, order) == []


def test_priority_of_a_job_that_takes_turns_is_its_weight() -> None:
    """Doubled by each priority, of which no more than ten count."""
    core = running(core_of(1))
    job = core.state.jobs[J0]
    job.held = Allocation(job.held.shares, Sharing.sliced)
    _, orders = core.step(0, [ChangePriority(0, J0, 3), ChangePriority(0, J0, -500)])
    assert orders == [Weigh(J0, 1, 8.0), Weigh(J0, 1, 2.0**-10)]
    relaunched = launch_of(job)
    assert relaunched.spec == replace(job.spec, weight=2.0**-10)
