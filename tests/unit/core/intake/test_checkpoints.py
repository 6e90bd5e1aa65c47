"""Checkpoints that lie on servers, and the split over servers that they are of."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from shunter.core import (
    LAUNCHES_MOST,
    DiscardCheckpoint,
    DrainNode,
    Input,
    JobPhase,
    ReleaseJob,
    RestoreNode,
    Resume,
    Scheduler,
    State,
    SubmitJob,
    SuspendJob,
    Timers,
)
from shunter.core.fold import PLACES_MOST, apply, backoff_us
from shunter.errors import IllegalEventError
from shunter.events import (
    BACKING_OFF,
    CHECKPOINT,
    STAYS,
    Event,
    NodeName,
    QueueName,
    Reason,
    decode_record,
    encode_record,
    facts,
)
from tests.factories import World, job_id, job_spec, node_name, policy, servers

J0 = job_id(0)
N0, N1, N2 = (node_name(number) for number in range(3))
SECOND_US = 1_000_000


class Cluster:
    """A live core with a clock of its own: each step is an instant later."""

    def __init__(
        self, *gpus: int, stay: bool = True, name: str = "fifo", placement: str = "consolidated"
    ) -> None:
        world = World(servers=servers(*gpus), is_live=True, checkpoints_stay=stay)
        self.core, _ = world.scheduler(policy(name, placement), instant=False)
        self.now_us = 0
        self.effects: list[object] = []

    def step(self, *make: Callable[..., Input], **fields: Any) -> list[Event]:
        """Give inputs of one instant; return what became of them."""
        self.now_us += 1
        events, effects = self.core.step(self.now_us, [one(self.now_us, **fields) for one in make])
        self.effects += effects
        return [*events]

    def submit(self, gpus: int = 1, number: int = 0, **fields: Any) -> None:
        self.step(SubmitJob, job_id=job_id(number), spec=job_spec(gpus, **fields))

    def starts(self, number: int = 0) -> list[Event]:
        attempt = self.core.state.jobs[job_id(number)].attempt
        return self.step(facts.AttemptStarted, job_id=job_id(number), attempt=attempt)

    def leaves(self, number: int = 0) -> None:
        """Have somebody suspend a job, and the job leave."""
        name = job_id(number)
        attempt = self.core.state.jobs[name].attempt
        self.step(SuspendJob, job_id=name)
        self.step(facts.JobSuspended, facts.GpusReleased, job_id=name, attempt=attempt)

    def moves(self, to: NodeName, number: int = 0) -> None:
        """Have a job leave, and begin to run on a server."""
        self.leaves(number)
        others = [name for name in self.core.state.cluster.servers if name != to]
        for name in others:
            self.step(DrainNode, node=name)
        self.step(ReleaseJob, job_id=job_id(number))
        self.starts(number)
        for name in others:
            self.step(RestoreNode, node=name)

    def phase(self, number: int = 0) -> JobPhase:
        return self.core.state.jobs[job_id(number)].phase

    def resumes(self) -> list[Resume]:
        return [effect for effect in self.effects if isinstance(effect, Resume)]

    def reason(self, number: int = 0) -> Reason | None:
        """Return the reason of a job's class."""
        state = self.core.state
        wait = state.class_waits.get(state.jobs[job_id(number)].demand)
        return None if wait is None else wait.reason


def saved_on_n0(*gpus: int, **fields: Any) -> Cluster:
    """Return a cluster whose only job began on n0, left it and is held."""
    cluster = Cluster(*(gpus or (1, 1, 1)))
    cluster.submit(**fields)
    cluster.starts()
    cluster.leaves()
    return cluster


