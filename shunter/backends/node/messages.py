"""What scheduler and agent say to each other, and what supervisors write down: each declared once.

The scheduler's end of a session is `shunter.backends.live.node_agent`, the agent's is
`shunter.backends.node.session`. A question is a line of JSON {"id", "do", ...}; its answer has the
same id and two clocks; news are lines without an id. What comes from another process is decoded by
these declarations (shapes.py), and what is not as declared raises WrongMessageError. Instants
`*_ns` are nanoseconds of the host's monotonic clock. In this order: records of attempts and GPUs,
orders, what jobs say, questions with their answers, and the wiring of a host.

`PROTOCOL` is the version of all this, which the greeting of an agent ("protocol"; 1 where it is
missing) and our claim name. A field that old peers may ignore leaves it; all else raises it by one.
A scheduler installs its own agent, and refuses an agent of any other version. Records and orders of
an earlier release are read all the same, since supervisors outlive it: a new field has a default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from shunter.backends.node.records import LINE_BYTES_MAX, get
from shunter.backends.node.shapes import (
    CLOCK_MOST,
    COUNT_MOST,
    Message,
    WrongMessageError,
    a_cause,
    a_choice,
    a_flag,
    a_list,
    a_number,
    a_row,
    a_table,
    a_text,
    a_whole,
    an_object,
    as_it_is,
    checked,
    cleaned,
    field,
    or_none,
    shown,
    within,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar, Self

    from shunter.backends.node.shapes import Shape

    Key = tuple[str, int]
    """A job, and the number of one of its attempts."""

State = Literal["absent", "starting", "running", "ended", "lost"]
Refusal = Literal["replaced", "taken", "shared"]
Stance = Literal["stopped", "running", "starting", "absent", "ended", "lost"]
PROTOCOL = 2
READ_BYTES_MAX = 1 << 18  # of an output, in one answer
READ_MOST = 100  # notes of a journal, in one answer
ITEMS_MOST = 4096
ATTEMPTS_MOST = 100_000
PIDS_MOST = 4096
BATCH_S_MOST = 1e6
RANK_MOST = 10**6
SIGNAL_MOST = 127
ERROR_CHARACTERS = 1000
ATTEMPT_DIGITS_MOST = 9
JOB_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def a_job(value: object) -> str:
    """Hold a value to be the name of a job, which names a folder too."""
    name = a_text(128)(value)
    if not name or name.startswith(".") or not JOB_CHARACTERS.issuperset(name):
        raise WrongMessageError(f"is {shown(name)}, expected letters, digits, . _ -")
    return name


COUNT = a_whole()
CLOCK = a_whole(0, CLOCK_MOST)
NUMBER = a_whole(1, 10**9)
CODE = a_whole(0, 255)
PORT = a_whole(0, 65535)
USER = a_whole(0, 2**32 - 1)
GPU_MASK = a_whole(0, 2**1024 - 1)
CPUS = a_list(a_whole(0, 1 << 16), 1 << 13)
PID = a_whole(0, 2**31 - 1)
PIDS = a_list(PID, PIDS_MOST)
PATH = a_text(4096)
LONG_TEXT = a_text(LINE_BYTES_MAX)
CAUSE = a_text(1000)
GPU_NAME = a_text(128)
SHARE_OF_GPU = a_number(0, 100)
STATE = a_choice("absent", "starting", "running", "ended", "lost")
KEYS = a_list(a_row(a_job, NUMBER), ATTEMPTS_MOST)


def number_of(name: str) -> int | None:
    """Return the number of the attempt that a folder is named by, if it is."""
    is_number = name.isascii() and name.isdigit() and len(name) <= ATTEMPT_DIGITS_MOST
    return int(name) if is_number and name != "0" else None


# Records of attempts and GPUs. A job can write to the folder of its attempt; a wrong record there
# counts as absent.


class RankStarted(Message):
    """What a rank was given: its CPUs, and whether it asked for them."""

    cpus: tuple[int, ...] = field(CPUS)
    pinned: bool | None = field(a_flag, default=None)


class Started(Message):
    """The record that an attempt started, with what its ranks were given."""

    boot: str = field(a_text(64))
    started_ns: int = field(CLOCK)
    pid: int = field(a_whole(1, 2**31 - 1))
    placement: tuple[tuple[str, int], ...] = field(a_list(a_row(a_text(256), GPU_MASK), ITEMS_MOST))
    ranks: tuple[RankStarted, ...] = field(a_list(RankStarted.decoded, ITEMS_MOST))
    port: int | None = field(or_none(PORT))
    gpus: tuple[str, ...] = field(a_list(GPU_NAME, ITEMS_MOST))
    cgroup: str | None = field(PATH, default=None)
    job: str | None = field(a_job, default=None)
    attempt: int | None = field(NUMBER, default=None)
    term: int | None = field(COUNT, default=None)
    uid: int | None = field(USER, default=None)
    since: int | None = field(COUNT, default=None)


class Status(Message):
    """The record of how an attempt ended."""

    code: int = field(CODE)
    suspended: bool = field(a_flag)
    why: str = field(a_choice("", "suspend", "terminate", "fence", "heartbeat", "rank"))
    saved: bool = field(a_flag)
    ended_ns: int = field(CLOCK)
    codes: tuple[int | None, ...] | None = field(a_list(or_none(CODE), ITEMS_MOST), default=None)
    stragglers: int | None = field(COUNT, default=None)
    memory_kills: int | None = field(COUNT, default=None)
    output_dropped_bytes: int | None = field(COUNT, default=None)
    saved_ns: int | None = field(CLOCK, default=None)
    signal: int | None = field(a_whole(1, SIGNAL_MOST), default=None)
    is_unfinished: bool = field(a_flag, default=False, is_sparse=True)


class Sample(Message):
    """The newest sample of an attempt: how far it is, and what its processes use.

    `cpus` are the busy ones. The file of a supervisor names no attempt: its folder does.
    """

    job: str = field(a_job)
    attempt: int = field(NUMBER)
    at_ns: int = field(CLOCK)
    pids: tuple[int, ...] = field(PIDS)
    step: int | None = field(COUNT, default=None)
    batch_s: float | None = field(a_number(0, BATCH_S_MOST), default=None)
    printed: bool | None = field(a_flag, default=None)
    cpus: float | None = field(a_number(0, 1 << 16), default=None)
    memory_mb: int | None = field(COUNT, default=None)


OTHER = "other"
"""A kind of note of another version."""
FACTS = (
    "acknowledged",
    "escalated",
    "saved",
    "stopped",
    "training",
    "continued",
    "refused",
    "turn_started",
    "turn_ended",
    "warned",
)
KINDS_NOTED: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "requested": (("mode",), ()),
    "escalated": (("mode",), ()),
    "acknowledged": ((), ()),
    "saved": ((), ("checkpoint", "step", "bytes")),
    "failed": ((), ("error", "step")),
    "stopped": ((), ()),
    "training": ((), ()),
    "continued": ((), ()),
    "refused": (("count", "cause"), ()),
    "turn_started": (("mask",), ("can_move",)),
    "turn_ended": ((), ()),
    "warned": (("text",), ("step",)),
    OTHER: ((), ()),
}
"""Of a kind of note the fields that it needs, and those that it may have, beside all others'."""


