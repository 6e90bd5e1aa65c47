"""What may be asked for of a job: each field once, for HTTP, the command line and scripts.

    JobRequest ─▶ the body of POST /api/v1/jobs      `shunter.api`: checks, defaults, descriptions
               ─▶ the options of `shunter submit`    `shunter.cli`: names, help, headings
               ─▶ the lines #SHUNTER of a script     the same options
               ─▶ docs/reference: http-api, cli      made from these two

`JobOptions` is the same for Python programs, with the types that a caller may pass. A trace holds
jobs as the log does (`JobSpec`), so its columns follow from that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypedDict

# Bounds of ours; a submission that needs more is a mistake.
ARGUMENTS_MOST: Final = 8192
VARIABLES_MOST: Final = 1024
DEPENDENCIES_MOST: Final = 64
CHOICES_MOST: Final = 64
GPUS_MOST: Final = 1_000_000
PRIORITY_MOST: Final = 1_000_000
SECONDS_MOST: Final = 3.2e8  # ten years

LEVELS: Final = ("nvlink", "switch", "socket", "server", "rack", "domain", "cluster")

HEADINGS: Final = {
    "Resources": "gpus gpus_min gpus_max cpus memory type",
    "Running": "name time retries chdir env export secret suspend_mode model steps",
    "Queue and order": "queue priority after array group",
    "Placement": "one_server max_level shape tolerance min_speed interference not_migratable "
    "split_may_change",
    "Submission and output": "dry_run",
}
"""The options by the headings of `shunter submit --help`; the last one has all others as well."""

# Names of checked types. `shunter.api.request_models` puts the types with their checks in their
# place: they need pydantic, without which the command line starts.
Name: TypeAlias = str
Text: TypeAlias = str
Variable: TypeAlias = str
NearLevel: TypeAlias = Any
Mode: TypeAlias = Any
Priority: TypeAlias = int
Shape: TypeAlias = tuple[int, ...]
Speed: TypeAlias = float
Dependency: TypeAlias = Any
Array: TypeAlias = Any
Environment: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True)
class Option:
    """How a field is said on the command line.

    `said` are the names, and what stands for the value in the help. `kind` is the type of the value
    there: `bool` is a flag, `list` may be repeated, and texts are read by the command. `least` is
    the smallest number that is taken.
    """

    said: str
    help: str
    kind: type = str
    least: int | None = None
    default: object = None

    @property
    def name(self) -> str:
        """The name under which its value comes: that of `--gpus-min` is `gpus_min`."""
        return self.names[-1].removeprefix("--").replace("-", "_")

    @property
    def names(self) -> list[str]:
        """Its names, the short one first."""
        return [word for word in self.said.split() if word.startswith("-")]

    @property
    def metavar(self) -> str | None:
        """What stands for its value; None: the type."""
        last = self.said.split()[-1]
        return None if last.startswith("-") else last


@dataclass(frozen=True, slots=True)
class RequestField:
    """A field: its default, its options, and what checks it.

    `checks` are its description and bounds as pydantic's `Field` takes them.
    """

    default: Any
    checks: Mapping[str, Any]
    options: tuple[Option, ...]


REQUIRED: Final = object()


_SIZE: Final = {"ge": 1, "le": GPUS_MOST}
_DURATION: Final = {"gt": 0, "le": SECONDS_MOST}


def _field(
    description: str = "", /, *options: Option, default: object = None, **bounds: object
) -> Any:
    checks = {"description": description, **bounds} if description else bounds
    return RequestField(default, checks, options)


class JobRequest:
    """A job to run. Who submits it is known from the connection, never from here."""

    command: "tuple[Text, ...]" = _field(default=REQUIRED, min_length=1, max_length=ARGUMENTS_MOST)
    name: "Name" = _field(
        "",
        Option("-J --name", "The job's name; left out: that of its script or program."),
        default="",
    )
    queue: "Name" = _field(
        *("", Option("-q --queue", "The queue.", default="default")),
        default="default",
        min_length=1,
    )
    group: "Name" = _field(
        "the multi-job it belongs to",
        Option("--group GROUP", "The multi-job it belongs to: its search."),
        default="",
    )
    gpus: int | None = _field(
        "of the whole job; left out: 1, and 0 in a cluster that has none, unless `gpu_types` names "
        "some",
        Option(
            "-g --gpus N",
            "GPUs of the whole job. Left out: 1, and 0 in a cluster that has none, unless a --type "
            "is named.",
            int,
            least=0,
        ),
        ge=0,
        le=GPUS_MOST,
    )
    gpus_min: int | None = _field(
        "it is elastic, and its gang may be made as small as this; at most `gpus`",
        Option("--gpus-min N", "Its gang may be made as small as this: elastic.", int, least=1),
        **_SIZE,
    )
    gpus_max: int | None = _field(
        "it is elastic, and its gang may be made as large as this; at least `gpus`",
        Option("--gpus-max N", "Its gang may be made as large as this: elastic.", int, least=1),
        **_SIZE,
    )
    cpus: float | None = _field(
        "of the whole job; left out: 1 without GPUs, else 0",
        Option("-c --cpus", "CPUs of the whole job; at least 1 without GPUs.", float, least=0),
        ge=0,
        le=1_000_000,
    )
    memory_mb: int = _field(
        "of the whole job",
        Option(
            "-m --memory SIZE",
            "Such as 16G; it is set aside for the job, which is held to it only where `shunter "
            "doctor` says so.",
        ),
        default=0,
        ge=0,
        le=2**40,
    )
    gpu_types: "tuple[Name, ...]" = _field(
        "types of GPUs, or of units of CPU, that will do; left out: all GPUs, and the units for "
        "which the table of throughputs has a rate of its model",
        Option("--type TYPE", "GPU type that will do; may be repeated.", list),
        default=(),
        max_length=CHOICES_MOST,
    )
    max_level: "NearLevel | None" = _field(
        "the widest group its GPUs may be spread over; `server`: they are all in one",
        Option("--one-server", "All its GPUs in one server: the same as --max-level server.", bool),
        Option(
            "--max-level LEVEL",
            f"The widest group for its GPUs: {', '.join(LEVELS[:-1])} or {LEVELS[-1]}.",
        ),
    )
    shapes: "tuple[Shape, ...]" = _field(
        "splits over servers that will do, the best first, as GPUs a server: [[4], [2, 2]]; each "
        "adds up to `gpus`",
        Option(
            "--shape N[+N…]",
            "A split over servers that will do, such as 4 or 2+2; may be repeated, the best first.",
            list,
        ),
        default=(),
        max_length=CHOICES_MOST,
    )
    tolerance: "tuple[tuple[NearLevel, Speed], ...]" = _field(
        "its speed where its GPUs are so far apart, of that with all of them near: "
        '[["rack", 0.8]]; it falls with distance',
        Option(
            "--tolerance LEVEL|SHAPE:SPEED",
            "Its speed where its GPUs are so far apart or split so, of that with all near, such as "
            "rack:0.8 or 2+2:0.72; may be repeated. Beside splits the packed one is named, with "
            "speed 1: 4:1.",
            list,
        ),
        default=(),
        max_length=len(LEVELS),
    )
    shape_tolerance: "tuple[tuple[Shape, Speed], ...]" = _field(
        "its speed in splits over servers, of that in one server: [[[4], 1], [[2, 2], 0.72]]; the "
        "packed shape is among them",
        default=(),
        max_length=CHOICES_MOST,
    )
    min_speed: "Speed | None" = _field(
        "the lowest speed of its curve that will do, its own or the one that is learnt of its "
        "model; it waits for such a place",
        Option(
            "--min-speed PART",
            "It starts only where its speed, by --tolerance or as measured of its model, is at "
            "least this part of that with all its GPUs near.",
            float,
        ),
    )
    interference: float | None = _field(
        "the part of its speed that it loses beside a neighbour below the same switch",
        Option(
            "--interference PART",
            "The part of its speed, from 0 to below 1, that it loses beside a neighbour on a "
            "switch.",
            float,
        ),
        ge=0,
        lt=1,
    )
    migratable: bool = _field(
        "it may be moved while it runs, to make room for others too",
        Option("--not-migratable", "It is not moved while it runs.", bool),
        default=True,
    )
    split_may_change: bool = _field(
        "its checkpoints can be loaded in another split over servers than they were saved in; else "
        "it keeps the split of its first start",
        Option(
            "--split-may-change",
            "Its checkpoints can be loaded by another number of processes: it need not keep the "
            "split of its first start.",
            bool,
        ),
        default=False,
    )
    model: "Name" = _field("", Option("--model", "What it trains, as tables name it."), default="")
    batch_size: int | None = _field(ge=1)
    total_steps: int | None = _field(
        "", Option("--steps", "Mini-batches in all, if known.", int, least=1), ge=1
    )
    priority: "Priority" = _field(
        "", Option("--priority", "The higher goes first.", int, default=0), default=0
    )
    weight: float = _field(default=1.0, gt=0, le=1e6)
    time_limit_s: float | None = _field(
        "how long it may hold its GPUs in all attempts",
        Option("-t --time DURATION", "It is ended once it has run for so long."),
        **_DURATION,
    )
    suspend_mode: "Mode" = _field(
        "",
        Option(
            "--suspend-mode MODE",
            "How it is suspended: cooperative, signal, restart, stop or never.",
            default="cooperative",
        ),
        default="cooperative",
    )
    checkpoint_interval_s: float | None = _field(**_DURATION)
    retries: int = _field(
        "how often it is started again after it failed by itself; what ended it for the "
        "scheduler's reasons, such as a lost server or a preemption, does not count",
        Option(
            "--retries N",
            "Start it again up to N times after it failed by itself, from its checkpoint.",
            int,
            least=0,
            default=0,
        ),
        default=0,
        ge=0,
        le=1000,
    )
    depends_on: "tuple[Dependency, ...]" = _field(
        "the id of the first task of an array means all its tasks",
        Option(
            "--after JOB[:ok|any]",
            "Starts when that has ended; the first job of an array means all its tasks; may be "
            "repeated.",
            list,
        ),
        default=(),
        max_length=DEPENDENCIES_MOST,
    )
    array: "Array | None" = _field(
        "", Option("--array 0-99[:STEP][%N]", "A job for each index, N at once.")
    )
    directory: "Text" = _field(
        "where it starts; empty: the root folder",
        Option("-D --chdir DIR", "Where it starts; left out: the folder that you are in."),
        default="",
    )
    environment: "Environment" = _field(
        "values by name, which the job gets and no log holds",
        Option("-e --env K[=V]", "A variable; without =V your own; may be repeated.", list),
        Option(
            "--export all|none|NAME[,NAME…]",
            "Which of your variables it gets; all: but for those that tell another job its ranks "
            "or devices (SLURM_*, PMI_*, …), which all,NAME adds.",
            default="all",
        ),
        default={},
        json_schema_extra={"maxProperties": VARIABLES_MOST},
    )
    secrets: "tuple[Variable, ...]" = _field(
        "variables whose values are kept out of the recorded command too",
        Option(
            "--secret K[=V]",
            "As --env, and its value is kept out of the recorded command too.",
            list,
        ),
        default=(),
        max_length=VARIABLES_MOST,
    )
    dry_run: bool = _field(
        "check it, and say where it would stand",
        Option("--dry-run", "Submit nothing: would it start now, if not why, and when.", bool),
        default=False,
    )


def fields_of_request() -> dict[str, RequestField]:
    """Return the fields by name, in their order."""
    declared = vars(JobRequest).items()
    return {name: field for name, field in declared if isinstance(field, RequestField)}


class JobOptions(TypedDict, total=False):
    """The fields of `JobRequest` beside the command, as a Python program says them.

    `after` stands for `depends_on`: ids of jobs that must have ended well, or pairs (id, "ok" or
    "any"). `array` is (first, last, step, how many at once or None). `directory` is the current one
    if left out. `key` makes a submission happen once, however often it is sent.
    """

    name: str
    queue: str
    group: str
    gpus: int
    gpus_min: int
    gpus_max: int
    cpus: float
    memory_mb: int
    gpu_types: Sequence[str]
    max_level: str
    shapes: Sequence[Sequence[int]]
    tolerance: Sequence[tuple[str, float]]
    shape_tolerance: Sequence[tuple[Sequence[int], float]]
    min_speed: float
    interference: float
    migratable: bool
    split_may_change: bool
    model: str
    batch_size: int
    total_steps: int
    priority: int
    weight: float
    time_limit_s: float
    suspend_mode: str
    checkpoint_interval_s: float
    retries: int
    after: Sequence[str | tuple[str, str]]
    array: tuple[int, int, int, int | None]
    directory: str
    environment: Mapping[str, str]
    secrets: Sequence[str]
    dry_run: bool
    key: str


class CallOptions(JobOptions, total=False):
    """What may be said of a function's job.

    `folder` is one that the servers see under the same path, in which calls and results lie;
    ~/.shunter/calls if left out. `python` runs it there; it needs cloudpickle; this Python if left
    out.
    """

    folder: str
    python: str
