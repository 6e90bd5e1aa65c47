"""What every document over HTTP is, and what comes in: bodies, and parameters of what reads.

All are strict, so that a misspelt field or filter is an error. OpenAPI is made from them.
"""

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator

from shunter.client import (
    PRIORITY_MOST,
    REQUIRED,
    VARIABLE,
    VARIABLES_MOST,
    JobRequest,
    fields_of_request,
    is_name,
)
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

TASKS_MOST = 10_000

job_id_pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$"

Id = Annotated[str, Field(pattern=job_id_pattern)]
Priority = Annotated[int, Field(ge=-PRIORITY_MOST, le=PRIORITY_MOST)]
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


class _WholeRequest(Model):
    """What holds of a submission as a whole."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        assert isinstance(self, SubmitBody), "no other model is made of this"
        if self.gpus == 0 and self.cpus == 0:
            raise ValueError("gpus = 0: expected cpus > 0, for a job needs something to run on")
        missing = [name for name in self.secrets if name not in self.environment]
        if missing:
            raise ValueError(f"secrets: no value for {', '.join(missing)} in environment")
        if self.directory and not self.directory.startswith("/"):
            raise ValueError(f"directory = {self.directory!r}: expected an absolute path")
        return self


_CHECKED_TYPES = {
    "Name": Name,
    "Text": Text,
    "Variable": Variable,
    "NearLevel": Level,
    "Mode": SuspendMode,
    "Priority": Priority,
    "Shape": Shape,
    "Speed": Speed,
    "Dependency": DependencyBody,
    "Array": ArrayBody,
    "Environment": Annotated[dict[Variable, Text], AfterValidator(_few)],
}
"""What the names of types in the declaration of a request stand for here."""


def _body_of_request() -> Any:
    """Return the model of a submission, as `JobRequest` declares it."""
    hints = get_type_hints(JobRequest, localns=_CHECKED_TYPES, include_extras=True)
    declared: dict[str, Any] = {}
    for name, one in fields_of_request().items():
        default: Any = ... if one.default is REQUIRED else one.default
        if hints[name] is SuspendMode:
            default = SuspendMode(default)
        declared[name] = (hints[name], Field(default, **one.checks))
    return create_model(
        "SubmitBody",
        __base__=_WholeRequest,
        __module__=__name__,
        __doc__=JobRequest.__doc__,
        **declared,
    )


if TYPE_CHECKING:

    class SubmitBody(JobRequest, _WholeRequest):
        """A checked request."""

        depends_on: tuple[DependencyBody, ...]
        array: ArrayBody | None
else:
    SubmitBody = _body_of_request()


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
