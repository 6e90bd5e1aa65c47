"""The messages between a scheduler and the agent of a node, as the scheduler has them.

A question is a line of JSON {"id", "do", ...}; its answer has the same id and two clocks; news are
lines without an id. The agent's end is `shunter.backends.node.session`. Questions are ours;
answers are somebody else's data, and what is not as declared here raises WrongMessageError. A field
that is not declared is ignored. In this order: records of attempts and GPUs, answers, orders,
questions, and wiring.

`PROTOCOL` (`shunter.backends.node.messages`) is the version of all this, which the greeting of an
agent ("protocol"; 1 where it is missing) and our claim name. A field that old peers may ignore
leaves it; all else raises it by one. A scheduler installs its own agent, and refuses an agent of
any other version (OtherProtocolError).
"""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import force_setattr

from shunter.backends.node import (
    BATCH_S_MOST,
    CLOCK_MOST,
    COUNT_MOST,
    KINDS_NOTED,
    LINE_BYTES_MAX,
    OTHER,
    PIDS_MOST,
    PROTOCOL,
    READ_BYTES_MAX,
    READ_MOST,
    SIGNAL_MOST,
    WrongMessageError,
    cleaned,
    parsed,
)

# Records of attempts and GPUs. The bounds are those of `shunter.backends.node.messages`. Instants
# `*_ns` are nanoseconds of the host's monotonic clock.

ITEMS_MOST = 4096
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
        Meta(max_length=ITEMS_MOST),
    ]
    ranks: Annotated[tuple[RankStarted, ...], Meta(max_length=ITEMS_MOST)]
    port: PortNumber | None
    gpus: Annotated[tuple[GpuName, ...], Meta(max_length=ITEMS_MOST)]
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
    codes: Annotated[tuple[Code | None, ...], Meta(max_length=ITEMS_MOST)] | None = None
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


# The answers of agents.

ERROR_CHARACTERS = 1000
ATTEMPTS_MOST = 100_000
ManyKnown = Annotated[tuple[Known, ...], Meta(max_length=ATTEMPTS_MOST)]
Refusal = Literal["replaced", "taken", "shared"]


class Answer(Struct, frozen=True, kw_only=True):
    """What every answer has: the clocks of the host when it was given."""

    now_ns: Clock
    up_ns: Clock


class Failed(Answer, frozen=True, kw_only=True):
    """It could not be done; this is why, in words that can be kept."""

    error: str


class Greeting(Answer, frozen=True, kw_only=True):
    """The first line of a session: where the agent works, and on what."""

    base: Path
    boot: BootId
    wall_s: Annotated[float, Meta(ge=0, le=1e12)]
    python: Annotated[tuple[Whole, ...], Meta(max_length=3)]
    uid: UserNumber
    protocol: int = 1


class Claimed(Answer, frozen=True, kw_only=True):
    """The node is ours: where attempts lie on it, and the term in force.

    `shares` says by what attempts are held to their CPUs and memory, if they are.
    """

    root: Path
    term: Whole
    shares: Cause = ""


class ClaimRefused(Answer, frozen=True, kw_only=True):
    """The node is another scheduler's, or another host's too."""

    refused: Refusal
    cause: str


class Beaten(Answer, frozen=True, kw_only=True):
    """The sign of life was noted."""


class Looked(Answer, frozen=True, kw_only=True):
    """What has changed of attempts, their new samples, and new readings of GPUs."""

    changed: ManyKnown
    samples: Annotated[tuple[Sample, ...], Meta(max_length=ATTEMPTS_MOST)]
    gpus: Annotated[tuple[GpuReading, ...], Meta(max_length=4096)] | None


class StartAnswer(Answer, frozen=True, kw_only=True):
    """What came of an order to start, why, and what is known of the attempt now."""

    answer: Literal["started", "known", "refused", "failed", "late", "unknown"]
    cause: str = ""
    known: Known | None = None

    def __post_init__(self) -> None:
        """Keep the cause to what can be told."""
        force_setattr(self, "cause", cleaned(self.cause, ERROR_CHARACTERS))


class Fenced(Answer, frozen=True, kw_only=True):
    """What is known of the attempt that was fenced last, if there is a trace of it."""

    fenced: ManyKnown


class SetAsideAnswer(Answer, frozen=True, kw_only=True):
    """Whether the attempt is over."""

    is_over: bool