class Note(Message):
    """The note `n` of a journal; which of it is there depends on its kind."""

    n: int = field(a_whole(1))
    what: str = field(a_text(40))
    at_ns: int = field(CLOCK)
    mode: str | None = field(a_text(16), default=None, is_sparse=True)
    checkpoint: str | None = field(LONG_TEXT, default=None, is_sparse=True)
    step: int | None = field(COUNT, default=None, is_sparse=True)
    bytes: int | None = field(COUNT, default=None, is_sparse=True)
    error: str | None = field(CAUSE, default=None, is_sparse=True)
    count: int | None = field(a_whole(1), default=None, is_sparse=True)
    cause: str | None = field(CAUSE, default=None, is_sparse=True)
    mask: int | None = field(a_whole(1, 2**1024 - 1), default=None, is_sparse=True)
    can_move: bool | None = field(a_flag, default=None, is_sparse=True)
    text: str | None = field(CAUSE, default=None, is_sparse=True)

    @classmethod
    def decoded(cls, value: object) -> Self:
        """Return a note with what its kind has, and nothing of another kind."""
        what = kind_in(value, a_text(40))
        what = what if what in KINDS_NOTED else OTHER
        note = super().decoded({"what": what, **_of_kind(value, KINDS_NOTED[what], "n", "at_ns")})
        if what == "escalated" and note.mode not in ("signal", "restart"):
            raise WrongMessageError("is no signal or restart", "mode")
        return note


