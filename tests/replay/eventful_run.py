"""A scripted live run in which everything follows from facts that ever does.

Three servers of four GPUs, and a loop that is stepped by hand: what a backend would see and people
would order is written down here, and what the scheduler makes of it is its own.
"""

from dataclasses import replace
from typing import Any

from shunter.core import (
    AttemptExited,
    CancelJob,
    ChangePriority,
    DrainNode,
    Input,
    ReleaseJob,
    ResizeJob,
    RestoreNode,
    Scheduler,
    SubmitJob,
    SuspendJob,
)
from shunter.events import (
    AllocationLearned,
    AttemptLost,
    AttemptStarted,
    Dependency,
    Event,
    GpusReleased,
    GpusTaken,
    JobId,
    JobSuspended,
    LaunchFailed,
    NodeLost,
    NodeReachable,
    NodeUnreachable,
    SchedulerStarted,
)
from tests.factories import World, allocation, job_id, job_spec, policy, servers
from tests.replay.recording import Recorded, rebuilt

S = 1_000_000
RECORD = '{"reactor":1}'
"""The part of a live record by which everything that follows is compared."""


class Script:
    """A live scheduler, stepped by hand, a second apart unless it is said otherwise."""

    def __init__(self) -> None:
        self.world = World(servers=servers(4, 4, 4), is_live=True, checkpoints_stay=True)
        self.policy = policy()
        self.core: Scheduler
        self.core, events = self.world.scheduler(self.policy, instant=False)
        self.events: list[Event] = [
            replace(event, config=RECORD) if isinstance(event, SchedulerStarted) else event
            for event in events
        ]
        self.now_us = 0

    def step(self, *inputs: Input, after_us: int = S) -> None:
        """Let things happen some time after the last step."""
        self.now_us += after_us
        seen = [replace(one, at_us=self.now_us) for one in inputs]
        self.events += self.core.step(self.now_us, seen)[0]

    def timer(self) -> None:
        """Let time pass to the next deadline, and two more steps happen after it."""
        due_us = self.core.deadline_us(self.now_us)
        assert due_us is not None, "no timer is set"
        self.step(after_us=due_us - self.now_us)
        self.idle()

    def idle(self) -> None:
        """Take in two commands that concern nobody else."""
        for priority in (1, 2):
            self.step(ChangePriority(0, job_id("bystander"), priority), after_us=10)

    def submit(self, name: str, gpus: int = 1, **fields: Any) -> JobId:
        """Submit a job."""
        self.step(SubmitJob(0, job_id(name), job_spec(gpus, **fields)), after_us=10)
        return job_id(name)

    def start(self, name: JobId) -> None:
        """See the attempt of a job start."""
        self.step(AttemptStarted(0, name, self.core.state.jobs[name].attempt), after_us=10)

    def exit(self, name: JobId, code: int) -> None:
        """See the processes of a job end, half a second ago."""
        attempt, gone_us = self.core.state.jobs[name].attempt, self.now_us + S // 2
        self.step(AttemptExited(0, name, attempt, code, released=True, ended_us=gone_us))


def eventful() -> Recorded:
    """Return the run, as a live log holds it."""
    script = Script()
    endless = script.submit("never ends")
    script.submit("bystander", 8, depends_on=(Dependency(endless),))
    script.start(endless)
    script.submit("too large", 99)
    _ends(script)
    _arrays(script)
    _limits_and_waits(script)
    _servers(script)
    _stays_where_it_saved(script)
    _found_elsewhere(script)
    _resized(script)
    script.idle()
    return Recorded(script.events, rebuilt(script.policy, script.core.rules))


def _stays_where_it_saved(script: Script) -> None:
    """A job's checkpoint is too large to be copied: it waits for room where that is."""
    large = script.submit("large")
    script.start(large)
    node = script.core.state.jobs[large].held.shares[0].node
    script.step(SuspendJob(0, large, "ana"))
    script.step(JobSuspended(0, large, 1), GpusReleased(0, large, 1))
    script.step(DrainNode(0, node), ReleaseJob(0, large, "ana"))
    why = LaunchFailed(0, large, 2, "too large", checkpoint_on=(node,), checkpoint_stays=True)
    script.step(why)
    script.timer()
    script.step(RestoreNode(0, node))
    script.start(large)
    script.exit(large, 0)


