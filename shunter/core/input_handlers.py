"""What each input becomes: one function a kind, from command or observation to facts."""

from collections.abc import Callable
from typing import Any, Protocol

from shunter.core.cluster import Health
from shunter.core.fold import can_begin, can_end, given_up, job_of
from shunter.core.interfaces import (
    AttemptExited,
    CancelJob,
    ChangePriority,
    Continue,
    DiscardCheckpoint,
    DrainNode,
    Effect,
    HoldJob,
    Input,
    NothingComes,
    ProposeGang,
    QuarantineGpu,
    ReleaseGpu,
    ReleaseJob,
    ResizeJob,
    RestoreNode,
    RoundEnded,
    SetAside,
    SetAttemptAside,
    ShareTurns,
    Stop,
    SubmitJob,
    SuspendJob,
    Weigh,
    WorldEnded,
)
from shunter.core.planning import Refused, RoundRules, looked_at
from shunter.core.reactor import Reactor
from shunter.core.state import AT_WORK, ENDING, Job, State
from shunter.errors import IllegalEventError
from shunter.events import (
    CALLER,
    GIVEN_UP,
    HELD,
    NOTHING,
    Event,
    PastJobs,
    Sharing,
    SuspendMode,
    ended_before,
    facts,
    key_of,
)


class Core(Protocol):
    """What a handler may do: look at the state, make facts and give orders.

    The three flags say what the world told last: that it has ended, that a round of its own has,
    that nothing comes any more by itself.
    """

    world_ended: bool
    round_ended: bool
    nothing_comes: bool

    @property
    def state(self) -> State:
        """What is true now."""

    @property
    def past(self) -> PastJobs:
        """The jobs that have ended, and the keys of submissions."""

    @property
    def rules(self) -> RoundRules:
        """When plans are made, and what the core does to jobs."""

    @property
    def reactor(self) -> Reactor:
        """What follows from facts."""

    def emit(self, event: Event) -> None:
        """Make a fact, and all that follows from it."""

    def carry_out(self, event: facts.AllocationChanged) -> None:
        """Make a decision about a job's GPUs, with the order that follows from it."""

    def order(self, effect: Effect) -> None:
        """Have something done to a job's attempt, once this step is durable."""

    def terminate(self, job: Job) -> None:
        """Ask for the end of a job's attempt."""


def submit_job(core: Core, order: SubmitJob) -> None:
    """Accept a job, unless it was under the same key."""
    past, spec = core.past, order.spec
    if order.key and past.job_of(key_of(spec.user, order.key)) is not None:
        return
    if past.outcome(order.job_id) is not None:
        raise IllegalEventError(f"job {order.job_id} was submitted twice")
    core.emit(
        facts.JobSubmitted(
            order.at_us,
            order.job_id,
            spec,
            order.duration_us,
            order.key,
            order.environment,
            ended_before(spec.depends_on, past) if spec.depends_on else (),
        )
    )


def cancel_job(core: Core, order: CancelJob) -> None:
    """Ask a job to end; one that holds nothing has ended with that."""
    job = core.state.jobs.get(order.job_id)
    if job is None or job.phase is ENDING:
        return
    core.terminate(job)
    core.emit(facts.JobCancelRequested(order.at_us, order.job_id, order.by, order.group))


def hold_job(core: Core, order: HoldJob) -> None:
    """Keep a job from starting; one that has ended meanwhile needs no order any more."""
    if order.job_id in core.state.jobs:
        core.emit(facts.JobHeld(order.at_us, order.job_id, order.by))


def suspend_job(core: Core, order: SuspendJob) -> None:
    """Keep a job from starting, and take back what it was given if it can leave that.

    One of mode `stop` that runs keeps its GPUs, and stands still on them.
    """
    job = core.state.jobs.get(order.job_id)
    if job is None or job.phase is ENDING:
        return
    core.emit(facts.JobHeld(order.at_us, order.job_id, order.by))
    if core.rules.reacts_as_live and stays_in_place(job):
        core.order(Stop(job.job_id, job.attempt))
        return
    stays = job.since_us is not None and job.spec.suspend_mode is SuspendMode.never
    if job.allocation.shares and not stays:
        core.carry_out(
            facts.AllocationChanged(
                order.at_us, order.job_id, NOTHING, HELD, instant=core.rules.instant
            )
        )


def stays_in_place(job: Job) -> bool:
    """Say whether a job that somebody suspends is to stand still on its GPUs."""
    return job.phase in AT_WORK and job.spec.suspend_mode is SuspendMode.stop


def release_job(core: Core, order: ReleaseJob) -> None:
    """Let a held job start."""
    job = core.state.jobs.get(order.job_id)
    if job is not None and job.is_on_hold:
        core.emit(facts.JobReleased(order.at_us, order.job_id, order.by))
        if core.rules.reacts_as_live and job.since_us is not None and stays_in_place(job):
            core.order(Continue(job.job_id, job.attempt))


