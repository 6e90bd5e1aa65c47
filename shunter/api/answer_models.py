"""What goes out over HTTP, as strict models; OpenAPI is made from them."""

from typing import Literal

from pydantic import Field

from shunter.api.problems import ProblemDocument
from shunter.api.request_models import Document, Instant, Model
from shunter.events import Level

# Jobs.


class ReasonPart(Model):
    """Why a job waits, with its evidence."""

    name: str = Field(description="a reason of the closed list")
    needed: int = 0
    free: int = 0
    blockers: tuple[str, ...] = ()
    detail: str = ""


class TurnPart(Model):
    """The turns of a job on GPUs that it shares; parts are from 0 to 1."""

    is_on: bool = Field(description="whether it has its turn now")
    fair_share: float = Field(
        description="its part of the time by its weight, beside those who take turns on its server "
        "now, if each could be on any of the GPUs that they share"
    )
    used: float | None = Field(
        description="the part that it had in its turns of its GPUs in `held_s`, whatever size its "
        "gang had; null: it has only just begun"
    )
    held_s: float = Field(description="for how long it has held its GPUs, in all its attempts")


class JobRow(Model):
    """A job that has not ended."""

    id: str
    name: str
    user: str
    queue: str
    group: str
    gpus: int
    cpus: float = Field(description="what it asks for itself; 0: nothing, and so with memory")
    memory_mb: int
    state: str = Field(description="waiting, suspended, held, running, …")
    priority: int
    submitted_at: Instant
    since_at: Instant = Field(description="when its attempt was launched, or its wait began")
    where: str = Field(description="servers with their GPUs: gpu1[0-3]; empty: nowhere")
    cpus_held: float = Field(description="what it has there, given by `policy.sizing` or asked for")
    memory_mb_held: int
    attempt: int
    preemptions: int
    service_gpu_s: float = Field(description="GPU-seconds attained up to now, or to that state")
    turns: TurnPart | None = Field(
        description="null: it takes no turns (its GPUs are its own), or does not run"
    )
    array_index: int | None
    rank: int | None = Field(
        description="its place among those that wait, from 1; null where the policy ranks none, "
        "and in past states"
    )
    reason: ReasonPart | None = Field(description="None: it does not wait")
    launch_wait: str = Field(
        description="what its launch waits for, in the words of whoever places it (Slurm); empty: "
        "for nothing, or of a past state"
    )


class QueueDocument(Document):
    """The jobs that have not ended: who holds GPUs, then who waits, by rank."""

    seq: int = Field(description="the event up to which this is true")
    now: Instant
    total: int = Field(description="how many jobs match")
    of_others: int = Field(description="how many do not, for they are another user's")
    states: dict[str, int] = Field(description="how many of them are in each state")
    jobs: tuple[JobRow, ...]


class AttemptPart(Model):
    """One launch of a job, from its grant on; what has not happened is null."""

    attempt: int
    where: str
    granted_at: Instant
    rule: str
    started_at: Instant | None
    resumed_from: str
    suspend_asked_at: Instant | None
    acknowledged_at: Instant | None
    escalated_to: tuple[str, ...] = Field(description="stronger modes that had to be used")
    saved_at: Instant | None
    step: int | None
    ended_at: Instant | None
    ended_by: str
    exit_code: int | None
    killed_by: str = Field(default="", description="the signal, where a server saw one kill it")
    memory_kills: int = Field(description="processes killed because it used more than its memory")
    released_at: Instant | None
    lost_s: float = Field(description="of work, by a suspension that did not save it")
    suspend_s: float | None = Field(
        description="from the request to its GPUs being free, if it was suspended"
    )
    discarded_at: Instant | None = Field(
        description="when it was given up what this attempt had saved; later ones began without it"
    )
    discarded_because: str
    messages_dropped: int = Field(description="of the job's messages: wrong ones, or too many")
    dropped_because: str = Field(description="what was wrong with the last of them")
    set_aside_by: str = Field(description="who ordered that it is not believed any more")


class WarningPart(Model):
    """A warning to the owner of a job, when it was said last."""

    text: str
    attempt: int
    at: Instant
    step: int | None = Field(description="the last mini-batch by then, where the job said it")


class EndedRow(Model):
    """A job that has ended."""

    id: str
    name: str
    user: str
    queue: str
    gpus: int
    state: str = Field(description="finished, failed, cancelled, rejected, timeout")
    cause: str
    exit_code: int | None
    killed_by: str = Field(default="", description="the signal, where a server saw one kill it")
    submitted_at: Instant
    started_at: Instant | None
    ended_at: Instant
    attempts: int
    run_s: float = Field(description="how long its attempts ran, together")


