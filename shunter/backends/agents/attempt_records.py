"""What agents tell of attempts and GPUs: typed, and held to the bounds of what can be true.

A host may be anybody's by now, or run an agent that was tampered with. Decoding these structs from
its lines refuses whatever is of another type or beyond a bound, and leaves out fields that they do
not have. The bounds are those that agents hold records to themselves: see
`shunter.backends.node.messages`. Instants `*_ns` are nanoseconds of the host's monotonic clock.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from shunter.backends.node.messages import (
    BATCH_S_MOST,
    CLOCK_MOST,
    COUNT_MOST,
    KINDS_NOTED,
    OTHER,
    PIDS_MOST,
    READ_MOST,
    SIGNAL_MOST,
)
from shunter.backends.node.records import LINE_BYTES_MAX

MANY = 4096
MASK_BITS = 1024

Whole = Annotated[int, Meta(ge=0, le=COUNT_MOST)]
Clock = Annotated[int, Meta(ge=0, le=CLOCK_MOST)]
AttemptNumber = Annotated[int, Meta(ge=1, le=10**9)]
UserNumber = Annotated[int, Meta(ge=0, le=2**32 - 1)]
PortNumber = Annotated[int, Meta(ge=0, le=65535)]
Code = Annotated[int, Meta(ge=0, le=255)]
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Path = Annotated[str, Meta(max_length=4096)]
BootId = Annotated[str, Meta(max_length=64)]
Cause = Annotated[str, Meta(max_length=1000)]
Text = Annotated[str, Meta(max_length=LINE_BYTES_MAX)]
GpuName = Annotated[str, Meta(max_length=128)]
JobName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\Z")]
"""The name of a job, which names a folder too."""
Cpus = Annotated[tuple[Annotated[int, Meta(ge=0, le=1 << 16)], ...], Meta(max_length=1 << 13)]
State = Literal["absent", "starting", "running", "ended", "lost"]


class RankStarted(Struct, frozen=True, kw_only=True):
    """What a rank was given: its CPUs, and whether it asked for them."""

    cpus: Cpus
    pinned: bool | None = None


class Started(Struct, frozen=True, kw_only=True):
    """The record that an attempt started, with what its ranks were given."""

    boot: BootId
    started_ns: Clock
    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    placement: Annotated[
        tuple[tuple[Annotated[str, Meta(max_length=256)], Annotated[int, Meta(ge=0)]], ...],
        Meta(max_length=MANY),
    ]
    ranks: Annotated[tuple[RankStarted, ...], Meta(max_length=MANY)]
    port: PortNumber | None
    gpus: Annotated[tuple[GpuName, ...], Meta(max_length=MANY)]
    cgroup: Path | None = None
    job: JobName | None = None
    attempt: AttemptNumber | None = None
    term: Whole | None = None
    uid: UserNumber | None = None
    since: Whole | None = None

    def __post_init__(self) -> None:
        """Refuse masks of more GPUs than any node has; msgspec bounds no such number."""
        if any(mask >> MASK_BITS for _, mask in self.placement):
            raise ValueError(f"placement has a mask of more than {MASK_BITS} GPUs")


class Status(Struct, frozen=True, kw_only=True):
    """The record of how an attempt ended."""

    code: Code
    suspended: bool
    why: Literal["", "suspend", "terminate", "fence", "heartbeat", "rank"]
    saved: bool
    ended_ns: Clock
    codes: Annotated[tuple[Code | None, ...], Meta(max_length=MANY)] | None = None
    stragglers: Whole | None = None
    memory_kills: Whole | None = None
    output_dropped_bytes: Whole | None = None
    saved_ns: Clock | None = None
    signal: Annotated[int, Meta(ge=1, le=SIGNAL_MOST)] | None = None


class Note(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The note `n` of a journal; which of it is there depends on `what`.

    A kind that we do not know is "other", and has what all of them have.
    """

    n: Annotated[int, Meta(ge=1, le=COUNT_MOST)]
    what: Annotated[str, Meta(max_length=40)]
    at_ns: Clock
    mode: Annotated[str, Meta(max_length=16)] | None = None
    checkpoint: Text | None = None
    step: Whole | None = None
    bytes: Whole | None = None
    error: Cause | None = None
    count: Annotated[int, Meta(ge=1, le=COUNT_MOST)] | None = None
    cause: Cause | None = None
    mask: Annotated[int, Meta(ge=1)] | None = None
    can_move: bool | None = None

    def __post_init__(self) -> None:
        """Hold it to what its kind has: nothing missing, and nothing of another kind."""
        if self.what not in KINDS_NOTED:
            force_setattr(self, "what", OTHER)
        needed, others = _NOTED.get(self.what, ((), ()))
        for name in _BY_KIND:
            if name in needed:
                if getattr(self, name) is None:
                    raise ValueError(f"a note {self.what!r} lacks its {name}")
            elif name not in others:
                force_setattr(self, name, None)
        if self.what == "escalated" and self.mode not in ("signal", "restart"):
            raise ValueError("a note 'escalated' has a mode that is not signal or restart")
        if self.mask is not None and self.mask >> MASK_BITS:
            raise ValueError(f"mask has more than {MASK_BITS} GPUs")


_BY_KIND = ("mode", "checkpoint", "step", "bytes", "error", "count", "cause", "mask", "can_move")
_NOTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "requested": (("mode",), ()),
    "escalated": (("mode",), ()),
    "saved": ((), ("checkpoint", "step", "bytes")),
    "failed": ((), ("error", "step")),
    "refused": (("count", "cause"), ()),
    "turn_started": (("mask",), ("can_move",)),
}
"""Of a kind of note the fields that it needs, and those that it may have, beside all others'."""


class Known(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a host tells of an attempt.

    `notes` are those of its journal behind the number `after`, before which were `facts`, and
    `is_all` says whether they are all. `cause` is why it is over without a status, if it is known.
    """

    job: JobName
    attempt: AttemptNumber
    folder: Path
    state: State
    started: Started | None
    status: Status | None
    after: Whole
    facts: Whole | None
    notes: Annotated[tuple[Note, ...], Meta(max_length=READ_MOST)]
    is_all: bool
    cause: Cause = ""


class Sample(Struct, frozen=True, kw_only=True):
    """The newest sample of an attempt: how far it is, and what its processes use."""

    job: JobName
    attempt: AttemptNumber
    at_ns: Clock
    pids: Annotated[tuple[Pid, ...], Meta(max_length=PIDS_MOST)]
    step: Whole | None = None
    batch_s: Annotated[float, Meta(ge=0, le=BATCH_S_MOST)] | None = None
    printed: bool | None = None
    cpus: Annotated[float, Meta(ge=0, le=1 << 16)] | None = None
    memory_mb: Whole | None = None


class GpuReading(Struct, frozen=True, kw_only=True):
    """What could be read of a GPU, and the codes of NVML for what could not."""

    index: Annotated[int, Meta(ge=0, le=1 << 16)]
    faults: Annotated[
        dict[Annotated[str, Meta(max_length=256)], Annotated[int, Meta(ge=0, le=10**6)]],
        Meta(max_length=64),
    ]
    uuid: GpuName | None = None
    utilisation: Annotated[float, Meta(ge=0, le=100)] | None = None
    memory_mb: Whole | None = None
    memory_total_mb: Whole | None = None
    memory_by_pid: Annotated[dict[Pid, Whole], Meta(max_length=100_000)] | None = None
