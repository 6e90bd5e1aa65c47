"""The parameters of routes that read: strict, so that a misspelt filter is an error."""

from typing import Annotated, Literal

from pydantic import Field

from shunter.api.models.model import At, Model, Name

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