class HistoryDocument(Document):
    """Jobs that have ended, the last one first."""

    seq: int
    now: Instant
    total: int = Field(description="how many jobs have ended in all")
    jobs: tuple[EndedRow, ...]


class JobDocument(Document):
    """Everything about one job but its output."""

    seq: int
    now: Instant
    id: str
    state: str
    is_over: bool
    cause: str
    cause_detail: str = Field(description="which job it needed to end well, and how that ended")
    exit_code: int | None
    killed_by: str = Field(default="", description="the signal, where a server saw one kill it")
    row: JobRow | None = Field(description="as in the queue; null once it has ended")
    spec: dict[str, object] = Field(description="what it asked for, as in JobSubmitted")
    environment: dict[str, str] = Field(
        description="the variables it was given: names, and keyed digests of values"
    )
    submitted_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    service_gpu_s: float | None = Field(
        description="once it has ended: GPU-seconds of its attempts, from start to release, "
        "of those in turns while they had one"
    )
    next_try_at: Instant | None = Field(
        description="when it may be launched again after a failed launch, a loss or a failure; "
        "null: it does not wait for that"
    )
    attempts: tuple[AttemptPart, ...]
    warnings: tuple[WarningPart, ...] = Field(
        default=(), description="what may keep it from going on exactly, say; the last 32"
    )
    profile: dict[str, object] | None = Field(description="the newest sample, as in ProfileSampled")
    profile_at: Instant | None = Field(description="when that was; `attempt` in it says of which")


class DryRunPart(Model):
    """What the next plan would do with a job that was not submitted."""

    at: Instant = Field(description="when that plan is made")
    starts: bool = Field(description="whether it starts then; else it waits, if only for a release")
    where: str = Field(description="the GPUs that it would be given: gpu1[0-3]; empty: none")
    reason: ReasonPart | None = Field(description="why it would wait; null: it is given GPUs")


class SubmittedDocument(Document):
    """The jobs a submission made: one, or one for each task of an array."""

    id: str = Field(description="the first of them")
    ids: tuple[str, ...]
    seq: int
    is_dry_run: bool = False
    would: str = Field(default="", description="with dry_run: what would become of it")
    note: str = Field(
        default="", description="that it is cancelled at once, as what it comes after failed"
    )
    plan: DryRunPart | None = Field(
        default=None, description="with dry_run: null where the policy could not be asked in time"
    )


class RefusedPart(Model):
    """A job to which nothing happens, and why."""

    job: str
    problem: ProblemDocument


class JobsToldDocument(Document):
    """What somebody asked for of some jobs is in the log, but for the refused."""

    jobs: tuple[str, ...] = Field(description="the jobs that were told")
    refused: tuple[RefusedPart, ...] = Field(description="the others")
    seq: int


class ToldDocument(Document):
    """What somebody asked for is in the log, and its effects are on their way."""

    subject: str
    seq: int


# The cluster and the daemon.


class GpuPart(Model):
    """One GPU and those on it."""

    index: int
    state: str = Field(description="free, used, leaving, promised, quarantined, or taken by others")
    jobs: tuple[str, ...]


class LevelPart(Model):
    """The groups of a server's GPUs at one level."""

    level: str = Field(description="nvlink, switch or socket")
    groups: tuple[tuple[int, ...], ...] = Field(description="the GPUs of each")


class NodePart(Model):
    """One server."""

    name: str
    state: str = Field(description="up, drained, unreachable, lost")
    gpu_type: str
    device: str = Field(description="what `gpus` are: 'gpu', or 'cpu' where they are units of CPU")
    gpus: tuple[GpuPart, ...]
    cpus: float
    cpus_free: float
    cpus_taken: float = Field(description="what others than this scheduler hold of them")
    memory_mb: int
    memory_mb_free: int
    memory_mb_taken: int = Field(description="what others than this scheduler hold of it")
    rack: str
    domain: str = Field(description="network domain above racks; empty: unknown")
    levels: tuple[LevelPart, ...] = Field(
        description="the map of its GPUs, the nearest level first, without levels that divide "
        "nothing"
    )
    links: tuple[tuple[int, ...], ...] = Field(description="GPUs joined directly, as by NVLink")
    jobs: tuple[str, ...]


class SocketPart(Model):
    """The GPUs on a socket, and the CPUs to which what runs on them is bound."""

    gpus: tuple[int, ...]
    cpus: tuple[int, ...]


class QuarantinedGpu(Model):
    """A GPU that takes no jobs."""

    gpu: int
    cause: str = Field(description="what was read of it, or who said so; empty: unknown")


