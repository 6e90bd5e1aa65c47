"""What every document over HTTP is, and what comes in: bodies, and parameters of what reads.

All are strict, so that a misspelt field or filter is an error. OpenAPI is made from them.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from shunter.client import VARIABLE, is_name
from shunter.events import Level, SuspendMode

SCHEMA_VERSION = 1
NAME_MOST = 200
TEXT_MOST = 131_000
"""What Linux takes for one argument or variable (128 KiB with its end), rounded down."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Model(BaseModel):
    """A part of a document."""

    # What checks a document is built when the first one is checked.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )


class Document(Model):
    """A whole answer."""

    schema_version: int = Field(default=SCHEMA_VERSION, description="version of this form")


def _printable(text: str) -> str:
    """Refuse what would move a terminal's cursor, or turn the text around."""
    if _CONTROL.search(text):
        raise ValueError("expected no control characters")
    return text


def _without_zero(text: str) -> str:
    if "\x00" in text:
        raise ValueError("expected no zero byte: no process can be given one")
    return text


Name = Annotated[str, Field(max_length=NAME_MOST), AfterValidator(_printable)]
"""A short text that lists show; markup in it is text."""

Text = Annotated[str, Field(max_length=TEXT_MOST), AfterValidator(_without_zero)]
"""A text that is handed to a process."""

Instant = Annotated[str, Field(description="date and time with offset, ISO 8601")]

At = Annotated[
    str | None,
    Field(max_length=64, description="an event (20871 or e20871), T+03:12:40, or a date"),
]
"""A point of the log, as people write it."""


# The body of POST /api/v1/jobs.

ARGUMENTS_MOST = 8192
VARIABLES_MOST = 1024
DEPENDENCIES_MOST = 64
TASKS_MOST = 10_000

job_id_pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$"

Id = Annotated[str, Field(pattern=job_id_pattern)]
Priority = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
Shape = Annotated[
    tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...], Field(min_length=1, max_length=1024)
]
Speed = Annotated[float, Field(gt=0, le=1)]


def _variable(name: str) -> str:
    if not is_name(name):
        raise ValueError(
            f"{name!r} is no name of an environment variable: expected letters, digits and _, the "
            "first of them no digit"
        )
    return name


def _few(environment: dict[str, str]) -> dict[str, str]:
    if len(environment) > VARIABLES_MOST:
        raise ValueError(
            f"expected {VARIABLES_MOST:,} variables at most, not {len(environment):,}: unset what "
            "the job does not need, or submit with --export none and name those it needs with --env"
        )
    return environment


Variable = Annotated[
    str,
    Field(max_length=256, json_schema_extra={"pattern": VARIABLE}),
    AfterValidator(_variable),
]


class DependencyBody(Model):
    """Another job that must have ended first."""

    job_id: Id
    when: Literal["ok", "any"] = Field(default="ok", description="well, or in whatever way")


