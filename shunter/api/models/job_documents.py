"""Answers about jobs: rows of the queue and of history, and one job with its attempts."""

from pydantic import Field

from shunter.api.models.model import Document, Instant, Model
from shunter.api.problems import ProblemDocument


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