def kind_in(value: object, shape: Shape[str]) -> str:
    """Return the kind that a note or a message of a job names."""
    given = an_object(value)
    if "what" not in given:
        raise WrongMessageError("is missing", "what")
    return within("what", shape, given["what"])


def _of_kind(
    value: object, kind: tuple[tuple[str, ...], tuple[str, ...]], *always: str
) -> dict[str, object]:
    """Return of a message what one of its kind needs and may have; a null is nothing."""
    given, (needed, others) = an_object(value), kind
    for name in (*always, *needed):
        if given.get(name) is None:
            raise WrongMessageError("is missing", name)
    return {name: given[name] for name in (*always, *needed, *others) if name in given}


class Notes(Message):
    """Notes of a journal behind the number `after`; before them were `facts`."""

    after: int = field(COUNT, default=0)
    facts: int | None = field(COUNT, default=None)
    notes: tuple[Note, ...] = field(a_list(Note.decoded, READ_MOST), default=())
    is_all: bool = field(a_flag, default=False)


class Known(Message):
    """All that a host tells of an attempt, whose records lie in a folder.

    `notes` are those of its journal behind the number `after`, before which were `facts`, and
    `is_all` says whether they are all. `cause` is why it is over without a status, if it is known.
    """

    job: str = field(a_job)
    attempt: int = field(NUMBER)
    folder: str = field(PATH)
    state: State = field(STATE)
    started: Started | None = field(or_none(Started.decoded))
    status: Status | None = field(or_none(Status.decoded))
    after: int = field(COUNT, default=0, is_needed=True)
    facts: int | None = field(or_none(COUNT), default=None, is_needed=True)
    notes: tuple[Note, ...] = field(a_list(Note.decoded, READ_MOST), default=(), is_needed=True)
    is_all: bool = field(a_flag, default=False, is_needed=True)
    cause: str = field(CAUSE, default="", is_sparse=True)


MANY_KNOWN = a_list(Known.decoded, ATTEMPTS_MOST)


def a_pid(name: object) -> int:
    """Hold the name in an object, or a number, to be the id of a process."""
    if isinstance(name, str) and name.isascii() and name.isdigit() and len(name) <= 10:
        return PID(int(name))
    return PID(name)


class GpuReading(Message):
    """What could be read of a GPU, and the codes of NVML for what could not."""

    index: int = field(a_whole(0, 1 << 16))
    faults: dict[str, int] = field(a_table(a_text(256), a_whole(0, 10**6), 64))
    uuid: str | None = field(GPU_NAME, default=None)
    utilisation: float | None = field(SHARE_OF_GPU, default=None)
    memory_mb: int | None = field(COUNT, default=None)
    memory_total_mb: int | None = field(COUNT, default=None)
    memory_by_pid: dict[int, int] | None = field(a_table(a_pid, COUNT, 100_000), default=None)
    name: str | None = field(a_text(256), default=None, is_sparse=True)
    bus: str | None = field(a_text(256), default=None, is_sparse=True)