class ListedNode(NodePart):
    """One server, as it is now."""

    state: str = Field(
        description="up, drained, unreachable, lost; 'not held': a node of Slurm that no pilot "
        "holds now, which is none of these"
    )
    cause: str = Field(
        description="why it does not answer now, or takes no jobs in Slurm; empty if it does"
    )
    quarantined: tuple[QuarantinedGpu, ...] = Field(
        description="its GPUs that take no jobs, until they are released"
    )
    map_by: str = Field(
        description="who told the map of its GPUs: config, sources of the server (sysfs, hwloc, "
        "nvidia-smi, or two of them joined by 'and'), the log of a time before; empty: it has none"
    )
    map_notes: tuple[str, ...] = Field(
        description="where config and server contradict each other, or why there is no map"
    )
    place_by: str = Field(
        description="who told rack and domain: config, Slurm, the log of a time before; empty: "
        "nobody"
    )
    sockets: tuple[SocketPart, ...] = Field(description="its sockets whose CPUs are known")


class NodesDocument(Document):
    """All servers."""

    seq: int
    now: Instant
    nodes: tuple[ListedNode, ...]


class QueuePart(Model):
    """A queue with its quota, and what its jobs are given now."""

    name: str
    quota_gpus: int | None
    weight: float
    users: tuple[str, ...]
    gpus: int


class StateDocument(Document):
    """What is true right after one event. Equal `seq`, equal document."""

    seq: int
    at: Instant
    at_us: int
    term: int
    policy: str
    rounds_planned: int
    ended: dict[str, int] = Field(description="how many jobs ended how")
    queues: tuple[QueuePart, ...]
    nodes: tuple[NodePart, ...]
    jobs: tuple[JobRow, ...]


class EventPage(Document):
    """Events in order, each with its number, its date, and its fields by name."""

    events: tuple[dict[str, object], ...]
    next: int = Field(description="ask for more with after=next")
    head: int = Field(description="the last durable event")


class DecisionDocument(Document):
    """One decision: what the policy saw, changed and why, and left waiting."""

    seq: int
    at: Instant
    round: int
    trigger: str
    seen: int = Field(description="the last event the policy saw")
    policy: str
    last_seq: int = Field(description="the last fact of the decision")
    changes: tuple[dict[str, object], ...]
    refused: tuple[dict[str, object], ...]
    waits: tuple[dict[str, object], ...]
    words: tuple[str, ...] = Field(description="the same, a sentence for each fact")
    digest: str = Field(description="of the decision's facts; equal decisions, equal digests")


class PlanningDocument(Model):
    """A policy at work."""

    hook: str = Field(description="what it was asked: start, observer or plan")
    since_s: float = Field(description="seconds since it was asked")
    limit_s: float = Field(description="seconds after which it is set aside")


class DaemonDocument(Document):
    """Who answers, and whom it takes the caller for."""

    version: str
    cluster_id: str
    term: int
    policy: str
    policy_fault: str = Field(
        description="how the policy failed in the last round; empty: it did not"
    )
    planning: PlanningDocument | None = Field(
        description="what the policy is at, if it takes long; commands wait for it"
    )
    seq: int
    now: Instant
    backend: str
    config: str = Field(description="the file of its config")
    log: str = Field(description="the file of its log, or its address")
    user: str
    is_admin: bool
    serves: str = Field(description="whose jobs it starts: everybody's, or one user's")


class HealthDocument(Document):
    """Whether it lives, or takes work."""

    status: str


# Multi-jobs.


class MemberPart(Model):
    """A job of a group, which may have ended."""

    id: str
    name: str
    state: str = Field(description="as in the queue, or how it ended")
    is_over: bool
    priority: int
    gpus: int
    where: str = Field(description="servers with their GPUs; empty: nowhere")
    service_gpu_s: float = Field(description="GPU-seconds attained")
    share: float = Field(description="its part of all that the members attained, from 0 to 1")
    turns: TurnPart | None = Field(description="null: it takes none, as in the queue")
    step: int | None = Field(description="the last mini-batch it told or saved; null: none yet")
    total_steps: int | None
    batch_s: float | None = Field(description="seconds a mini-batch, as it told last")


class GroupPart(Model):
    """A group of jobs of one user."""

    group: str
    user: str
    total: int
    states: dict[str, int] = Field(description="how many members are in each state")
    service_gpu_s: float = Field(description="of all members")
    members: tuple[MemberPart, ...] = Field(description="by submission")


class GroupsDocument(Document):
    """The groups that were asked for."""

    seq: int
    now: Instant
    groups: tuple[GroupPart, ...]


class GroupToldDocument(Document):
    """What somebody asked for of a group is in the log for every member."""

    group: str
    user: str
    jobs: tuple[str, ...] = Field(description="the members that had not ended, which were told")
    ended: int = Field(description="how many members had ended, to which nothing happens")
    seq: int


