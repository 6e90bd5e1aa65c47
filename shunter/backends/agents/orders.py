"""What a scheduler has an agent start: the order of an attempt, as its supervisor is given it.

It is ours, so nothing bounds it here; `shunter.backends.node.supervision` says what comes of it.
"""

from typing import Literal

from msgspec import Struct

Do = Literal["go", "suspend", "terminate", "fence", "stop", "continue", "slice"]


class Rank(Struct, frozen=True, kw_only=True):
    """How one rank is run; `pinned` says whether it asked for its CPUs."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cpus: tuple[int, ...]
    pinned: bool
    directory: str
    gpus: tuple[str, ...]


class Suspend(Struct, frozen=True, kw_only=True):
    """How a job is asked to leave, and for how many seconds each stage may take."""

    mode: str
    signal: int
    cooperative_s: float
    signal_s: float
    restart_s: float


class HeartbeatLimits(Struct, frozen=True, kw_only=True):
    """Where a scheduler shows that it is alive, and after how many seconds it is not."""

    path: str
    deadline_s: float
    is_remote: bool


class Shares(Struct, frozen=True, kw_only=True):
    """What an attempt is held to under one agent: thousandths of CPUs, and MB.

    0 is as much as there is. `cpus` are those to choose from, where only whole ones can be given.
    """

    cpus_milli: int
    memory_mb: int
    cpus: tuple[int, ...]


class Slicing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an attempt takes turns on the GPUs of its server.

    One that `is_fixed` works on its own GPUs only, until its program says that it takes its GPU
    anew with each turn. Its supervisor and those of the others do it by themselves:
    `shunter.backends.node.turns`. `homes` are its own GPUs by server, of those of the node. A
    gang over several servers has its turns by a `timetable`: period, first instant and length, in
    microseconds since the epoch.
    """

    weight: float
    is_fixed: bool
    quantum_us: int
    wait_most_us: int | None
    boundary_most_us: int
    homes: tuple[tuple[str, int], ...] = ()
    timetable: tuple[int, int, int] | None = None


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the supervisor of an attempt is started with.

    `time_limit_s` is for who hands it to a batch system: supervisors keep no time limits.
    An agent finds out itself who `user_name` is, and which control group is to hold the attempt.
    Without `shares` it is held to `memory_mb` at most, and to the CPUs of its ranks. If it
    `is_bound`, it ends with whoever starts its supervisor. If it `awaits_others`, its ranks run
    their program only once it is told to `go`.
    """

    job: str
    attempt: int
    term: int
    placement: tuple[tuple[str, int], ...]
    ranks: tuple[Rank, ...]
    suspend: Suspend
    grace_s: float
    port: int
    sample_s: float
    output_bytes_max: int
    heartbeat: HeartbeatLimits
    gpus: tuple[str, ...]
    memory_mb: int
    user_name: str
    checkpoints: str
    time_limit_s: float | None = None
    shares: Shares | None = None
    is_bound: bool = False
    slicing: Slicing | None = None
    awaits_others: bool = False


class Command(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a supervisor that runs is told to do.

    To `slice` is to take turns of a `weight`, and on the GPUs of a `mask` as its own; with those of
    a `pack` at once, or by a `timetable`.
    """

    do: Do
    weight: float | None = None
    mask: int | None = None
    pack: str | None = None
    timetable: tuple[int, int, int] | None = None
