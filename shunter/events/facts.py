"""The facts that a log consists of: the closed list of event kinds, and their fields.

Each group ends with its union, the file with the union of all and the kinds by name. They are one
file of over 1,000 lines because the list is closed: who adds a kind has to see those there are.
`fact_classes.py` says which are taken from a log, and which follow from others.
"""

from enum import StrEnum
from typing import TypeAlias

from shunter.events.records import event, value
from shunter.events.values import (
    DISPLACED,
    HELD,
    NODE_LOST,
    RESIZED,
    Allocation,
    Batch,
    Because,
    ChangeKey,
    ClassWait,
    ConfigurationSet,
    GpuType,
    JobId,
    JobSpec,
    Level,
    NodeName,
    QueueName,
    Reason,
    Share,
    SuspendMode,
    Wait,
)

# The scheduler's own life.


@event
class SchedulerStarted:
    """Opens a term: who decides from here on, by which configuration and input.

    `config` is the resolved configuration as canonical JSON without log, server and output
    options; `digests` name the input files by content: (what, digest) pairs.
    """

    at_us: int
    term: int
    version: str
    policy: str
    policy_version: str
    seed: int
    config: str
    digests: tuple[tuple[str, str], ...] = ()
    cluster_id: str = ""
    simulated: bool = False


@event
class ConfigChanged:
    """The configuration was replaced while running; `keys` are those that differ."""

    at_us: int
    config: str
    keys: tuple[str, ...]
    policy: str
    policy_version: str


@event
class ClockStepped:
    """The wall clock jumped; the scheduler's own clock did not follow."""

    at_us: int
    by_us: int


@event
class SegmentSealed:
    """Frames up to `last_seq` were moved into a compressed, read-only segment."""

    at_us: int
    first_seq: int
    last_seq: int
    digest: str


@event
class SchedulerStopped:
    """Closes a term on purpose; a term without it ended in a crash."""

    at_us: int
    cause: str


@event
class EventsLost:
    """An operator goes on with a log that has lost its last events.

    `first_seq` to `last_seq` are their sequence numbers; the first of them is given again, to the
    start of the term after the loss. Ids up to `last_number` (as of j12) may have been theirs.
    """

    at_us: int
    first_seq: int
    last_seq: int
    last_number: int


RunEvent: TypeAlias = (
    SchedulerStarted | ConfigChanged | ClockStepped | SegmentSealed | SchedulerStopped | EventsLost
)


# Servers, GPUs and quotas.


@event
class NodeAdded:
    """A server joined the cluster and takes jobs."""

    at_us: int
    node: NodeName
    configuration: ConfigurationSet


@event
class NodeDrained:
    """A server takes no new jobs; those on it may end."""

    at_us: int
    node: NodeName
    by: str = ""


@event
class NodeRestored:
    """A drained server takes jobs again."""

    at_us: int
    node: NodeName
    by: str = ""


@event
class NodeUnreachable:
    """A server does not answer; what it runs is unknown, not failed."""

    at_us: int
    node: NodeName


@event
class NodeReachable:
    """A server that did not answer, or was lost, answers again."""

    at_us: int
    node: NodeName


@event
class NodeLost:
    """A server is proven dead; its attempts are over."""

    at_us: int
    node: NodeName
    cause: str = ""


@event
class NodeRemoved:
    """A server left the cluster for good; it holds nothing any more."""

    at_us: int
    node: NodeName


@event
class GpuQuarantined:
    """One GPU takes no new jobs: it misbehaved, or a person says so (the cause)."""

    at_us: int
    node: NodeName
    gpu: int
    cause: str = ""


@event
class GpuRestored:
    """A quarantined GPU takes jobs again."""

    at_us: int
    node: NodeName
    gpu: int


