"""The messages between a scheduler and the agent of a node, as the scheduler has them.

A question is a line of JSON {"id", "do", ...}; its answer has the same id and two clocks; news are
lines without an id. The agent's end is `shunter.backends.node.session`. Questions are ours;
answers are somebody else's data, and what is not as `answers` declares it raises
WrongMessageError. A field that is not declared is ignored.

`PROTOCOL` is the version of all this. The greeting of an agent names its own ("protocol"; 1 where
it names none), and a claim ours. A new field that whoever does not know it may ignore leaves the
version as it is. All else raises it by one: a new question, a new value of a choice, a field that
is needed, renamed or gone, another unit or meaning. A scheduler speaks one version, installs that
agent itself, and refuses an agent of any other (OtherProtocolError).
"""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from shunter.backends.agents.answers import (
    ERROR_CHARACTERS,
    Answer,
    Beaten,
    Claimed,
    ClaimRefused,
    Failed,
    Fenced,
    Greeting,
    InventoryAnswer,
    Looked,
    ManyKnown,
    PortAnswer,
    ReadAnswer,
    Refusal,
    ReshapeAnswer,
    SendAnswer,
    SetAsideAnswer,
    StartAnswer,
    SwitchAnswer,
)
from shunter.backends.agents.attempt_records import Cause, Known, Path, Whole
from shunter.backends.agents.orders import Command, Order, Shares
from shunter.backends.node.messages import (
    COUNT_MOST,
    PROTOCOL,
    WrongMessageError,
    cleaned,
    parsed,
)

__all__ = [
    "PROTOCOL",
    "Beat",
    "Claim",
    "Fence",
    "Inventory",
    "Look",
    "OtherProtocolError",
    "Port",
    "Question",
    "Read",
    "Reshape",
    "Send",
    "SetAside",
    "Start",
    "Switch",
    "decode_answer",
    "decode_greeting",
    "decode_news",
    "decode_number",
    "encode_question",
]

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