def resize_job(core: Core, order: ResizeJob) -> None:
    """Give a job another size; one that runs leaves, and goes on from its checkpoint.

    The size it has already is none, and one that is about to end needs no other.
    """
    job = core.state.jobs.get(order.job_id)
    if job is None or job.end_cause or job.phase is ENDING or job.spec.gpus == order.gpus:
        return
    core.emit(facts.JobResized(order.at_us, order.job_id, order.gpus, order.by))


def change_priority(core: Core, order: ChangePriority) -> None:
    """Give a job another priority, and other turns if it takes any; its own is none."""
    job = core.state.jobs.get(order.job_id)
    if job is None or job.priority == order.priority:
        return
    core.emit(
        facts.JobPriorityChanged(order.at_us, order.job_id, order.priority, order.by, order.group)
    )
    if job.since_us is not None and job.held.sharing is Sharing.sliced:
        core.order(Weigh(job.job_id, job.attempt, job.turn_weight))


def set_attempt_aside(core: Core, order: SetAttemptAside) -> None:
    """Believe nothing more of a job's attempt, and hold the job until it is released."""
    job = core.state.jobs.get(order.job_id)
    if job is None or job.since_us is None or job.set_aside == job.attempt:
        return
    if job.phase is not ENDING:
        core.emit(facts.JobHeld(order.at_us, order.job_id, order.by))
    core.emit(facts.AttemptSetAside(order.at_us, order.job_id, job.attempt, order.by))
    core.order(SetAside(job.job_id, job.attempt))


def discard_checkpoint(core: Core, order: DiscardCheckpoint) -> None:
    """Let a job wait no more for the servers that do not answer."""
    job, cluster = core.state.jobs.get(order.job_id), core.state.cluster
    while job is not None and (found := given_up(job, cluster)) is not None:
        core.emit(
            facts.CheckpointDiscarded(
                order.at_us, job.job_id, found.attempt, found.nodes, found.step, GIVEN_UP, order.by
            )
        )


def attempt_started(core: Core, seen: facts.AttemptStarted) -> None:
    """Note that an attempt runs, and what its checkpoints depend on if it is live.

    What could not be brought from lost servers is discarded with that.
    """
    for lost in core.reactor.discards(seen):
        core.emit(lost)
    core.emit(core.reactor.completed(seen))


def launch_failed(core: Core, seen: facts.LaunchFailed) -> None:
    """Note that an attempt never started."""
    core.emit(core.reactor.unstarted(seen))


def attempt_exited(core: Core, seen: AttemptExited) -> None:
    """Note that processes are gone; where that takes no time, it ends their job."""
    job = core.state.jobs.get(seen.job_id) or job_of(core.state, seen.job_id, "AttemptExited")
    rules, reactor = core.rules, core.reactor
    if rules.instant and seen.released and not reactor.may_retry(job):
        core.emit(reactor.end_of(job, seen.at_us, seen.exit_code, seen.ended_us))
        return
    gone_us = seen.ended_us if rules.is_live else None
    what = (seen.exit_code, gone_us, seen.memory_kills, seen.signal)
    core.emit(facts.AttemptEnded(seen.at_us, seen.job_id, seen.attempt, *what))
    if seen.released:
        reactor.gone_us = seen.ended_us
        core.emit(facts.GpusReleased(seen.at_us, seen.job_id, seen.attempt))


def node_unreachable(core: Core, seen: facts.NodeUnreachable) -> None:
    """Note that a server does not answer; of a lost one that is nothing new."""
    if core.state.cluster.server(seen.node).health is not Health.lost:
        core.emit(seen)


def world_ended(core: Core, seen: WorldEnded) -> None:
    """Note that nothing more will come; whoever waits gets a last round."""
    core.world_ended = True
    if core.rules.backend_rounds and core.state.jobs:
        core.round_ended = True


def nothing_comes(core: Core, seen: NothingComes) -> None:
    """Note that only the policy and its timers can still do something."""
    core.nothing_comes = True


def round_ended(core: Core, seen: RoundEnded) -> None:
    """Note that it is time to plan."""
    core.round_ended = True


def as_is(core: Core, seen: Any) -> None:
    """Record an observation that is a fact already."""
    core.emit(seen)


def of_attempt(
    core: Core, seen: facts.AllocationLearned | facts.ReshapeRefused | facts.ProfileSampled
) -> None:
    """Record what was seen of an attempt, unless it is gone: such news comes late."""
    job = core.state.jobs.get(seen.job_id)
    if job is not None and job.attempt == seen.attempt and job.since_us is not None:
        core.emit(seen)


def stopped(core: Core, seen: facts.JobStopped) -> None:
    """Record that an attempt stands still; others have their turns without it."""
    job = core.state.jobs.get(seen.job_id)
    if job is not None and job.packed_with:
        core.order(ShareTurns(job.job_id, job.attempt, ()))
    core.emit(seen)