@event
class GpusTaken:
    """Others than this scheduler hold so much of a server now, and no more.

    Bit i of `gpu_mask` is GPU i; it replaces what was said of the server before (0: they hold
    none). What is given to jobs of this scheduler is not counted. Who had been given one of
    these GPUs and has not started gets another one of the server, or is displaced; and so are
    those for which too few CPUs or too little memory is left, the last submitted first.
    """

    at_us: int
    node: NodeName
    gpu_mask: int
    cause: str = ""
    cpus_milli: int = 0
    memory_mb: int = 0


@event
class QuotaChanged:
    """A queue's hard GPU quota (None: no bound), its weight and its users were set."""

    at_us: int
    queue: QueueName
    quota_gpus: int | None = None
    weight: float = 1.0
    users: tuple[str, ...] = ()


CLUSTER_CHANGES = (
    NodeAdded,
    NodeDrained,
    NodeRestored,
    NodeUnreachable,
    NodeReachable,
    NodeLost,
    NodeRemoved,
    GpuQuarantined,
    GpuRestored,
    GpusTaken,
)
"""The kinds after which other GPUs may be up than before."""


ClusterEvent: TypeAlias = (
    NodeAdded
    | NodeDrained
    | NodeRestored
    | NodeUnreachable
    | NodeReachable
    | NodeLost
    | NodeRemoved
    | GpuQuarantined
    | GpuRestored
    | GpusTaken
    | QuotaChanged
)


# What users ask for, and how their jobs end.


class Outcome(StrEnum):
    """How a job left the queue."""

    finished = "finished"
    failed = "failed"
    cancelled = "cancelled"
    rejected = "rejected"
    timeout = "timeout"


@event
class JobSubmitted:
    """A job was accepted into the queue.

    `duration_us` is the run time at base speed where a trace knows it; policies that do not
    declare themselves oracles never see it. `environment` are the names of variables it was given,
    each with a keyed digest of its value. `ended` are those of the jobs it depends on that had
    ended already, with how they did; logs of older versions leave it out.
    """

    at_us: int
    job_id: JobId
    spec: JobSpec
    duration_us: int | None = None
    dedupe_key: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    ended: tuple[tuple[JobId, Outcome], ...] = ()


@event
class JobRejected:
    """A submitted job can never run here, and leaves the queue."""

    at_us: int
    job_id: JobId
    reason: Reason
    needed: int = 0
    most: int = 0
    detail: str = ""


@event
class JobHeld:
    """A job may not start until it is released, at `until_us` where that is known."""

    at_us: int
    job_id: JobId
    by: str = ""
    until_us: int | None = None


@event
class JobReleased:
    """A held job may start again."""

    at_us: int
    job_id: JobId
    by: str = ""


@event
class JobResized:
    """A job wants another number of GPUs from its next attempt on.

    `by` is who wants that: its owner or an admin, or `:policy` where a plan did.
    """

    at_us: int
    job_id: JobId
    gpus: int
    by: str = ""


@event
class JobPriorityChanged:
    """A job's priority was changed; `group`: with all of its multi-job."""

    at_us: int
    job_id: JobId
    priority: int
    by: str = ""
    group: str = ""


@event
class JobGroupChanged:
    """A job joined another multi-job (or none)."""

    at_us: int
    job_id: JobId
    group: str
    by: str = ""


@event
class JobCancelRequested:
    """Somebody wants the job to end; it ends when its processes have.

    `group`: with all of its multi-job.
    """

    at_us: int
    job_id: JobId
    by: str = ""
    group: str = ""


@event
class TimeLimitReached:
    """A job has held its GPUs as long as it may, and is asked to end."""

    at_us: int
    job_id: JobId
    limit_us: int


@event
class JobRetried:
    """An attempt of a job failed by itself; the job waits for another one.

    How it ended is told before, by AttemptEnded. What still held GPUs for it is free.
    """

    at_us: int
    job_id: JobId
    attempt: int


@event
class JobFinished:
    """A job did all its work; what it still held is free.

    `ended_us` is when its processes ended, where the scheduler saw that later.
    """

    at_us: int
    job_id: JobId
    ended_us: int | None = None