def started_in(folder: str) -> Started | None:
    """Return the record that says that an attempt started; None if there is none."""
    return checked(get(f"{folder}/started"), Started.decoded)


def status_in(folder: str) -> Status | None:
    """Return the record that says how an attempt ended; None if there is none."""
    return checked(get(f"{folder}/status"), Status.decoded)


# Orders. They are ours, so nothing bounds them here but what is needed to read them.


class User(Message):
    """Whom the ranks of a job run as."""

    uid: int = field(COUNT)
    gid: int = field(COUNT)
    groups: tuple[int, ...] = field(a_list(COUNT, COUNT_MOST))
    home: str = field(as_it_is, default="")


class Rank(Message):
    """How one rank is run; `pinned` says whether it asked for its CPUs."""

    argv: tuple[str, ...] = field(a_list(as_it_is, COUNT_MOST))
    env: dict[str, str] = field(as_it_is)
    cpus: tuple[int, ...] = field(a_list(COUNT, COUNT_MOST), default=())
    pinned: bool = field(a_flag, default=False)
    directory: str = field(as_it_is)
    gpus: tuple[str, ...] = field(a_list(as_it_is, COUNT_MOST), default=())


class Suspend(Message):
    """How a job is asked to leave, and for how many seconds each stage may take."""

    mode: str = field(as_it_is)
    signal: int = field(COUNT)
    cooperative_s: float = field(as_it_is)
    signal_s: float = field(as_it_is)
    restart_s: float = field(as_it_is)


class HeartbeatLimits(Message):
    """Where a scheduler shows that it is alive, and after how many seconds it is not."""

    path: str = field(as_it_is)
    deadline_s: float = field(as_it_is)
    is_remote: bool = field(a_flag, default=False)


class Shares(Message):
    """What an attempt is held to under one agent: thousandths of CPUs, and MB.

    0 is as much as there is. `cpus` are those to choose from, where only whole ones can be given.
    """

    cpus_milli: int = field(COUNT)
    memory_mb: int = field(COUNT)
    cpus: tuple[int, ...] = field(a_list(COUNT, COUNT_MOST))


WEIGHT = a_number(1e-6, 1e6)
PACK = a_text(256)
TIMETABLE = a_list(COUNT, 3)
HOMES = a_list(a_row(as_it_is, GPU_MASK), COUNT_MOST)


class AttemptTurns(Message):
    """How an attempt takes turns on the GPUs of its server.

    One that `is_fixed` works on its own GPUs only, until its program says that it takes its GPU
    anew with each turn. At the end of a turn its next mini-batch boundary is waited for up to
    `boundary_most_us`. Its supervisor and those of the others do it by themselves: turns.py.
    `homes` are its own GPUs by server, of those of the node. A gang over several servers has its
    turns by a `timetable`: period, first instant and length, in microseconds since the epoch.
    """

    weight: float = field(WEIGHT)
    is_fixed: bool = field(a_flag)
    quantum_us: int = field(a_whole(1))
    wait_most_us: int | None = field(or_none(COUNT))
    boundary_most_us: int = field(COUNT)
    homes: tuple[tuple[str, int], ...] = field(HOMES, default=(), is_sparse=True)
    timetable: tuple[int, ...] | None = field(TIMETABLE, default=None, is_sparse=True)


