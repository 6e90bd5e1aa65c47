"""What a submission says: the body of POST /api/v1/jobs."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from shunter.api.models.model import Model, Name, Text
from shunter.client.variables import VARIABLE, is_name
from shunter.events.values import Level, SuspendMode

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