class SendAnswer(Answer, frozen=True, kw_only=True):
    """Whether a supervisor has taken the command."""

    taken: bool


class ReshapeAnswer(Answer, frozen=True, kw_only=True):
    """What an attempt is held to now, and why not to what it was to be.

    0: to as much as there is. `cpus` are those it is bound to, where it is to whole ones.
    """

    cpus_milli: Whole
    memory_mb: Whole
    cpus: Cpus = ()
    cause: str = ""

    def __post_init__(self) -> None:
        """Keep the cause to what can be told."""
        force_setattr(self, "cause", cleaned(self.cause, ERROR_CHARACTERS))


Stance = Literal["stopped", "running", "starting", "absent", "ended", "lost"]
"""Whether an attempt stands still, or its state if its processes do not run."""


class Stand(Struct, frozen=True):
    """How an attempt stands after a switch."""

    job: JobName
    attempt: AttemptNumber
    stance: Stance


class SwitchAnswer(Answer, frozen=True, kw_only=True):
    """How all attempts of a switch stand: those that were to stop first."""

    stands: Annotated[tuple[Stand, ...], Meta(max_length=ATTEMPTS_MOST)]


class InventoryAnswer(Answer, frozen=True, kw_only=True):
    """The attempts that were asked for; their notes are not among it."""

    attempts: ManyKnown


class ReadAnswer(Answer, frozen=True, kw_only=True):
    """A piece of an output, a character a byte, and its size; None: it is not there."""

    data: Annotated[str, Meta(max_length=READ_BYTES_MAX)]
    size: Whole | None

    def __post_init__(self) -> None:
        """Refuse characters that are no bytes."""
        if not self.data.isascii() and max(self.data) > "\xff":
            raise ValueError("data is no text of bytes")


class PortAnswer(Answer, frozen=True, kw_only=True):
    """The first port of some that is free; None if none is."""

    port: PortNumber | None


# The order of an attempt. It is ours, so nothing bounds it here.

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