class ArrayBody(Model):
    """Many jobs at once, one for each index; each is told SHUNTER_ARRAY_INDEX."""

    first: int = Field(ge=0, le=2**31 - 1)
    last: int = Field(ge=0, le=2**31 - 1)
    step: int = Field(default=1, ge=1)
    at_once: int | None = Field(
        default=None, ge=1, description="how many of them may run at once; None: all"
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.last < self.first:
            raise ValueError("expected last >= first")
        if len(self.indices) > TASKS_MOST:
            raise ValueError(f"expected {TASKS_MOST:,} tasks at most")
        return self

    @property
    def indices(self) -> range:
        """The index of each task."""
        return range(self.first, self.last + 1, self.step)


class SubmitBody(Model):
    """A job to run. Who submits it is known from the connection, never from here."""

    command: tuple[Text, ...] = Field(min_length=1, max_length=ARGUMENTS_MOST)
    name: Name = ""
    queue: Name = Field(default="default", min_length=1)
    group: Name = Field(default="", description="the multi-job it belongs to")
    gpus: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="of the whole job; left out: 1, and 0 in a cluster that has none, unless "
        "`gpu_types` names some",
    )
    gpus_min: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="it is elastic, and its gang may be made as small as this; at most `gpus`",
    )
    gpus_max: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="it is elastic, and its gang may be made as large as this; at least `gpus`",
    )
    cpus: float | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="of the whole job; left out: 1 without GPUs, else 0",
    )
    memory_mb: int = Field(default=0, ge=0, le=2**40, description="of the whole job")
    gpu_types: tuple[Name, ...] = Field(
        default=(),
        max_length=64,
        description="types of GPUs, or of units of CPU, that will do; left out: all GPUs, and the "
        "units for which the table of throughputs has a rate of its model",
    )
    max_level: Level | None = Field(
        default=None,
        description="the widest group its GPUs may be spread over; `server`: they are all in one",
    )
    shapes: tuple[Shape, ...] = Field(
        default=(),
        max_length=64,
        description="splits over servers that will do, the best first, as GPUs a server: "
        "[[4], [2, 2]]; each adds up to `gpus`",
    )
    tolerance: tuple[tuple[Level, Speed], ...] = Field(
        default=(),
        max_length=len(Level),
        description="its speed where its GPUs are so far apart, of that with all of them near: "
        '[["rack", 0.8]]; it falls with distance',
    )
    shape_tolerance: tuple[tuple[Shape, Speed], ...] = Field(
        default=(),
        max_length=64,
        description="its speed in splits over servers, of that in one server: [[[4], 1], "
        "[[2, 2], 0.72]]; the packed shape is among them",
    )
    min_speed: Speed | None = Field(
        default=None,
        description="the lowest speed of its curve that will do, its own or the one that is learnt "
        "of its model; it waits for such a place",
    )
    interference: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="the part of its speed that it loses beside a neighbour below the same switch",
    )
    migratable: bool = Field(
        default=True, description="it may be moved while it runs, to make room for others too"
    )
    split_may_change: bool = Field(
        default=False,
        description="its checkpoints can be loaded in another split over servers than they were "
        "saved in; else it keeps the split of its first start",
    )
    model: Name = ""
    batch_size: int | None = Field(default=None, ge=1)
    total_steps: int | None = Field(default=None, ge=1)
    priority: Priority = 0
    weight: float = Field(default=1.0, gt=0, le=1e6)
    time_limit_s: float | None = Field(
        default=None, gt=0, le=3.2e8, description="how long it may hold its GPUs in all attempts"
    )
    suspend_mode: SuspendMode = SuspendMode.cooperative
    checkpoint_interval_s: float | None = Field(default=None, gt=0, le=3.2e8)
    retries: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="how often it is started again after it failed by itself; what ended it for "
        "the scheduler's reasons, such as a lost server or a preemption, does not count",
    )
    depends_on: tuple[DependencyBody, ...] = Field(
        default=(),
        max_length=DEPENDENCIES_MOST,
        description="the id of the first task of an array means all its tasks",
    )
    array: ArrayBody | None = None
    directory: Text = Field(default="", description="where it starts; empty: the root folder")
    environment: Annotated[dict[Variable, Text], AfterValidator(_few)] = Field(
        default={},
        json_schema_extra={"maxProperties": VARIABLES_MOST},
        description="values by name, which the job gets and no log holds",
    )
    secrets: tuple[Variable, ...] = Field(
        default=(),
        max_length=VARIABLES_MOST,
        description="variables whose values are kept out of the recorded command too",
    )
    dry_run: bool = Field(default=False, description="check it, and say where it would stand")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.gpus == 0 and self.cpus == 0:
            raise ValueError("gpus = 0: expected cpus > 0, for a job needs something to run on")
        missing = [name for name in self.secrets if name not in self.environment]
        if missing:
            raise ValueError(f"secrets: no value for {', '.join(missing)} in environment")
        if self.directory and not self.directory.startswith("/"):
            raise ValueError(f"directory = {self.directory!r}: expected an absolute path")
        return self


class PriorityBody(Model):
    """Another priority for a job."""

    priority: Priority


class ResizeBody(Model):
    """Another size for the gang of an elastic job."""

    gpus: int = Field(ge=1, le=1_000_000, description="from its `gpus_min` to its `gpus_max`")


class JobsBody(Model):
    """Jobs that all get one order, in one step."""

    jobs: tuple[str, ...] = Field(min_length=1, description="their ids")