def _ends(script: Script) -> None:
    """Jobs finish, fail, are cancelled, and one is tried again."""
    good, bad = script.submit("good"), script.submit("bad")
    script.submit("needs bad", depends_on=(Dependency(bad),))
    script.submit("needs that", depends_on=(Dependency(job_id("needs bad")),))
    for name in (good, bad):
        script.start(name)
    script.exit(good, 0)
    script.exit(bad, 3)
    waits = script.submit("waits", 4, depends_on=(Dependency(job_id("never ends")),))
    script.step(CancelJob(0, waits, "ana"))
    again = script.submit("again", retries=1)
    script.start(again)
    script.exit(again, 1)
    script.timer()
    script.start(again)
    script.exit(again, 0)


def _arrays(script: Script) -> None:
    """Two tasks of an array take turns."""
    first = script.submit("task1", array=JobId("task"), at_once=1)
    second = script.submit("task2", array=JobId("task"), at_once=1)
    script.start(first)
    script.exit(first, 0)
    script.idle()
    script.start(second)
    script.exit(second, 0)


def _limits_and_waits(script: Script) -> None:
    """One job runs too long; one cannot be launched at first, and one leaves by itself."""
    slow = script.submit("slow", time_limit_us=5 * S)
    script.start(slow)
    script.timer()
    script.exit(slow, 143)
    refused = script.submit("refused")
    script.step(LaunchFailed(0, refused, 1, "no"))
    script.timer()
    script.start(refused)
    script.step(JobSuspended(0, refused, 2), GpusReleased(0, refused, 2))
    script.timer()
    script.start(refused)
    script.exit(refused, 0)


def _servers(script: Script) -> None:
    """A server with a checkpoint does not answer, and another one is lost while one leaves it."""
    state = script.core.state
    saver = script.submit("saver", 4)
    script.start(saver)
    node = state.jobs[saver].held.shares[0].node
    script.step(SuspendJob(0, saver, "ana"))
    script.step(JobSuspended(0, saver, 1), GpusReleased(0, saver, 1))
    script.step(ReleaseJob(0, saver, "ana"), NodeUnreachable(0, node))
    script.idle()
    script.step(NodeReachable(0, node))
    script.idle()
    script.start(saver)
    script.step(SuspendJob(0, saver, "ana"))
    follower = script.submit("follower", 4)
    assert state.jobs[follower].allocation.shares, "it is granted what is being left"
    script.step(NodeLost(0, node), AttemptLost(0, saver, 2, "node lost"))
    script.step(CancelJob(0, follower, "ana"))
    script.exit(follower, 143)
    script.step(ReleaseJob(0, saver, "ana"))
    assert state.jobs[saver].out_of_reach, "it begins anew on another server"
    script.start(saver)
    script.exit(saver, 0)


def _found_elsewhere(script: Script) -> None:
    """Jobs lose the GPUs they were to start on to one that was found there, and to strangers."""
    jobs = script.core.state.jobs
    wide = script.submit("wide", 3, shapes=((3,),))
    found, second = script.submit("found", 2), script.submit("second", 2)
    (share,), (beside,) = jobs[second].allocation.shares, jobs[found].allocation.shares
    node, elsewhere = share.node, jobs[wide].allocation.shares[0].node
    assert beside.node == node != elsewhere, "two share a server, and one is on another"
    script.step(AllocationLearned(0, found, 1, allocation(**{node: share.gpu_mask})))
    assert jobs[second].allocation.shares == (beside,), "they exchange what was booked for them"
    script.step(AllocationLearned(0, found, 1, allocation(**{elsewhere: 0b0110})))
    script.step(GpusReleased(0, wide, 1))
    script.step(GpusTaken(0, node, beside.gpu_mask))
    assert jobs[second].allocation.shares == (share,), "it has others of the same server"
    script.step(GpusTaken(0, node, beside.gpu_mask | share.gpu_mask))
    script.step(LaunchFailed(0, second, 1, "withdrawn"))
    script.step(GpusTaken(0, node, 0))
    for name in (found, second, wide):
        script.start(name)
        script.exit(name, 0)


def _resized(script: Script) -> None:
    """An elastic job is given another size while it runs, and goes on with it."""
    grows = script.submit("grows", gpus_max=4)
    script.start(grows)
    script.step(ResizeJob(0, grows, 4, "ana"))
    script.step(JobSuspended(0, grows, 1), GpusReleased(0, grows, 1))
    assert script.core.state.jobs[grows].held.gpus == 4
    script.start(grows)
    script.exit(grows, 0)
