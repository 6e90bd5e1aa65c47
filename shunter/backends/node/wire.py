"""The types of what is written to files, FIFOs and connections between scheduler and agent.

They are for the type checker alone: what the agent runs imports them only while it is checked, and
its zip application lacks them. What comes from outside is held to a shape (messages.py) before it
has a type. Instants `*_ns` are nanoseconds of the host's monotonic clock, `cpus` in ranks are CPU
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NotRequired, TypedDict, TypeVar

T = TypeVar("T")
Shape = Callable[[object], T]
"""What a value is held to: it returns it as it should be, or raises WrongMessageError."""
State = Literal["absent", "starting", "running", "ended", "lost"]
Kind = Literal["file", "link", "folder"]
Key = tuple[str, int]
"""A job, and the number of one of its attempts."""
Answer = Mapping[str, object]
"""An answer that is written as JSON, and that nobody in this process takes apart."""


class User(TypedDict):
    """Whom the ranks of a job run as."""

    uid: int
    gid: int
    groups: list[int]
    home: NotRequired[str]


class Rank(TypedDict):
    """How one rank is run; `pinned` says whether it asked for its CPUs."""

    argv: list[str]
    env: dict[str, str]
    cpus: list[int]
    pinned: bool
    directory: str
    gpus: NotRequired[list[str]]


class Suspend(TypedDict):
    """How a job is asked to leave, and for how many seconds each stage may take."""

    mode: str
    signal: int
    cooperative_s: float
    signal_s: float
    restart_s: float


class HeartbeatLimits(TypedDict):
    """Where a scheduler shows that it is alive, and after how many seconds it is not."""

    path: str
    deadline_s: float
    is_remote: NotRequired[bool]


class Shares(TypedDict):
    """Thousandths of CPUs and MB of an attempt, and the CPUs to choose from."""

    cpus_milli: int
    memory_mb: int
    cpus: list[int]


class Slicing(TypedDict):
    """How an attempt takes turns on the GPUs of its server; see `slicing`.

    One that `is_fixed` can work on its own GPUs only. At the end of a turn its next mini-batch
    boundary is waited for up to `boundary_most_us`. `homes` are its own GPUs by server, of those of
    the node. A gang over several servers has its turns by a `timetable`: period, first instant and
    length, in microseconds since the epoch.
    """

    weight: float
    is_fixed: bool
    quantum_us: int
    wait_most_us: int | None
    boundary_most_us: int
    homes: NotRequired[list[tuple[str, int]]]
    timetable: NotRequired[list[int] | None]


class Slice(Slicing):
    """An attempt that takes turns: its own GPUs, and if it is next.

    Those of one `pack` have turns at once, on the same GPUs. `joined_us` tells that it was away.
    """

    home: int
    is_urgent: bool
    pack: str | None
    joined_us: int | None


class Turn(TypedDict):
    """The last order about turns that was carried out: its number, and the GPUs.

    `ends` is the number of the order that ends the turn at the next boundary; 0: it goes on. Of a
    gang over several servers it is when the turn was to end, which is the same on all of them.
    """

    number: int
    mask: int
    ends: int | None


class Order(TypedDict):
    """What a supervisor is started with; see `backends/live/orders.py`."""

    job: str
    attempt: int
    term: int
    placement: list[tuple[str, int]]
    ranks: list[Rank]
    suspend: Suspend
    grace_s: float
    port: NotRequired[int | None]
    gpus: NotRequired[list[str]]
    memory_mb: NotRequired[int]
    shares: NotRequired[Shares | None]
    slicing: NotRequired[Slicing | None]
    cgroup: NotRequired[str | None]
    sample_s: NotRequired[float]
    output_bytes_max: NotRequired[int]
    user: NotRequired[User | None]
    user_name: NotRequired[str]
    checkpoints: NotRequired[str]
    heartbeat: NotRequired[HeartbeatLimits | None]
    seal: NotRequired[str]
    is_bound: NotRequired[bool]
    awaits_others: NotRequired[bool]


class Command(TypedDict):
    """A line to a supervisor that runs, held to its shape."""

    do: str
    term: int | None
    mode: str | None
    upto: int | None
    mask: int | None
    number: int | None
    weight: float | None
    pack: str | None
    timetable: list[int] | None
    server: str | None
    until: int | None


class Message(TypedDict, total=False):
    """What a job says of itself; which of it depends on `what`."""

    what: str
    rank: int
    step: int | None
    batch_s: float | None
    batches: int | None
    state: str | None
    checkpoint: str | None
    bytes: int | None
    error: str | None
    ranks: int | None
    moves: bool | None
    turn: int | None


class Note(TypedDict, total=False):
    """The note `n` of a journal; which of it is there depends on `what`."""

    n: int
    what: str
    at_ns: int
    mode: str
    checkpoint: str | None
    step: int | None
    bytes: int | None
    error: str | None
    count: int
    cause: str
    mask: int
    can_move: bool


class Started(TypedDict):
    """The record that an attempt started, with what its ranks were given."""

    boot: str
    started_ns: int
    pid: int
    placement: list[tuple[str, int]]
    ranks: list[Rank]
    port: int | None
    gpus: list[str]
    cgroup: str | None
    job: str | None
    attempt: int | None
    term: int | None
    uid: int | None
    since: int | None


class Status(TypedDict):
    """The record of how an attempt ended."""

    code: int
    suspended: bool
    why: str
    saved: bool
    ended_ns: int
    codes: list[int | None] | None
    stragglers: int | None
    memory_kills: int | None
    output_dropped_bytes: int | None
    saved_ns: int | None
    signal: int | None


class Use(TypedDict):
    """What the processes of an attempt use: `cpus` of them busy, and MB of memory."""

    pids: list[int]
    cpus: float | None
    memory_mb: int | None


class Sample(Use):
    """The newest sample of an attempt."""

    at_ns: int
    step: int | None
    batch_s: float | None
    printed: bool | None


class SampleOf(Sample):
    """A sample as a host sends it, with the attempt it is of."""

    job: str
    attempt: int


class Records(TypedDict):
    """The state of an attempt, and the records that say it."""

    state: State
    started: Started | None
    status: Status | None


class Probe(Records):
    """The state of an attempt, the folder of its records, and perhaps why it is over."""

    folder: str
    cause: NotRequired[str]


class Found(Probe):
    """A probe with the attempt it is of."""

    job: str
    attempt: int


class Notes(TypedDict):
    """Notes of a journal behind the number `after`; before them were `facts`."""

    after: int
    facts: int | None
    notes: list[Note]
    is_all: bool


class Known(Found, Notes):
    """All that a host tells of an attempt."""


class GpuReading(TypedDict):
    """What could be read of a GPU, and the codes of NVML for what could not."""

    index: int
    faults: dict[str, int]
    uuid: NotRequired[str | None]
    name: NotRequired[str | None]
    bus: NotRequired[str | None]
    utilisation: NotRequired[float | None]
    memory_mb: NotRequired[int | None]
    memory_total_mb: NotRequired[int | None]
    memory_by_pid: NotRequired[dict[str, int] | dict[int, int] | None]


class GpuReadings(TypedDict):
    """All GPUs of a host, who read them, and why others could not."""

    gpus: list[GpuReading]
    by: str
    code: int
    said: NotRequired[str]


class Question(TypedDict, total=False):
    """A question of a session; which of it is there depends on `do`."""

    id: int | None
    do: str
    asked_ns: int
    before_ns: int
    cluster: str
    term: int
    holder: str
    node: str
    cgroup: str | None
    is_sized: bool
    shares: Shares
    anew: list[tuple[str, int]]
    watched: list[tuple[str, int, int, int]]
    is_all: bool
    order: Order
    job: str
    attempt: int
    stops: list[tuple[str, int]]
    continues: list[tuple[str, int]]
    is_stray: bool
    wanted: list[tuple[str, int]] | None
    name: str
    offset: int
    bytes: int
    ports: list[int]


Entry = TypedDict(
    "Entry",
    {
        "path": str,
        "kind": Kind,
        "mode": int,
        "mtime_ns": int,
        "size": int,
        "inode": str,
        "to": str,
        "changed": NotRequired[bool],
        "from": NotRequired[str],
        "same": NotRequired["int | None"],
    },
)
"""A file, link or folder of a checkpoint: see `remote.file_trees` and `checkpoint_transfer`."""


class Transferred(TypedDict):
    """The record of a transfer: how each entry was then, by its path."""

    generation: int
    entries: dict[str, list[object]]


class ManifestEnd(TypedDict):
    """The end of a manifest: since which transfer it tells changes."""

    generation: int
    is_whole: bool


class Removed(TypedDict):
    """How many attempts were removed, and what could not be ("" if all were)."""

    removed: int
    error: str


class Ages(TypedDict):
    """The jobs that have not changed for some time, and those that have."""

    old: list[str]
    young: list[str]


class PilotFile(TypedDict):
    """What a pilot is told of its daemon: see `pilots.pilot_connection`."""

    version: int
    name: str
    addresses: list[str]
    port: int
    cluster: str
    silent_s: float
    patience_s: float
    drain_s: float
    notice_s: float
    trust: str


class PilotAnswer(TypedDict):
    """What the daemon answers a pilot that has dialled: a nonce, or why not."""

    nonce: str | None
    refused: str | None
    is_over: bool | None