class Order(Message):
    """What the supervisor of an attempt is started with.

    `time_limit_s` is for who hands it to a batch system: supervisors keep no time limits.
    An agent finds out itself who `user_name` is, and which control group is to hold the attempt:
    what follows `awaits_others` is filled in there. Without `shares` it is held to `memory_mb` at
    most, and to the CPUs of its ranks. If it `is_bound`, it ends with whoever starts its
    supervisor. If it `awaits_others`, its ranks run their program only once it is told to `go`.
    """

    job: str = field(a_job)
    attempt: int = field(NUMBER)
    term: int = field(COUNT)
    placement: tuple[tuple[str, int], ...] = field(HOMES)
    ranks: tuple[Rank, ...] = field(a_list(Rank.decoded, COUNT_MOST))
    suspend: Suspend = field(Suspend.decoded)
    grace_s: float = field(as_it_is)
    port: int | None = field(PORT, default=None)
    sample_s: float = field(as_it_is, default=0)
    output_bytes_max: int = field(COUNT, default=0)
    heartbeat: HeartbeatLimits | None = field(HeartbeatLimits.decoded, default=None)
    gpus: tuple[str, ...] = field(a_list(as_it_is, COUNT_MOST), default=())
    memory_mb: int = field(COUNT, default=0)
    user_name: str = field(as_it_is, default="")
    checkpoints: str = field(as_it_is, default="")
    time_limit_s: float | None = field(as_it_is, default=None, is_sparse=True)
    shares: Shares | None = field(Shares.decoded, default=None, is_sparse=True)
    is_bound: bool = field(a_flag, default=False, is_sparse=True)
    slicing: AttemptTurns | None = field(AttemptTurns.decoded, default=None, is_sparse=True)
    awaits_others: bool = field(a_flag, default=False, is_sparse=True)
    cgroup: str | None = field(as_it_is, default=None, is_sparse=True)
    user: User | None = field(User.decoded, default=None, is_sparse=True)
    seal: str = field(as_it_is, default="", is_sparse=True)


class Command(Message):
    """A line to a supervisor that runs: what it is told `do`.

    To `slice` is to take turns of a `weight`, and on the GPUs of a `mask` as its own; with those of
    a `pack` at once, or by a `timetable`. An agent adds the `term` of its scheduler. A supervisor
    that rotates orders a `turn`: on the GPUs of a `mask`, with a `number`, on a `server`, and
    `until` an instant by the timetable. To `acknowledge` is to drop the notes `upto` a number.
    """

    do: str = field(a_text(16))
    weight: float | None = field(WEIGHT, default=None, is_sparse=True)
    mask: int | None = field(GPU_MASK, default=None, is_sparse=True)
    pack: str | None = field(PACK, default=None, is_sparse=True)
    timetable: tuple[int, ...] | None = field(TIMETABLE, default=None, is_sparse=True)
    term: int | None = field(COUNT, default=None, is_sparse=True)
    mode: str | None = field(a_text(16), default=None, is_sparse=True)
    upto: int | None = field(COUNT, default=None, is_sparse=True)
    number: int | None = field(COUNT, default=None, is_sparse=True)
    server: str | None = field(a_text(1024), default=None, is_sparse=True)
    until: int | None = field(COUNT, default=None, is_sparse=True)


# What a job says of itself: lines of JSON of at most 4096 bytes (shunter/train/channel.py).

RANK = a_whole(0, RANK_MOST)


KINDS_SAID: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "progress": (("rank", "step"), ("batch_s", "batches", "state")),
    "acknowledged": ((), ("step",)),
    "saved": ((), ("checkpoint", "step", "bytes")),
    "failed": ((), ("error", "step")),
    "warned": (("text",), ("step",)),
    "turns": (("rank", "ranks"), ("moves",)),
    "standing": (("rank", "turn"), ()),
}
"""Of a kind of message the fields that it needs, and those that it may have."""
KIND_SAID = a_choice(*KINDS_SAID)


class JobMessage(Message):
    """What a job says of itself; which of it is there depends on its kind."""

    what: str = field(KIND_SAID)
    rank: int | None = field(RANK, default=None, is_sparse=True)
    step: int | None = field(COUNT, default=None, is_sparse=True)
    batch_s: float | None = field(a_number(0, BATCH_S_MOST), default=None, is_sparse=True)
    batches: int | None = field(COUNT, default=None, is_sparse=True)
    state: str | None = field(a_text(40), default=None, is_sparse=True)
    checkpoint: str | None = field(LONG_TEXT, default=None, is_sparse=True)
    bytes: int | None = field(COUNT, default=None, is_sparse=True)
    error: str | None = field(LONG_TEXT, default=None, is_sparse=True)
    ranks: int | None = field(a_whole(1, RANK_MOST), default=None, is_sparse=True)
    moves: bool | None = field(a_flag, default=None, is_sparse=True)
    turn: int | None = field(a_whole(1), default=None, is_sparse=True)
    text: str | None = field(LONG_TEXT, default=None, is_sparse=True)

    @classmethod
    def decoded(cls, value: object) -> Self:
        """Return a message with what its kind has, and nothing of another kind."""
        what = kind_in(value, KIND_SAID)
        return super().decoded({"what": what, **_of_kind(value, KINDS_SAID[what])})