@event
class JobFailed:
    """A job ended without doing its work; what it still held is free.

    `ended_us` is as in JobFinished.
    """

    at_us: int
    job_id: JobId
    cause: str
    exit_code: int | None = None
    ended_us: int | None = None


@event
class JobCancelled:
    """Somebody or a failed dependency ended a job; all it held is free.

    `ended_us` is as in JobFinished.
    """

    at_us: int
    job_id: JobId
    cause: str = ""
    ended_us: int | None = None


JOB_ENDS = (JobFinished, JobFailed, JobCancelled, JobRejected)
"""The kinds after which a job is gone."""


def end_us_of(event: JobFinished | JobFailed | JobCancelled | JobRejected) -> int:
    """Return when the processes of a job were gone, though it was seen later."""
    ended_us = None if isinstance(event, JobRejected) else event.ended_us
    return event.at_us if ended_us is None else ended_us


def outcome_of(event: JobFinished | JobFailed | JobCancelled | JobRejected) -> Outcome:
    """Return how a job ended."""
    if isinstance(event, JobFinished):
        return Outcome.finished
    if isinstance(event, JobFailed):
        return Outcome.timeout if event.cause == Outcome.timeout else Outcome.failed
    return Outcome.cancelled if isinstance(event, JobCancelled) else Outcome.rejected


JobEvent: TypeAlias = (
    JobSubmitted
    | JobRejected
    | JobHeld
    | JobReleased
    | JobResized
    | JobRetried
    | JobPriorityChanged
    | JobGroupChanged
    | JobCancelRequested
    | TimeLimitReached
    | JobFinished
    | JobFailed
    | JobCancelled
)


# Gangs that job schedulers propose. A proposal from outside is commanded; the answer follows.


@event
class GangProposed:
    """A job scheduler proposed candidate placements, made from the view of `version`.

    `version` is the sequence number of the last event in that view. `cause` is empty where the
    job's own scheduler did so, and `caller` where somebody else's did, whose user is `by`.
    """

    at_us: int
    job_id: JobId
    version: int
    candidates: tuple[Allocation, ...]
    cause: str = ""
    by: str = ""


@event
class GangApproved:
    """The approver granted a proposal whole: the candidate with the number `choice`.

    `version` is the sequence number of the last event it looked at.
    """

    at_us: int
    job_id: JobId
    version: int
    choice: int
    cause: str = ""


@event
class GangRejected:
    """The approver refused a proposal: what was taken, and the version that shows it.

    `conflicts` are the GPUs of its first candidate that are not free for it, by server. From
    `retry_us` on its scheduler proposes again; None: that is not ours to say. With the cause
    `repeated`, `count` further proposals of the job were refused in a round, and nothing else is
    recorded of them.
    """

    at_us: int
    job_id: JobId
    version: int
    reason: Reason
    conflicts: tuple[tuple[NodeName, int], ...] = ()
    cause: str = ""
    detail: str = ""
    retry_us: int | None = None
    count: int = 1


GangFact: TypeAlias = GangProposed | GangApproved | GangRejected
GANGS = (GangProposed, GangApproved, GangRejected)
"""What job schedulers proposed, and what became of it."""


# What was decided, and why.

NO_SUCH_JOB = "there is no such job"
"""Why a change is refused to a job that has ended, or never was."""


class Trigger(StrEnum):
    """What made the scheduler plan."""

    round = "round"
    event = "event"
    wake = "wake"


@event
class RoundPlanned:
    """The policy was asked; this is how it left the queue, changed or not.

    `skipped` rounds before it could not have decided anything; `seen` is the sequence number
    of the last event the policy saw; `waits` are the classes whose reason changed. `fault` says
    where and how the policy itself failed, if it did. `consolidated` are waiting jobs that from
    now on wait for the fewest servers that could hold them, `spread` those that no longer do.
    Where job schedulers propose, `admitted` are the jobs that the order lets start from now on if
    they find a place, `dismissed` those that it no longer does.
    """

    at_us: int
    number: int
    skipped: int
    seen: int
    trigger: Trigger = Trigger.round
    waits: tuple[ClassWait, ...] = ()
    fault: str = ""
    consolidated: tuple[JobId, ...] = ()
    spread: tuple[JobId, ...] = ()
    admitted: tuple[JobId, ...] = ()
    dismissed: tuple[JobId, ...] = ()