class GroupBody(Model):
    """A multi-job, by its name and whose it is."""

    group: Name
    user: Name | None = Field(default=None, description="whose; left out: the caller's")


class GroupPriorityBody(GroupBody):
    """Another priority for all of a multi-job."""

    priority: Priority


CANDIDATES_MOST = 64
SERVERS_MOST = 4096

Mask = Annotated[int, Field(ge=1, lt=2**63)]
Masks = Annotated[dict[Name, Mask], Field(min_length=1, max_length=SERVERS_MOST)]
"""By server, the mask of its GPUs: bit i is GPU i."""


class ProposalBody(Model):
    """A gang for a waiting job: places for all of its GPUs, the best first."""

    job_id: Id
    version: int = Field(ge=0, description="`version` of the view in which they were found")
    candidates: tuple[Masks, ...] = Field(
        min_length=1,
        max_length=CANDIDATES_MOST,
        description="each a mask of GPUs by server; CPUs and memory go with them as the job asks",
    )


# The parameters of routes that read.

Limit = Annotated[int, Field(ge=0, le=100_000)]
Seq = Annotated[int, Field(ge=0)]

POSITION = r"^(start|[0-9]{1,18}(\.[0-9]{1,18}){1,4})$"
"""Where to go on in an output: an attempt, and what its reader needs to go on there."""


class QueueQuery(Model):
    """Which jobs of the queue."""

    user: Name | None = Field(default=None, description="of this user; 'me' is the caller")
    queue: Name | None = None
    group: Name | None = Field(default=None, description="of this multi-job")
    state: Name | None = Field(default=None, description="in this state")
    limit: Limit | None = Field(default=None, description="rows at most; `total` counts all")


class GroupsQuery(Model):
    """Which multi-jobs."""

    group: Name | None = Field(
        default=None, description="this one; left out: all with jobs that have not ended"
    )
    user: Name | None = Field(default=None, description="whose; left out: the caller's")


class ForecastQuery(Model):
    """Whose jobs."""

    user: Name | None = Field(
        default=None,
        description="of this user; 'me' is the caller; left out: the caller's, for admins all",
    )


class HistoryQuery(Model):
    """Which of the jobs that have ended."""

    user: Name | None = Field(default=None, description="of this user; 'me' is the caller")
    limit: Annotated[int, Field(ge=1, le=1000)] = 50


class JobQuery(Model):
    """Whether to wait for the end of a job."""

    wait_s: Annotated[float, Field(ge=0, le=60)] = Field(
        default=0, description="answer when it has ended, or after so many seconds"
    )


class AtQuery(Model):
    """A point of the log."""

    at: At = None


class EventsQuery(Model):
    """Which events."""

    after: Seq = Field(default=0, description="those after this number")
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1000
    job: Name | None = None
    node: Name | None = None
    kind: Name | None = Field(default=None, description="such as JobSubmitted; several by commas")


class StreamQuery(Model):
    """Which events to follow; the header Last-Event-ID comes before `after`."""

    after: Seq | None = Field(default=None, description="None: only what is new")
    job: Name | None = None
    node: Name | None = None
    kind: Name | None = Field(default=None, description="such as JobSubmitted; several by commas")


class LogsQuery(Model):
    """Which output of a job."""

    rank: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=0, description="its process on the first, second, … server"
    )
    attempt: Annotated[int, Field(ge=1, le=2**31)] | None = Field(
        default=None, description="None: the last one, or with `since` all that printed after it"
    )
    stream: Literal["stdout", "stderr", "both"] = Field(
        default="stdout", description="both: line by line, in the order of time"
    )
    since: At = Field(default=None, description="only what was printed from then on, to the second")
    follow: bool = Field(default=False, description="go on, over attempts, until the job has ended")
    skip: Seq | None = Field(
        default=None,
        description="from the first attempt on, and without the first bytes: so many are known",
    )
    tail: Annotated[int, Field(ge=1, le=1 << 20)] | None = Field(
        default=None, description="only the last so many bytes of an attempt"
    )
    position: Annotated[str, Field(pattern=POSITION)] | None = Field(
        default=None,
        description="`start`, or where to go on: before each piece comes a line with the position "
        "after it and its length in bytes; the line `end 0` is the last",
    )