# Questions and their answers.

REFUSAL = a_choice("replaced", "taken", "shared")
STANCE = a_choice("stopped", "running", "starting", "absent", "ended", "lost")


class Answer(Message):
    """What every answer has: the clocks of the host when it was given."""

    now_ns: int = field(CLOCK, default=0, is_needed=True)
    up_ns: int = field(CLOCK, default=0, is_needed=True)


class Failed(Answer):
    """It could not be done; this is why, in words that can be kept."""

    error: str = field(lambda value: cleaned(value, ERROR_CHARACTERS))


class Greeting(Answer):
    """The first line of a session: where the agent works, and on what."""

    base: str = field(PATH)
    boot: str = field(a_text(64))
    wall_s: float = field(a_number(0, 1e12))
    python: tuple[int, ...] = field(a_list(COUNT, 3))
    uid: int = field(USER)
    protocol: int = field(a_whole(1), default=1)


class Claimed(Answer):
    """The node is ours: where attempts lie on it, and the term in force.

    `shares` says by what attempts are held to their CPUs and memory, if they are.
    """

    root: str = field(PATH)
    term: int = field(COUNT)
    shares: str = field(CAUSE, default="")


class ClaimRefused(Answer):
    """The node is another scheduler's, or another host's too."""

    refused: Refusal = field(REFUSAL)
    cause: str = field(a_cause(ERROR_CHARACTERS))


class Beaten(Answer):
    """The sign of life was noted."""


class Looked(Answer):
    """What has changed of attempts, their new samples, and new readings of GPUs."""

    changed: tuple[Known, ...] = field(MANY_KNOWN)
    samples: tuple[Sample, ...] = field(a_list(Sample.decoded, ATTEMPTS_MOST))
    gpus: tuple[GpuReading, ...] | None = field(or_none(a_list(GpuReading.decoded, ITEMS_MOST)))


class StartAnswer(Answer):
    """What came of an order to start, why, and what is known of the attempt now."""

    answer: Literal["started", "known", "refused", "failed", "late", "unknown"] = field(
        a_choice("started", "known", "refused", "failed", "late", "unknown")
    )
    cause: str = field(a_cause(ERROR_CHARACTERS), default="")
    known: Known | None = field(Known.decoded, default=None)


class Fenced(Answer):
    """What is known of the attempt that was fenced last, if there is a trace of it."""

    fenced: tuple[Known, ...] = field(MANY_KNOWN)


class SetAsideAnswer(Answer):
    """Whether the attempt is over."""

    is_over: bool = field(a_flag)


class SendAnswer(Answer):
    """Whether a supervisor has taken the command."""

    taken: bool = field(a_flag)


class ReshapeAnswer(Answer):
    """What an attempt is held to now, and why not to what it was to be.

    0: to as much as there is. `cpus` are those it is bound to, where it is to whole ones.
    """

    cpus_milli: int = field(COUNT)
    memory_mb: int = field(COUNT)
    cpus: tuple[int, ...] = field(CPUS, default=())
    cause: str = field(a_cause(ERROR_CHARACTERS), default="")


class Stand(Message):
    """How an attempt stands after a switch: still, or its state if it does not run."""

    job: str = field(a_job)
    attempt: int = field(NUMBER)
    stance: Stance = field(STANCE)