def of(events: Sequence[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


def test_job_waits_while_the_server_with_its_checkpoint_is_unreachable() -> None:
    cluster = saved_on_n0()
    cluster.step(facts.NodeUnreachable, node=N0)
    events = cluster.step(ReleaseJob, job_id=J0)
    assert facts.JobHeld(cluster.now_us, J0, CHECKPOINT) in events
    assert cluster.phase() is JobPhase.waiting
    events = cluster.step(facts.NodeReachable, node=N0)
    assert facts.JobReleased(cluster.now_us, J0, CHECKPOINT) in events
    assert cluster.phase() is JobPhase.launching


def test_waiting_job_is_held_when_the_server_goes_silent_later() -> None:
    cluster = saved_on_n0()
    for node in (N0, N1, N2):
        cluster.step(DrainNode, node=node)
    cluster.step(ReleaseJob, job_id=J0)
    events = cluster.step(facts.NodeUnreachable, node=N0)
    assert facts.JobHeld(cluster.now_us, J0, CHECKPOINT) in events


def test_somebodys_own_hold_outlasts_the_silence() -> None:
    cluster = saved_on_n0()
    cluster.step(facts.NodeUnreachable, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    cluster.step(SuspendJob, job_id=J0, by="ana")
    assert of(cluster.step(facts.NodeReachable, node=N0), facts.JobReleased) == []
    assert cluster.core.state.jobs[J0].held_by == "ana"


def test_other_servers_concern_nobody() -> None:
    cluster = saved_on_n0()
    cluster.step(facts.NodeUnreachable, node=N1)
    assert of(cluster.step(ReleaseJob, job_id=J0), facts.JobHeld) == []
    assert cluster.resumes()[-1].checkpoints == ((N0,),)


def test_checkpoint_of_a_lost_server_is_discarded_once_the_next_attempt_runs() -> None:
    cluster = saved_on_n0()
    cluster.step(facts.NodeUnreachable, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    events = cluster.step(facts.NodeLost, node=N0)
    assert of(events, facts.CheckpointDiscarded) == []
    assert cluster.resumes()[-1].checkpoints == ()
    events = cluster.starts()
    assert [type(event) for event in events] == [facts.CheckpointDiscarded, facts.AttemptStarted]
    assert events[0] == facts.CheckpointDiscarded(cluster.now_us, J0, 1, (N0,), None, "lost")


def test_lost_server_that_is_back_before_the_launch_has_its_checkpoint() -> None:
    cluster = saved_on_n0()
    cluster.step(facts.NodeUnreachable, node=N0)
    cluster.step(facts.NodeLost, node=N0)
    cluster.step(facts.NodeReachable, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    assert cluster.resumes()[-1].checkpoints == ((N0,),)
    assert of(cluster.starts(), facts.CheckpointDiscarded) == []


def test_launch_that_fails_has_discarded_nothing() -> None:
    cluster = saved_on_n0()
    cluster.step(facts.NodeUnreachable, node=N0)
    cluster.step(facts.NodeLost, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    cluster.step(facts.LaunchFailed, job_id=J0, attempt=2, cause="no")
    cluster.step(facts.NodeReachable, node=N0)
    cluster.now_us += SECOND_US
    cluster.step()
    assert cluster.resumes()[-1].checkpoints == ((N0,),)


def test_lost_server_that_stays_silent_after_a_restart_is_still_lost() -> None:
    cluster = saved_on_n0()
    cluster.step(facts.NodeUnreachable, node=N0)
    cluster.step(facts.NodeLost, node=N0)
    assert cluster.step(facts.NodeUnreachable, node=N0) == []
    assert of(cluster.step(ReleaseJob, job_id=J0), facts.JobHeld) == []


def test_owner_gives_up_all_that_is_out_of_reach_and_no_more() -> None:
    cluster = saved_on_n0()
    cluster.step(ReleaseJob, job_id=J0)
    cluster.starts()  # on n0 again
    cluster.moves(N1)
    cluster.moves(N2)
    cluster.step(facts.CheckpointSaved, job_id=J0, attempt=4, checkpoint="c", step=40)
    cluster.leaves()
    for node in (N1, N2):
        cluster.step(facts.NodeUnreachable, node=node)
    cluster.step(ReleaseJob, job_id=J0)
    events = cluster.step(DiscardCheckpoint, job_id=J0, by="ana")
    given_up = (cluster.now_us, J0)
    assert of(events, facts.CheckpointDiscarded) == [
        facts.CheckpointDiscarded(*given_up, 4, (N2,), 40, "given_up", "ana"),
        facts.CheckpointDiscarded(*given_up, 3, (N1,), None, "given_up", "ana"),
    ]
    assert facts.JobReleased(cluster.now_us, J0, CHECKPOINT) in events
    assert cluster.resumes()[-1].checkpoints == ((N0,),)


def test_nothing_is_given_up_that_can_be_had() -> None:
    cluster = saved_on_n0()
    assert cluster.step(DiscardCheckpoint, job_id=J0) == []
    assert cluster.step(DiscardCheckpoint, job_id=job_id(9)) == []
    cluster.step(ReleaseJob, job_id=J0)
    cluster.starts()
    cluster.step(facts.NodeUnreachable, node=N0)
    assert cluster.step(DiscardCheckpoint, job_id=J0) == []  # it runs there


def test_places_are_told_newest_first_each_once() -> None:
    cluster = saved_on_n0()
    cluster.step(ReleaseJob, job_id=J0)
    cluster.starts()
    cluster.moves(N1)
    cluster.moves(N0)
    cluster.moves(N2)
    assert cluster.resumes()[-1].checkpoints == ((N0,), (N1,))


def test_no_more_places_are_remembered_than_are_of_use() -> None:
    cluster = Cluster(*(1,) * (PLACES_MOST + 2))
    cluster.submit()
    cluster.starts()
    for number in range(1, PLACES_MOST + 2):
        cluster.moves(node_name(number))
    assert len(cluster.core.state.jobs[J0].checkpoints or ()) == PLACES_MOST


def test_shared_folder_makes_nobody_wait() -> None:
    cluster = Cluster(1, 1, stay=False)
    cluster.submit()
    cluster.starts()
    cluster.leaves()
    cluster.step(facts.NodeUnreachable, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    assert cluster.phase() is JobPhase.launching
    assert cluster.resumes()[-1].checkpoints is None


def test_launches_that_fail_for_the_checkpoint_never_fail_the_job() -> None:
    cluster = saved_on_n0()
    cluster.step(ReleaseJob, job_id=J0)
    for number in range(2 * LAUNCHES_MOST):
        attempt = cluster.core.state.jobs[J0].attempt
        events = cluster.step(
            facts.LaunchFailed, job_id=J0, attempt=attempt, cause="cut", checkpoint_on=(N0,)
        )
        held = next(event for event in events if isinstance(event, facts.JobHeld))
        assert held.by == BACKING_OFF
        assert held.until_us == cluster.now_us + backoff_us(max(1, number))
        cluster.now_us = held.until_us
        cluster.step()
    assert cluster.phase() is JobPhase.launching
    assert cluster.core.state.jobs[J0].launches_failed == 0


def refused_elsewhere(*gpus: int, **fields: Any) -> Cluster:
    """Return a cluster whose only job saved on n0, and was refused elsewhere for its size."""
    cluster = saved_on_n0(*gpus, **fields)
    cluster.step(DrainNode, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    cluster.step(
        facts.LaunchFailed,
        job_id=J0,
        attempt=cluster.core.state.jobs[J0].attempt,
        cause="too large",
        checkpoint_on=(N0,),
        checkpoint_stays=True,
    )
    return cluster


def comes_back(cluster: Cluster) -> list[Event]:
    """Let the wait after a launch that failed be over."""
    cluster.now_us = cluster.core.state.jobs[J0].back_at_us or cluster.now_us
    return cluster.step()


def test_checkpoint_that_stays_is_waited_for_without_another_try_elsewhere() -> None:
    """Goal: nobody has to make room for a launch that is bound to fail."""
    cluster = refused_elsewhere()
    events = comes_back(cluster)
    assert facts.JobHeld(cluster.now_us, J0, STAYS) in events
    assert of(events, facts.AllocationChanged) == []
    cluster.step(DrainNode, node=N1)  # whatever else happens
    assert cluster.core.state.jobs[J0].held_by == STAYS
    events = cluster.step(RestoreNode, node=N0)
    assert facts.JobReleased(cluster.now_us, J0, STAYS) in events
    assert [share.node for share in cluster.resumes()[-1].allocation.shares] == [N0]
    cluster.starts()
    assert cluster.core.state.jobs[J0].stays_on is None


def test_job_whose_checkpoint_stays_starts_where_it_lies_whatever_the_policy_would_choose() -> None:
    cluster = Cluster(4, 2, 1)
    cluster.submit(gpus=2)
    cluster.submit(gpus=1, number=1)
    cluster.starts()
    (share,) = cluster.core.state.jobs[J0].held.shares
    home = share.node
    cluster.leaves()
    cluster.step(DrainNode, node=home)
    cluster.step(ReleaseJob, job_id=J0)
    attempt = cluster.core.state.jobs[J0].attempt
    cluster.step(
        *(facts.LaunchFailed,),
        job_id=J0,
        attempt=attempt,
        cause="too large",
        checkpoint_on=(home,),
        checkpoint_stays=True,
    )
    cluster.step(RestoreNode, node=home)
    comes_back(cluster)
    assert [share.node for share in cluster.resumes()[-1].allocation.shares] == [home]


def test_nobody_is_preempted_for_a_job_whose_checkpoint_stays() -> None:
    """Goal: one launch at most costs others anything. Method: two with much attained service."""
    cluster = Cluster(1, 1, name="las")
    cluster.submit()
    cluster.starts()
    cluster.leaves()
    for number in (1, 2):
        cluster.submit(number=number)
        cluster.starts(number)
    cluster.now_us += 1_000_000 * SECOND_US
    cluster.step(ReleaseJob, job_id=J0)
    (left,) = [job for job in cluster.core.state.jobs.values() if job.phase is JobPhase.suspending]
    cluster.step(facts.JobSuspended, facts.GpusReleased, job_id=left.job_id, attempt=left.attempt)
    job = cluster.core.state.jobs[J0]
    (share,) = job.held.shares
    (home,) = {N0, N1} - {share.node}
    cluster.step(
        *(facts.LaunchFailed,),
        job_id=J0,
        attempt=job.attempt,
        cause="too large",
        checkpoint_on=(home,),
        checkpoint_stays=True,
    )
    cluster.step(facts.AttemptStarted, job_id=left.job_id, attempt=left.attempt)
    events = comes_back(cluster)
    assert of(events, facts.AllocationChanged) == []
    assert facts.JobHeld(cluster.now_us, J0, STAYS) in events


def test_resume_lets_a_checkpoint_that_was_made_smaller_be_copied() -> None:
    cluster = refused_elsewhere()
    comes_back(cluster)
    cluster.step(ReleaseJob, job_id=J0, by="ana")
    assert cluster.phase() is JobPhase.launching
    assert [share.node for share in cluster.resumes()[-1].allocation.shares] == [N1]


def test_resume_during_the_wait_after_the_launch_has_it_copied_as_well() -> None:
    cluster = refused_elsewhere()
    cluster.step(ReleaseJob, job_id=J0, by="ana")
    assert cluster.phase() is JobPhase.launching
    assert [share.node for share in cluster.resumes()[-1].allocation.shares] == [N1]


def test_checkpoint_that_stays_is_given_up_or_lost_with_its_server() -> None:
    cluster = refused_elsewhere()
    comes_back(cluster)
    events = cluster.step(DiscardCheckpoint, job_id=J0, by="ana")
    assert [type(event) for event in events][:2] == [facts.CheckpointDiscarded, facts.JobReleased]
    assert cluster.phase() is JobPhase.launching
    assert cluster.resumes()[-1].checkpoints == ()
    cluster = refused_elsewhere()
    comes_back(cluster)
    cluster.step(facts.NodeLost, node=N0)
    assert cluster.phase() is JobPhase.launching
    assert cluster.resumes()[-1].checkpoints == ()


def test_checkpoint_that_stays_is_remembered_over_a_snapshot() -> None:
    cluster = refused_elsewhere()
    comes_back(cluster)
    state = decode_record(State, encode_record(cluster.core.state))
    assert state.jobs[J0].stays_on == N0
    assert Timers(state, cluster.core.rules).due(cluster.now_us) is None


def test_task_that_waits_for_a_server_keeps_its_turn() -> None:
    cluster = Cluster(1, 1)
    for number in range(2):
        cluster.submit(number=number, array=J0, at_once=1)
    cluster.starts()
    cluster.step(facts.NodeUnreachable, node=N1)
    cluster.step(facts.AttemptLost, job_id=J0, attempt=1, cause="supervisor lost")
    cluster.step(facts.NodeUnreachable, node=N0)
    assert cluster.core.state.jobs[J0].attempt == 2  # it was launched anew before that
    cluster.step(facts.LaunchFailed, job_id=J0, attempt=2, cause="cut", checkpoint_on=(N0,))
    cluster.now_us += SECOND_US
    cluster.step()
    assert cluster.core.state.jobs[J0].held_by == CHECKPOINT
    cluster.step(facts.NodeReachable, node=N1)
    assert cluster.phase(1) is JobPhase.waiting


def test_snapshot_keeps_what_checkpoints_bind_a_job_to() -> None:
    cluster = saved_on_n0(2, 1, gpus=2)
    state = cluster.core.state
    read = decode_record(State, encode_record(state))
    assert read.jobs == state.jobs
    assert list(read.resumable) == [J0]


def test_discarding_what_is_not_there_is_illegal() -> None:
    state = saved_on_n0().core.state
    with pytest.raises(IllegalEventError, match="there was none"):
        apply(state, facts.CheckpointDiscarded(99, J0, 7, (N0,)))


def test_gang_keeps_the_split_it_began_with() -> None:
    cluster = saved_on_n0(2, 1, 1, gpus=2)
    cluster.step(DrainNode, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    assert cluster.phase() is JobPhase.waiting
    assert cluster.reason() is Reason.split_kept
    cluster.step(RestoreNode, node=N0)
    assert cluster.phase() is JobPhase.launching


def test_gang_over_two_servers_does_not_come_back_on_one() -> None:
    cluster = Cluster(1, 1, 2, 1)
    cluster.step(DrainNode, node=N2)
    cluster.submit(2)
    cluster.starts()
    cluster.leaves()
    cluster.step(RestoreNode, node=N2)
    cluster.step(ReleaseJob, job_id=J0)
    assert len(cluster.core.state.jobs[J0].allocation.shares) == 2


def test_each_rank_gets_as_many_gpus_as_it_had() -> None:
    cluster = Cluster(1, 2, 2, placement="first_fit")
    cluster.submit(3)
    cluster.starts()
    assert gpus_by_rank(cluster) == [(N0, 1), (N1, 2)]
    cluster.leaves()
    cluster.step(DrainNode, node=N1)
    cluster.step(ReleaseJob, job_id=J0)
    assert gpus_by_rank(cluster) == [(N0, 1), (N2, 2)]


def gpus_by_rank(cluster: Cluster) -> list[tuple[NodeName, int]]:
    shares = cluster.core.state.jobs[J0].allocation.shares
    return [(share.node, share.gpu_mask.bit_count()) for share in shares]


def test_gang_that_says_so_may_change_its_split() -> None:
    cluster = saved_on_n0(2, 1, 1, gpus=2, split_may_change=True)
    cluster.step(DrainNode, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    assert len(cluster.core.state.jobs[J0].allocation.shares) == 2


@pytest.mark.parametrize("name", ["las", "srtf", "fifo_easy"])
def test_every_index_policy_keeps_splits(name: str) -> None:
    cluster = Cluster(2, 1, 1, name=name)
    cluster.submit(2)
    cluster.starts()
    cluster.leaves()
    cluster.step(DrainNode, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    assert cluster.reason() is Reason.split_kept


def test_split_is_free_again_when_no_checkpoint_is_left() -> None:
    cluster = saved_on_n0(2, 1, 1, gpus=2)
    cluster.step(DrainNode, node=N0)
    cluster.step(ReleaseJob, job_id=J0)
    assert cluster.reason() is Reason.split_kept
    cluster.step(facts.NodeUnreachable, node=N0)
    assert cluster.core.state.jobs[J0].held_by == CHECKPOINT
    cluster.step(facts.NodeLost, node=N0)
    assert cluster.phase() is JobPhase.launching
    cluster.starts()
    assert cluster.core.state.jobs[J0].split == (1, 1)


def test_split_binds_again_when_the_lost_server_is_back_in_time() -> None:
    cluster = saved_on_n0(2, 1, 1, gpus=2)
    for node in (N0, N1):
        cluster.step(DrainNode, node=node)
    cluster.step(ReleaseJob, job_id=J0)
    cluster.step(facts.NodeLost, node=N0)
    assert not cluster.core.state.jobs[J0].demand.keeps_split
    cluster.step(facts.NodeReachable, node=N0)
    cluster.step(RestoreNode, node=N1)
    assert cluster.reason() is Reason.split_kept


def test_changed_quota_leaves_the_split() -> None:
    cluster = saved_on_n0(2, 1, gpus=2)
    cluster.core.view.open()
    cluster.core.emit(facts.QuotaChanged(cluster.now_us, QueueName("default"), 3))
    cluster.core.view.close()
    demand = cluster.core.state.jobs[J0].demand
    assert (demand.shapes, demand.keeps_split, demand.queue) == (((2,),), True, "default")


def test_job_that_asks_for_its_split_itself_stays_in_its_class() -> None:
    cluster = saved_on_n0(2, 1, gpus=2, shapes=((2,),))
    assert not cluster.core.state.jobs[J0].demand.keeps_split


def test_one_gpu_has_but_one_split() -> None:
    assert not saved_on_n0().core.state.jobs[J0].demand.keeps_split


def test_simulation_binds_nobody() -> None:
    core, _ = World(servers=servers(2, 1, 1)).scheduler(policy(), instant=False)
    core.step(0, [SubmitJob(0, J0, job_spec(2))])
    events, _ = core.step(1, [facts.AttemptStarted(1, J0, 1)])
    assert events == [facts.AttemptStarted(1, J0, 1)]
    assert is_free(core)


def is_free(core: Scheduler) -> bool:
    job = core.state.jobs[J0]
    return job.checkpoints is None and not job.split and not core.state.resumable
