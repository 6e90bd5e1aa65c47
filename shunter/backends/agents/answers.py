"""The answers of agents, typed and bounded like the records in them (`attempt_records`).

`messages` says which question gets which, and decodes them.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from shunter.backends.agents.attempt_records import (
    AttemptNumber,
    BootId,
    Cause,
    Clock,
    Cpus,
    GpuReading,
    JobName,
    Known,
    Path,
    PortNumber,
    Sample,
    UserNumber,
    Whole,
)
from shunter.backends.node.messages import cleaned
from shunter.backends.node.session import READ_BYTES_MAX

ERROR_CHARACTERS = 1000
MANY = 100_000
ManyKnown = Annotated[tuple[Known, ...], Meta(max_length=MANY)]
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
    samples: Annotated[tuple[Sample, ...], Meta(max_length=MANY)]
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

    stands: Annotated[tuple[Stand, ...], Meta(max_length=MANY)]


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