class SwitchAnswer(Answer):
    """How all attempts of a switch stand: those that were to stop first."""

    stands: tuple[Stand, ...] = field(a_list(Stand.decoded, ATTEMPTS_MOST))


class InventoryAnswer(Answer):
    """The attempts that were asked for; their notes are not among it."""

    attempts: tuple[Known, ...] = field(MANY_KNOWN)


def _bytes_as_text(value: object) -> str:
    data = a_text(READ_BYTES_MAX)(value)
    if not data.isascii() and max(data) > "\xff":
        raise WrongMessageError("is no text of bytes")
    return data


class ReadAnswer(Answer):
    """A piece of an output, a character a byte, and its size; None: it is not there."""

    data: str = field(_bytes_as_text)
    size: int | None = field(or_none(COUNT))


class PortAnswer(Answer):
    """The first port of some that is free; None if none is."""

    port: int | None = field(or_none(PORT))


A_co = TypeVar("A_co", bound=Answer, covariant=True)


class Question(Message, Generic[A_co]):
    """A question, which gets an answer `A_co`, or `Failed`.

    Its class names what it is on the line (`DO`), and the shape of its answer.
    """

    DO: ClassVar[str] = ""
    ANSWER: ClassVar[Any]


def _claim_answer(value: object) -> Claimed | ClaimRefused:
    kind = ClaimRefused if an_object(value).get("refused") is not None else Claimed
    return kind.decoded(value)


class Claim(Question["Claimed | ClaimRefused"]):
    """Take the node for one term of a scheduler.

    `asked_ns` is the uptime of the host when it is asked: it counts as a sign of life of then. If
    it `is_limited`, attempts are held to the shares in their orders.
    """

    DO, ANSWER = "claim", _claim_answer
    asked_ns: int = field(CLOCK)
    cluster: str = field(as_it_is)
    term: int = field(COUNT)
    holder: str = field(as_it_is)
    node: str = field(as_it_is)
    cgroup: str | None = field(or_none(as_it_is))
    is_limited: bool = field(a_flag, default=False, wire="is_sized")
    protocol: int = field(COUNT, default=PROTOCOL)


class Beat(Question[Beaten]):
    """Note a sign of life of the scheduler at an uptime of the host."""

    DO, ANSWER = "beat", Beaten.decoded
    asked_ns: int = field(CLOCK)


class Look(Question[Looked]):
    """Beat, and tell what has changed; all that is known of the attempts `anew`.

    `watched` are attempts with the numbers of the last note that was read and that is durable;
    with `is_all` no others are watched any more.
    """

    DO, ANSWER = "look", Looked.decoded
    asked_ns: int = field(CLOCK)
    watched: tuple[tuple[str, int, int, int], ...] = field(
        a_list(a_row(a_job, NUMBER, COUNT, COUNT), ATTEMPTS_MOST)
    )
    anew: tuple[Key, ...] = field(KEYS)
    is_all: bool = field(a_flag)


class Start(Question[StartAnswer]):
    """Start an attempt, unless the host's uptime is beyond `before_ns`."""

    DO, ANSWER = "start", StartAnswer.decoded
    order: Order = field(Order.decoded)
    before_ns: int = field(a_whole(-CLOCK_MOST, CLOCK_MOST))


class Fence(Question[Fenced]):
    """Let no attempt of a job up to this one start any more, and end those that have."""

    DO, ANSWER = "fence", Fenced.decoded
    job: str = field(a_job)
    attempt: int = field(COUNT)


class SetAside(Question[SetAsideAnswer]):
    """End an attempt of which nothing is to be told; that of a stray raises no fence."""

    DO, ANSWER = "set_aside", SetAsideAnswer.decoded
    job: str = field(a_job)
    attempt: int = field(NUMBER)
    is_stray: bool = field(a_flag, default=False, is_sparse=True)


class Send(Question[SendAnswer]):
    """Hand a command to the supervisor of an attempt."""

    DO, ANSWER = "send", SendAnswer.decoded
    job: str = field(a_job)
    attempt: int = field(NUMBER)
    order: Command = field(Command.decoded)