class AttemptTurns(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    slicing: AttemptTurns | None = None
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


# Questions, the types of their answers, and the lines of both.

T = TypeVar("T")


class OtherProtocolError(WrongMessageError):
    """An agent speaks another version than this scheduler."""


A_co = TypeVar("A_co", bound=Answer, covariant=True)


class Question(Struct, Generic[A_co], frozen=True, kw_only=True, tag_field="do"):
    """A question, which gets an answer `A_co`, or `Failed`."""


class Claim(Question[Claimed | ClaimRefused], frozen=True, kw_only=True, tag="claim"):
    """Take the node for one term of a scheduler.

    `asked_ns` is the uptime of the host when it is asked: it counts as a sign of life of then. If
    it `is_sized`, attempts are held to the shares in their orders.
    """

    asked_ns: int
    cluster: str
    term: int
    holder: str
    node: str
    cgroup: str | None
    is_sized: bool = False
    protocol: int = PROTOCOL


class Beat(Question[Beaten], frozen=True, kw_only=True, tag="beat"):
    """Note a sign of life of the scheduler at an uptime of the host."""

    asked_ns: int


class Look(Question[Looked], frozen=True, kw_only=True, tag="look"):
    """Beat, and tell what has changed; all that is known of the attempts `anew`.

    `watched` are attempts with the numbers of the last note that was read and that is durable;
    with `is_all` no others are watched any more.
    """

    asked_ns: int
    watched: tuple[tuple[str, int, int, int], ...]
    anew: tuple[tuple[str, int], ...]
    is_all: bool


class Start(Question[StartAnswer], frozen=True, kw_only=True, tag="start"):
    """Start an attempt, unless the host's uptime is beyond `before_ns`."""

    order: Order
    before_ns: int


class Fence(Question[Fenced], frozen=True, kw_only=True, tag="fence"):
    """Let no attempt of a job up to this one start any more, and end those that have."""

    job: str
    attempt: int


class SetAside(
    Question[SetAsideAnswer], frozen=True, kw_only=True, omit_defaults=True, tag="set_aside"
):
    """End an attempt of which nothing is to be told; that of a stray raises no fence."""

    job: str
    attempt: int
    is_stray: bool = False


class Send(Question[SendAnswer], frozen=True, kw_only=True, tag="send"):
    """Hand a command to the supervisor of an attempt."""

    job: str
    attempt: int
    order: Command


class Reshape(Question[ReshapeAnswer], frozen=True, kw_only=True, tag="reshape"):
    """Hold an attempt that runs to other shares, which may be those it has."""

    job: str
    attempt: int
    shares: Shares


class Switch(Question[SwitchAnswer], frozen=True, kw_only=True, tag="switch"):
    """Have some attempts stand still, and once they do others go on.

    Where one that is to stand still does not in time, none goes on. One that is gone counts as
    standing still. Asked again, it changes nothing.
    """

    stops: tuple[tuple[str, int], ...]
    continues: tuple[tuple[str, int], ...]


class Inventory(
    Question[InventoryAnswer], frozen=True, kw_only=True, omit_defaults=True, tag="inventory"
):
    """Tell the newest attempts of a job; or some, and all that run; or all there are."""

    job: str | None = None
    wanted: tuple[tuple[str, int], ...] | None = None


class Read(Question[ReadAnswer], frozen=True, kw_only=True, tag="read"):
    """Return a piece of the output `name` of an attempt."""

    job: str
    attempt: int
    name: str
    offset: int
    bytes: int


class Port(Question[PortAnswer], frozen=True, kw_only=True, tag="port"):
    """Return the first of some ports that is free there."""

    ports: tuple[int, ...]


class _Version(Struct):
    protocol: Annotated[int, Meta(ge=1, le=COUNT_MOST)] = 1


class _Numbered(Struct):
    id: Annotated[int, Meta(ge=0, le=COUNT_MOST)] | None = None


class _Envelope(Answer, frozen=True, kw_only=True):
    error: object | UnsetType = UNSET


class _ClaimAnswer(Answer, frozen=True, kw_only=True):
    root: Path | None = None
    term: Whole | None = None
    refused: Refusal | None = None
    cause: str = ""
    shares: Cause = ""


class _News(Struct):
    changed: ManyKnown


def encode_question(number: int, question: Question[Answer]) -> bytes:
    """Return the line that asks a question under a number; it ends with a newline."""
    try:
        told = msgspec.json.encode(question)
    except UnicodeEncodeError:  # a variable that is no UTF-8, as Python reads it from os.environ
        told = json.dumps(msgspec.to_builtins(question)).encode()
    return b'{"id":%d,%b\n' % (number, told[1:])


def decode_greeting(line: bytes) -> Greeting:
    """Return the greeting of an agent of our version.

    Raises:
        OtherProtocolError: the agent is of another one.
        WrongMessageError: it is no greeting.
    """
    found = _decoded(_VERSION, line).protocol
    if found != PROTOCOL:
        older = "the agent" if found < PROTOCOL else "this scheduler"
        raise OtherProtocolError(
            f"is of an agent that speaks version {found} of the protocol, expected {PROTOCOL}: "
            f"{older} is the older one, so install the other's version of Shunter in its place"
        )
    return _decoded(_GREETING, line)


def decode_number(line: bytes) -> int | None:
    """Return the number of the question that a line answers; None: it tells news.

    Raises:
        WrongMessageError: it is neither.
    """
    return _decoded(_NUMBERED, _with_whole_words(line)).id


def decode_answer(question: type[Question[A_co]], line: bytes) -> A_co | Failed:
    """Return the answer to a question of a type.

    Raises:
        WrongMessageError: it is none.
    """
    line = _with_whole_words(line)
    told = _decoded(_ENVELOPE, line)
    if told.error is not UNSET:
        error = cleaned(told.error, ERROR_CHARACTERS)
        return Failed(now_ns=told.now_ns, up_ns=told.up_ns, error=error)
    return cast(A_co, _decoded(_ANSWERS[question], line))


def decode_news(line: bytes) -> tuple[Known, ...]:
    """Return the attempts of which a line without a number tells.

    Raises:
        WrongMessageError: it tells of none.
    """
    return _decoded(_NEWS, line).changed


def _with_whole_words(line: bytes) -> bytes:
    """Return an answer with half characters in its words told by their numbers.

    Names of files that are no UTF-8 come so in the words of an error, and msgspec refuses them.
    """
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    said = parsed(line)
    if not isinstance(said, dict):
        return line
    for name in ("error", "cause"):
        if isinstance(said.get(name), str):
            said[name] = cleaned(said[name], ERROR_CHARACTERS)
    try:
        return json.dumps(said).encode()
    except RecursionError:
        raise WrongMessageError("is nested beyond all measure") from None


def _decoded(decode: Callable[[bytes], T], line: bytes) -> T:
    try:
        return decode(line)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `$")
        told = ascii(words)[1:-1][:SHOWN_CHARACTERS]
        raise WrongMessageError(f"is wrong: {told}", path.strip("`.")[:SHOWN_CHARACTERS]) from None
    except (ValueError, RecursionError):
        raise WrongMessageError("is no JSON, or nested beyond all measure") from None


def _claim_answer(line: bytes) -> Claimed | ClaimRefused:
    told = _CLAIM.decode(line)
    now_ns, up_ns = told.now_ns, told.up_ns
    if told.refused is not None:
        cause = cleaned(told.cause, ERROR_CHARACTERS)
        return ClaimRefused(now_ns=now_ns, up_ns=up_ns, refused=told.refused, cause=cause)
    if told.root is None or told.term is None:
        raise msgspec.ValidationError("it names neither root and term nor a refusal")
    root, term, shares = told.root, told.term, told.shares
    return Claimed(now_ns=now_ns, up_ns=up_ns, root=root, term=term, shares=shares)


SHOWN_CHARACTERS = 120
_VERSION = msgspec.json.Decoder(_Version).decode
_NUMBERED = msgspec.json.Decoder(_Numbered).decode
_ENVELOPE = msgspec.json.Decoder(_Envelope).decode
_GREETING = msgspec.json.Decoder(Greeting).decode
_NEWS = msgspec.json.Decoder(_News).decode
_CLAIM = msgspec.json.Decoder(_ClaimAnswer)
_ANSWERS: Mapping[type[Question[Answer]], Callable[[bytes], Answer]] = {
    Claim: _claim_answer,
    Beat: msgspec.json.Decoder(Beaten).decode,
    Look: msgspec.json.Decoder(Looked).decode,
    Start: msgspec.json.Decoder(StartAnswer).decode,
    Fence: msgspec.json.Decoder(Fenced).decode,
    SetAside: msgspec.json.Decoder(SetAsideAnswer).decode,
    Send: msgspec.json.Decoder(SendAnswer).decode,
    Inventory: msgspec.json.Decoder(InventoryAnswer).decode,
    Reshape: msgspec.json.Decoder(ReshapeAnswer).decode,
    Switch: msgspec.json.Decoder(SwitchAnswer).decode,
    Read: msgspec.json.Decoder(ReadAnswer).decode,
    Port: msgspec.json.Decoder(PortAnswer).decode,
}


# How the GPUs of a host are wired.

GPUS_MOST = 1024
Word = Annotated[str, Meta(pattern=r"\A[A-Z0-9]{0,8}\Z")]
Row = Annotated[tuple[Word, ...], Meta(max_length=GPUS_MOST)]
Rows = Annotated[tuple[Row, ...], Meta(max_length=GPUS_MOST)]


class GpuWiring(Struct, frozen=True, kw_only=True):
    """A GPU, its socket (None if nobody knows), and the CPUs near to it."""

    index: Whole
    uuid: Annotated[str, Meta(max_length=128)]
    socket: Whole | None = None
    cpus: Cpus = ()


class Wiring(Struct, frozen=True, kw_only=True):
    """The wiring of a host: see `shunter.backends.node.host.wiring.Wiring`."""

    gpus: Annotated[tuple[GpuWiring, ...], Meta(max_length=GPUS_MOST)] = ()
    pci: Rows = ()
    links: Rows = ()
    by: Annotated[str, Meta(max_length=32)] = ""
    cause: str = ""
    cpus: Cpus = ()

    def __post_init__(self) -> None:
        """Refuse tables of another size; keep the cause to what can be told."""
        size = len(self.gpus)
        for rows in (self.pci, self.links):
            if rows and (len(rows) != size or any(len(row) != size for row in rows)):
                raise ValueError(f"a table is not of {size} GPUs")
        force_setattr(self, "cause", cleaned(self.cause, ERROR_CHARACTERS))


def wiring_in(value: object) -> Wiring:
    """Return the wiring that an agent told.

    Raises:
        WrongMessageError: it is none.
    """
    try:
        return msgspec.convert(value, Wiring)
    except msgspec.ValidationError as error:
        raise WrongMessageError(str(error)) from error