@event
class PolicySetAside:
    """The policy did not answer in time, or its process ended: it is not asked again.

    `cause` says at what it was and what happened; `told` is the sequence number of the last event
    it was told of. Jobs run on, and none is started until a scheduler is started anew.
    """

    at_us: int
    policy: str
    cause: str
    told: int


@value
class Target:
    """The share of time a job (or pair) should get of a GPU type, to 1e-9."""

    jobs: tuple[JobId, ...]
    gpu_type: GpuType
    fraction: float


@event
class TargetsSet:
    """The answer of a policy's expensive part, which replay need not solve again."""

    at_us: int
    targets: tuple[Target, ...]
    solver: str = ""
    status: str = "ok"


@value
class Size:
    """How many CPUs and how much memory go with each GPU of a job."""

    job_id: JobId
    cpus_milli: int
    memory_mb: int


@event
class SizesSet:
    """The answer of the programs that size jobs, which replay need not solve again.

    `sizes` are those of jobs that start in the round it stands before, and of running ones that
    get others than they have. `speed` is the sum of the speeds of all jobs with GPUs that run
    then, `bound` what that could be at most if all servers of a GPU type were one, `gap` what of
    it the search left open when it ended. `status` says why sizes are not those of the programs.
    """

    at_us: int
    sizes: tuple[Size, ...]
    speed: float
    bound: float
    gap: float = 0.0
    status: str = "ok"


SolvedFact: TypeAlias = TargetsSet | SizesSet
SOLVED = (TargetsSet, SizesSet)
"""What stands before the round that goes by it: answers that replay need not solve again."""


@event
class AllocationChanged:
    """The scheduler's intent for one job: run exactly there, or (with nothing) stop.

    `instant` says that the outcome took no time and is part of this fact: the job was launched
    (or suspended and its GPUs released) at this very instant. Only a simulation says so.
    """

    at_us: int
    job_id: JobId
    allocation: Allocation
    because: Because
    instant: bool = False


_NO_PREEMPTION = frozenset(each.rule for each in (HELD, NODE_LOST, DISPLACED, RESIZED))


def is_preemption(event: AllocationChanged) -> bool:
    """Say whether a policy takes all GPUs of the job away.

    That is a preemption if it runs and leaves. It is none where a person has it leave, a server is
    lost, others are found to have its GPUs, or it is to go on with another number of them; nor is a
    move to other GPUs.
    """
    return not event.allocation.shares and event.because.rule not in _NO_PREEMPTION


@event
class JobReshaped:
    """A running job keeps its GPUs and gets other CPUs or memory beside them.

    `allocation` is the whole of what it has from now on.
    """

    at_us: int
    job_id: JobId
    allocation: Allocation
    because: Because


@event
class WaitReasonChanged:
    """One job waits for another reason than before (policies without classes)."""

    at_us: int
    job_id: JobId
    wait: Wait


@event
class PlanRejected:
    """The approver refused one change of a plan; the rest of the plan went ahead.

    What a plan wants for a job that does not exist is refused with the detail of that name.
    """

    at_us: int
    job_id: JobId
    reason: Reason
    rule: str
    detail: str = ""


@event
class ReservationSet:
    """GPUs are kept for a waiting job from `start_us` on; None withdraws the promise.

    `shares` are the very GPUs, where no other job's proposal may have them from now on.
    """

    at_us: int
    job_id: JobId
    start_us: int | None
    gpus: int = 0
    shares: tuple[Share, ...] = ()