# Forecasts.


class BandPart(Model):
    """An instant as P50 and P90: with that probability it has come by then."""

    p50_us: int | None = Field(description="microseconds since the log began; null: not foreseen")
    p90_us: int | None
    p50: Instant | None
    p90: Instant | None


class ForecastRow(Model):
    """When a job starts and ends."""

    id: str
    name: str
    user: str
    gpus: int
    state: str = Field(description="as in the queue; `imagined`: it was not submitted")
    start: BandPart | None = Field(description="when it is given GPUs next; null: it has some")
    end: BandPart


class EndsAccuracyPart(Model):
    """How forecasts of ends held that are made again from what was known then."""

    ended: int = Field(description="how many jobs have ended in all; none: no share says anything")
    jobs: int = Field(description="that were there and whose P90 has come since, each counted once")
    by_p50: int = Field(description="how many of them ended by their P50")
    by_p90: int
    share_by_p90: float | None = Field(description="null: no job counts")


class AccuracyPart(Model):
    """How forecasts held that are made again from what was known then."""

    moments: int
    jobs: int = Field(description="that waited there and whose P90 has come, each counted once")
    by_p50: int = Field(description="how many of them started by their P50")
    by_p90: int
    share_by_p90: float | None = Field(description="null: no job counts")
    ends: EndsAccuracyPart


class ForecastDocument(Document):
    """When jobs start and end, and how far to trust that."""

    evidence: Literal["simulated"]
    seq: int = Field(description="the event after which the simulations go on")
    now: Instant
    now_us: int
    policy: str
    samples: int = Field(description="how many simulations the quantiles are of")
    jobs: tuple[ForecastRow, ...]
    accuracy: AccuracyPart
    assumptions: tuple[str, ...]


class ChangePart(Model):
    """A change with which a job starts."""

    kind: str = Field(
        description="what is changed: end, ends, good_end, good_ends, size, priority, quota, "
        "servers"
    )
    words: str
    jobs: tuple[str, ...] = Field(description="those that would end")
    starts_us: int
    starts: Instant


class ChangesPart(Model):
    """What would make a job start, each change tried in a simulation."""

    evidence: Literal["simulated"]
    tried: int = Field(description="how many changes were tried")
    tried_words: tuple[str, ...] = Field(description="each of them in words")
    not_tried: tuple[str, ...] = Field(
        description="ends that it needs and that could not be tried, in words"
    )
    starts_us: int | None = Field(description="when it starts with no change; null: it does not")
    starts: Instant | None
    found: tuple[ChangePart, ...]
    assumptions: tuple[str, ...]


class StartsIfDocument(Document):
    """What would make a job start at a moment."""

    counterfactuals: ChangesPart | None = Field(description="null: it does not wait there")


# Proposals of gangs.


class ProposalDocument(Document):
    """What the approver said: the gang is granted whole, or not at all."""

    job_id: str
    approved: bool
    choice: int | None = Field(description="the number of the candidate that was granted, from 0")
    version: int = Field(description="the last event that the approver looked at")
    reason: str = Field(description="why the first candidate was refused; empty: it was granted")
    detail: str
    conflicts: dict[str, int] = Field(
        description="by server, the mask of its GPUs that were not free for the job"
    )
    retry_after_s: float | None = Field(
        description="when to look again, so that those who collided do not meet again"
    )
    seq: int


class ViewServer(Model):
    """A server that takes jobs; masks of GPUs have GPU i as bit i."""

    name: str
    gpu_type: str
    gpus: int
    free: int = Field(description="the mask of the GPUs that are nobody's")
    cpus_free: float
    memory_mb_free: int
    rack: str
    domain: str
    levels: dict[str, tuple[int, ...]] = Field(
        description="by level inside the server (`nvlink`, `switch`, `socket`), the masks of its "
        "groups"
    )
    links: tuple[int, ...] = Field(description="the masks of GPUs that are joined directly")


class AdmittedJob(Model):
    """A job that the order lets start, and that may be proposed."""

    job_id: str
    user: str
    queue: str
    gpus: int
    gpu_types: tuple[str, ...]
    cpus: float = Field(description="of the whole job")
    memory_mb: int = Field(description="of the whole job")
    max_level: Level | None
    shapes: tuple[tuple[int, ...], ...]
    rejected: int = Field(description="how often it was rejected in a row")
    kept: dict[str, int] = Field(description="by server, the mask of the GPUs kept for it")


class ViewDocument(Document):
    """Which GPUs are free, and whose turn it is."""

    version: int = Field(description="the number of the last event in it; proposals name it")
    at: Instant
    servers: tuple[ViewServer, ...]
    admitted: tuple[AdmittedJob, ...] = Field(description="in the order of their admission")