class Reshape(Question[ReshapeAnswer]):
    """Hold an attempt that runs to other shares, which may be those it has."""

    DO, ANSWER = "reshape", ReshapeAnswer.decoded
    job: str = field(a_job)
    attempt: int = field(NUMBER)
    shares: Shares = field(Shares.decoded)


class Switch(Question[SwitchAnswer]):
    """Have some attempts stand still, and once they do others go on.

    Where one that is to stand still does not in time, none goes on. One that is gone counts as
    standing still. Asked again, it changes nothing.
    """

    DO, ANSWER = "switch", SwitchAnswer.decoded
    stops: tuple[Key, ...] = field(KEYS)
    continues: tuple[Key, ...] = field(KEYS)


class Inventory(Question[InventoryAnswer]):
    """Tell the newest attempts of a job; or some, and all that run; or all there are."""

    DO, ANSWER = "inventory", InventoryAnswer.decoded
    job: str | None = field(a_job, default=None, is_sparse=True)
    wanted: tuple[Key, ...] | None = field(KEYS, default=None, is_sparse=True)


class Read(Question[ReadAnswer]):
    """Return a piece of the output `name` of an attempt."""

    DO, ANSWER = "read", ReadAnswer.decoded
    job: str = field(a_job)
    attempt: int = field(NUMBER)
    name: str = field(as_it_is)
    offset: int = field(COUNT)
    bytes: int = field(COUNT)


class Port(Question[PortAnswer]):
    """Return the first of some ports that is free there."""

    DO, ANSWER = "port", PortAnswer.decoded
    ports: tuple[int, ...] = field(a_list(PORT, COUNT_MOST))


QUESTIONS: Mapping[str, type[Question[Any]]] = {
    each.DO: each
    for each in (
        *(Claim, Beat, Look, Start, Fence, SetAside),
        *(Send, Reshape, Switch, Inventory, Read, Port),
    )
}
"""The questions, by what they are on the line."""


# How the GPUs of a host are wired.

GPUS_MOST = 1024
WIRE_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def _a_wire(value: object) -> str:
    word = a_text(8)(value)
    if not WIRE_CHARACTERS.issuperset(word):
        raise wrong(word, "capital letters and digits")
    return word


ROWS = a_list(a_list(_a_wire, GPUS_MOST), GPUS_MOST)


class GpuWiring(Message):
    """A GPU, its socket (a NUMA node; None if nobody knows), and the CPUs near to it."""

    index: int = field(COUNT)
    uuid: str = field(GPU_NAME)
    socket: int | None = field(COUNT, default=None)
    cpus: tuple[int, ...] = field(CPUS, default=())


class Wiring(Message):
    """How the GPUs of a host are wired, and by whom that was told.

    `pci` has a word for each two of them, row by row: X, PIX, PXB, PHB, NODE, SYS, or nothing where
    that is open; `links` that of NVLink, such as NV2, or nothing. Without rows nothing is known:
    `cause` says why. `cpus` are those of the host that are ours.
    """

    gpus: tuple[GpuWiring, ...] = field(a_list(GpuWiring.decoded, GPUS_MOST), default=())
    pci: tuple[tuple[str, ...], ...] = field(ROWS, default=())
    links: tuple[tuple[str, ...], ...] = field(ROWS, default=())
    by: str = field(a_text(32), default="")
    cause: str = field(a_cause(ERROR_CHARACTERS), default="")
    cpus: tuple[int, ...] = field(CPUS, default=())

    @classmethod
    def decoded(cls, value: object) -> Self:
        """Return a wiring whose tables are of its GPUs."""
        wiring = super().decoded(value)
        size = len(wiring.gpus)
        for rows in (wiring.pci, wiring.links):
            if rows and (len(rows) != size or any(len(row) != size for row in rows)):
                raise WrongMessageError(f"has a table that is not of {size} GPUs")
        return wiring