@event
class TrialStarted:
    """A change is being tried and will be judged by what it measures.

    `pack`: the job has its turns on the same GPUs at once with its partners, from now on until the
    trial is reverted or one of them leaves. `migrate`: it was moved in this round. `baseline` is
    the sum of the normalised rates as things were, `batches` the mini-batches that its jobs
    measured then; `key` is what the verdict is remembered by.
    """

    at_us: int
    job_id: JobId
    trial: str
    partners: tuple[JobId, ...] = ()
    baseline: float = 0.0
    batches: tuple[Batch, ...] = ()
    key: ChangeKey | None = None


@event
class TrialKept:
    """A trial did not worse than before, and what it changed stays.

    `measured` is the sum of the normalised rates in it, by the mini-batches in `batches`; `reason`
    says whether it gained, or only less than it cost (`TrialReason`).
    """

    at_us: int
    job_id: JobId
    trial: str
    measured: float = 0.0
    reason: str = ""
    batches: tuple[Batch, ...] = ()


@event
class TrialReverted:
    """What was tried is undone: it did worse than before, or nothing was measured.

    So is what was kept once there is `room` for everybody alone. The rest is as in TrialKept.
    """

    at_us: int
    job_id: JobId
    trial: str
    measured: float = 0.0
    reason: str = ""
    batches: tuple[Batch, ...] = ()


TrialFact: TypeAlias = TrialStarted | TrialKept | TrialReverted
TRIALS = (TrialStarted, TrialKept, TrialReverted)
"""What is tried of jobs, and how it ended."""

DecisionEvent: TypeAlias = (
    RoundPlanned
    | TargetsSet
    | SizesSet
    | AllocationChanged
    | JobReshaped
    | WaitReasonChanged
    | PlanRejected
    | PolicySetAside
    | GangFact
    | ReservationSet
    | TrialStarted
    | TrialKept
    | TrialReverted
)


# What really ran, as backends observed it. `nodes`: the servers whose journal said so, of a gang
# over several.


@event
class LaunchFailed:
    """An attempt never started; its GPUs are free again.

    `checkpoint_on` names the servers its checkpoint could not be brought from or to. Such a failure
    is not the job's own, and does not count among those of which it fails. `waited`: up to now it
    was in the queue of who starts jobs instead of this scheduler, and that is no service.
    `checkpoint_stays`: what it saved is more than is copied, so it goes on there or without it.
    """

    at_us: int
    job_id: JobId
    attempt: int
    cause: str
    retryable: bool = True
    checkpoint_on: tuple[NodeName, ...] = ()
    waited: bool = False
    checkpoint_stays: bool = False


@event
class AttemptStarted:
    """A job's processes run: from which checkpoint, moved from which servers.

    `speed` is relative to base speed, where the performance model foresees it (a simulation).
    `keeps_split` says that later attempts must have as many GPUs on each server as this one, since
    its checkpoints depend on it. `checkpoints_stay` says that these lie on its own servers, and
    must be copied from there to wherever the job goes on. `may_tell_training`: its first mini-batch
    follows as `TrainingStarted`, if the job tells it. `waited`: up to now it was in the queue of
    who starts jobs instead of this scheduler, and that counts neither as service nor to its limit:
    up to `started_us`, where that was seen only later.
    """

    at_us: int
    job_id: JobId
    attempt: int
    resumed_from: str = ""
    migrated_from: tuple[NodeName, ...] = ()
    speed: float = 1.0
    keeps_split: bool = False
    checkpoints_stay: bool = False
    may_tell_training: bool = False
    waited: bool = False
    started_us: int | None = None


@event
class AllocationLearned:
    """An attempt is on these GPUs, and not on those that were booked for it.

    Who places the jobs instead of this scheduler (Slurm) has told it, best before
    `AttemptStarted`. Others that had been given these GPUs get what it gave up, or are displaced.
    """

    at_us: int
    job_id: JobId
    attempt: int
    allocation: Allocation


@event
class TrainingStarted:
    """An attempt has told its first mini-batch: it has started up, and trains."""

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...] = ()