def turn_changed(core: Core, seen: facts.TurnStarted | facts.TurnEnded) -> None:
    """Record that a turn began or ended, unless it cannot be.

    What attempts note lies where their jobs can write.
    """
    job = core.state.jobs.get(seen.job_id)
    if job is None or job.attempt != seen.attempt or job.since_us is None:
        return
    if isinstance(seen, facts.TurnStarted):
        can_be = can_begin(core.state, job, seen)
        nodes = tuple([share.node for share in seen.shares]) if job.is_spread else ()
    else:
        can_be, nodes = can_end(core.state, job, seen), seen.nodes
    if job.held.sharing is Sharing.sliced and job.working_since_us is not None and can_be:
        core.emit(seen)
    else:
        cause = "it tells of a turn that cannot be"
        core.emit(facts.MessagesDropped(seen.at_us, seen.job_id, seen.attempt, 1, cause, nodes))


# Servers and their GPUs.


def drain_node(core: Core, order: DrainNode) -> None:
    """Offer nothing of a server any more."""
    core.emit(facts.NodeDrained(order.at_us, order.node, order.by))


def restore_node(core: Core, order: RestoreNode) -> None:
    """Offer a server again."""
    if core.state.cluster.server(order.node).drained:
        core.emit(facts.NodeRestored(order.at_us, order.node, order.by))


def quarantine_gpu(core: Core, order: QuarantineGpu) -> None:
    """Offer one GPU of a server no more."""
    gpu_quarantined(
        core, facts.GpuQuarantined(order.at_us, order.node, order.gpu, f"by {order.by}")
    )


def release_gpu(core: Core, order: ReleaseGpu) -> None:
    """Offer a quarantined GPU again."""
    if core.state.cluster.server(order.node).quarantined >> order.gpu & 1:
        core.emit(facts.GpuRestored(order.at_us, order.node, order.gpu))


def gpu_quarantined(core: Core, seen: facts.GpuQuarantined) -> None:
    """Note that a GPU is to take no jobs, if it is there and that is news."""
    server = core.state.cluster.servers.get(seen.node)
    if server is None or server.health is Health.removed:
        return
    if seen.gpu < server.configuration.gpus and not server.quarantined >> seen.gpu & 1:
        core.emit(seen)


def gpus_taken(core: Core, seen: facts.GpusTaken) -> None:
    """Note what of a server others hold, if that is news of one that is there."""
    server = core.state.cluster.servers.get(seen.node)
    if server is None or server.health is Health.removed:
        return
    known = server.taken, server.taken_cpus_milli, server.taken_memory_mb
    if known != (seen.gpu_mask, seen.cpus_milli, seen.memory_mb):
        core.emit(seen)


# Proposals of callers.


def propose_gang(core: Core, order: ProposeGang) -> None:
    """Record a proposal, unless the job is rejected again in this round.

    One for a job that has ended meanwhile is none.
    """
    state, repeats = core.state, core.reactor.timers.repeats
    job = state.jobs.get(order.job_id)
    if job is None or not order.candidates:
        return
    version = min(order.version, state.seq)
    proposed = facts.GangProposed(
        order.at_us, order.job_id, version, order.candidates, CALLER, order.by
    )
    if repeats.is_again(job.job_id, order.at_us):
        verdict = looked_at(proposed, state, core.rules)
        if isinstance(verdict, Refused):
            repeats.count(job, verdict, order.at_us)
            return
    core.emit(proposed)


HANDLERS: dict[type[Input], Callable[[Core, Any], None]] = {
    SubmitJob: submit_job,
    CancelJob: cancel_job,
    HoldJob: hold_job,
    SuspendJob: suspend_job,
    DiscardCheckpoint: discard_checkpoint,
    ReleaseJob: release_job,
    ResizeJob: resize_job,
    ChangePriority: change_priority,
    SetAttemptAside: set_attempt_aside,
    ProposeGang: propose_gang,
    DrainNode: drain_node,
    RestoreNode: restore_node,
    QuarantineGpu: quarantine_gpu,
    ReleaseGpu: release_gpu,
    AttemptExited: attempt_exited,
    facts.GpusReleased: as_is,
    facts.NodeLost: as_is,
    NothingComes: nothing_comes,
    WorldEnded: world_ended,
    RoundEnded: round_ended,
    facts.LaunchFailed: launch_failed,
    facts.AttemptStarted: attempt_started,
    facts.SpeedChanged: as_is,
    facts.SuspendAcknowledged: as_is,
    facts.SuspendEscalated: as_is,
    facts.TrainingStarted: as_is,
    facts.JobStopped: stopped,
    facts.JobContinued: as_is,
    facts.TurnStarted: turn_changed,
    facts.TurnEnded: turn_changed,
    facts.CheckpointSaved: as_is,
    facts.MessagesDropped: as_is,
    facts.JobSuspended: as_is,
    facts.AttemptLost: as_is,
    facts.NodeUnreachable: node_unreachable,
    facts.NodeReachable: as_is,
    facts.GpuQuarantined: gpu_quarantined,
    facts.GpusTaken: gpus_taken,
    facts.AllocationLearned: of_attempt,
    facts.ReshapeRefused: of_attempt,
    facts.ProfileSampled: of_attempt,
    facts.ClockStepped: as_is,
    facts.SegmentSealed: as_is,
}