@event
class SpeedChanged:
    """A running attempt goes at another speed, because who shares its GPUs changed.

    `speed` is relative to base speed, as the performance model foresees it (a simulation).
    """

    at_us: int
    job_id: JobId
    attempt: int
    speed: float


@event
class ReshapeRefused:
    """An attempt keeps its CPUs and memory: its server refused it others.

    `wanted` are the shares that were refused, on servers of one agent, `kept` what the attempt has
    there instead, `cause` what the agent said. It is asked for no other ones while it lasts.
    """

    at_us: int
    job_id: JobId
    attempt: int
    wanted: tuple[Share, ...]
    kept: tuple[Share, ...]
    cause: str


@event
class SuspendAcknowledged:
    """The job has seen the request and will stop at its next mini-batch boundary."""

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...] = ()


@event
class SuspendEscalated:
    """The job did not answer in time; the next stronger mode was used."""

    at_us: int
    job_id: JobId
    attempt: int
    mode: SuspendMode
    nodes: tuple[NodeName, ...] = ()


@event
class JobStopped:
    """The processes of an attempt stand still; it keeps its GPUs and memory."""

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...] = ()


@event
class JobContinued:
    """The processes of a stopped attempt go on."""

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...] = ()


@event
class TurnStarted:
    """An attempt that shares GPUs in turns works now, on these of its servers.

    `shares` are those of this turn, which may be others of the same servers than it was given.
    `began_us` is when it began, if it was seen later. `can_move`: its program has said that it
    takes its GPUs again with each turn. Of a gang over several servers each tells of its own part,
    and it works once it has all of them, at the speed that the last one tells.
    """

    at_us: int
    job_id: JobId
    attempt: int
    shares: tuple[Share, ...]
    speed: float = 1.0
    began_us: int | None = None
    can_move: bool = False


@event
class TurnEnded:
    """The turn of an attempt is over; others have its GPUs until the next one.

    `ended_us` is when it ended, if it was seen later. `nodes` are the servers of a gang on which it
    did, if not on all of them at once.
    """

    at_us: int
    job_id: JobId
    attempt: int
    ended_us: int | None = None
    nodes: tuple[NodeName, ...] = ()


@event
class CheckpointSaved:
    """A checkpoint is complete on disk."""

    at_us: int
    job_id: JobId
    attempt: int
    checkpoint: str
    step: int | None = None
    bytes: int | None = None
    nodes: tuple[NodeName, ...] = ()


@event
class CheckpointDiscarded:
    """A job goes on without what an attempt saved on some servers.

    `attempt` is the one that saved there, and `step` the last step that it told of. The cause is
    that a server of them was `lost` or left the cluster, or that somebody gave the checkpoint up
    (`given_up`).
    """

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...]
    step: int | None = None
    cause: str = ""
    by: str = ""


@event
class JobSuspended:
    """An attempt ended to go on later; `lost_us` of its work must be redone.

    `cause` says who ended it, where this scheduler did not: such as Slurm by its time limit.
    `exit_code` is told where it is 0: it was to leave, and its work was not finished all the same.
    """

    at_us: int
    job_id: JobId
    attempt: int
    step: int | None = None
    lost_us: int = 0
    cause: str = ""
    exit_code: int | None = None


@event
class AttemptEnded:
    """The processes of an attempt are gone; None where nobody saw the exit code.

    `ended_us` is when they went, where the scheduler saw that later. `memory_kills` are those
    that the kernel killed because the attempt used more than its memory. `signal` killed the
    process whose end the exit code tells, as its server saw; without one it may have exited so.
    `unused_us` is for how long up to now the GPUs of a job that is retried counted for it, and it
    did not use them: neither its service nor its time limit has that.
    """

    at_us: int
    job_id: JobId
    attempt: int
    exit_code: int | None
    ended_us: int | None = None
    memory_kills: int = 0
    signal: int | None = None
    unused_us: int = 0


@event
class AttemptLost:
    """An attempt ended with its server or supervisor; the job goes back to the queue.

    Its GPUs are free with it; `lost_us` is the work since its last checkpoint.
    """

    at_us: int
    job_id: JobId
    attempt: int
    cause: str
    lost_us: int = 0


@event
class GpusReleased:
    """Nothing of the job is on its GPUs any more; they can be given on."""

    at_us: int
    job_id: JobId
    attempt: int


@event
class MessagesDropped:
    """Messages of an attempt were not taken: wrong ones, or too many of them.

    `count` is how many so far, `cause` what was wrong with the last one.
    """

    at_us: int
    job_id: JobId
    attempt: int
    count: int
    cause: str
    nodes: tuple[NodeName, ...] = ()


@event
class JobWarned:
    """An attempt warns the owner of its job: that it will not go on exactly, say.

    The job said it, or the supervisor that saw how the attempt ended. Each attempt says a `text`
    once; `step` is the last mini-batch by then.
    """

    at_us: int
    job_id: JobId
    attempt: int
    text: str
    step: int | None = None
    nodes: tuple[NodeName, ...] = ()


@event
class AttemptSetAside:
    """Somebody ordered that nothing an attempt tells is believed any more.

    It is ended, and counts as lost once nothing of it runs.
    """

    at_us: int
    job_id: JobId
    attempt: int
    by: str = ""


ExecutionEvent: TypeAlias = (
    LaunchFailed
    | AttemptStarted
    | SuspendAcknowledged
    | SuspendEscalated
    | TrainingStarted
    | JobStopped
    | JobContinued
    | TurnStarted
    | TurnEnded
    | CheckpointSaved
    | CheckpointDiscarded
    | JobSuspended
    | AttemptEnded
    | AttemptLost
    | GpusReleased
    | SpeedChanged
    | MessagesDropped
    | JobWarned
    | AttemptSetAside
    | AllocationLearned
    | ReshapeRefused
)


# Speed, use, and what distance between GPUs costs.


@event
class ProfileSampled:
    """One sample of an attempt; utilisations are fractions, batches in seconds."""

    at_us: int
    job_id: JobId
    attempt: int
    step: int | None = None
    batch_s: float | None = None
    gpu_utilisation: float | None = None
    gpu_memory_mb: int | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    message_bytes_largest: int | None = None
    message_bytes_total: int | None = None


@event
class ProfileMeasured:
    """One offline measurement of a model on given resources, in steps per second."""

    at_us: int
    model: str
    gpu_type: GpuType
    gpus: int
    steps_per_s: float
    batch_size: int | None = None
    cpus_milli: int | None = None
    memory_mb: int | None = None
    level: str = ""


@event
class SensitivityCorrected:
    """A running job measured another speed than the table of sensitivity says.

    `cpus_milli` and `memory_mb` are what each GPU of the job has, or what it had before, where it
    has its base now. `measured` is its speed with them, `expected` what the table said, both
    relative to the proportional share. The job measured it against its own rate with
    `base_cpus_milli` and `base_memory_mb`. `gpus` is the gang size of the matrix that is corrected.
    """

    at_us: int
    job_id: JobId
    model: str
    gpus: int
    cpus_milli: int
    memory_mb: int
    expected: float
    measured: float
    base_cpus_milli: int
    base_memory_mb: int


@event
class ToleranceLearnt:
    """A gang measured how long its mini-batches take where its GPUs are so far apart.

    `level` is the smallest one that holds all of its GPUs, `split` how many it has on each server,
    the most first. `batch_us` is the mean time of `samples` mini-batches, in microseconds.
    """

    at_us: int
    job_id: JobId
    model: str
    gpu_type: GpuType
    level: Level
    split: tuple[int, ...]
    batch_us: int
    samples: int
    batch_size: int | None = None


ProfileEvent: TypeAlias = ProfileSampled | ProfileMeasured | SensitivityCorrected | ToleranceLearnt

Event: TypeAlias = (
    RunEvent | ClusterEvent | JobEvent | DecisionEvent | ExecutionEvent | ProfileEvent
)

KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__args__}
"""Each kind by its name on disk."""
