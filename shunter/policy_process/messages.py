"""What the daemon and the process of its policy say to each other.

Each request has one reply. Events have the form of the log, and all else is MessagePack with the
types below, so that whatever comes back is what it claims to be.
"""

import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

import msgspec

from shunter.core import Change, Judge, Plan, Proposal, Reservation, Try
from shunter.errors import PlanError
from shunter.events import (
    SOLVED,
    ClassWait,
    JobId,
    SolvedFact,
    Wait,
    decode_payload,
    encode_payload,
)

HEADER = struct.Struct("!I")
_CHANGES: dict[str, Any] = {kind.__name__: kind for kind in get_args(Change)}
_TRIALS: dict[str, Any] = {kind.__name__: kind for kind in (Try, Judge)}


class Begin(msgspec.Struct, tag=True):
    """Build the policy of a start and its memory on a state."""

    started: bytes
    state: bytes


class Tell(msgspec.Struct, tag=True):
    """Fold events, and tell the policy of them."""

    events: bytes


class Decide(msgspec.Struct, tag=True):
    """Ask for targets and a plan at an instant."""

    now_us: int


class Order(msgspec.Struct, tag=True):
    """Ask for the jobs that wait, in the order of the policy."""


class Remember(msgspec.Struct, tag=True):
    """Ask for the policy's memory as bytes."""


class DryRun(msgspec.Struct, tag=True):
    """Ask what the next plan would do with a job that is only imagined.

    The reply goes to a socket of its own, which comes with the request, and only within `limit_s`.
    `submitted` is the payload of its submission.
    """

    submitted: bytes
    now_us: int
    limit_s: float


class PolicyStatus(msgspec.Struct, tag=True):
    """What the policy says between two plans; `trace` is the newest traceback."""

    settled: bool
    wake_us: int | None
    fault: str = ""
    trace: str = ""


class WirePlan(msgspec.Struct):
    """A plan whose changes and trials are named by their kinds."""

    changes: tuple[tuple[str, object], ...]
    waits: tuple[ClassWait, ...]
    job_waits: tuple[tuple[JobId, Wait], ...]
    reservations: tuple[Reservation, ...]
    fault: str
    consolidated: tuple[JobId, ...]
    spread: tuple[JobId, ...]
    trials: tuple[tuple[str, object], ...] = ()
    proposals: tuple[Proposal, ...] = ()
    admitted: tuple[JobId, ...] = ()
    dismissed: tuple[JobId, ...] = ()


class Decided(msgspec.Struct, tag=True):
    """The targets, as the payload of a fact or nothing, and the plan."""

    targets: bytes
    plan: WirePlan
    trace: str = ""


class Ordered(msgspec.Struct, tag=True):
    """The jobs that wait, in order."""

    jobs: tuple[JobId, ...]


class Remembered(msgspec.Struct, tag=True):
    """The policy's memory; empty if it cannot be kept."""

    memory: bytes


class DryRan(msgspec.Struct, tag=True):
    """What the next plan, at `at_us`, would do with a job.

    It would be given GPUs at `where`; nothing: it would wait, for `wait`. It `starts` at once, or
    once others have left them.
    """

    at_us: int
    where: str
    starts: bool
    wait: Wait | None = None
    fault: str = ""


class Failed(msgspec.Struct, tag=True):
    """Why a request could not be answered, where that is no policy's fault."""

    cause: str


Request = Begin | Tell | Decide | Order | Remember | DryRun
Reply = PolicyStatus | Decided | Ordered | Remembered | DryRan | Failed


def wire_plan(plan: Plan) -> WirePlan:
    """Return a plan as it is sent, but not that it was drafted: nobody believes that."""
    return WirePlan(
        _named(plan.changes),
        plan.waits,
        plan.job_waits,
        plan.reservations,
        plan.fault,
        plan.consolidated,
        plan.spread,
        _named(plan.trials),
        plan.proposals,
        plan.admitted,
        plan.dismissed,
    )


def plan_of(wire: WirePlan) -> Plan:
    """Return a plan that was sent.

    Raises:
        PlanError: a change is of no kind there is, or a field of it of a wrong type.
    """
    return Plan(
        tuple(_of_kinds("change", wire.changes, _CHANGES)),
        wire.waits,
        wire.job_waits,
        wire.reservations,
        wire.fault,
        wire.consolidated,
        wire.spread,
        trials=tuple(_of_kinds("trial", wire.trials, _TRIALS)),
        proposals=wire.proposals,
        admitted=wire.admitted,
        dismissed=wire.dismissed,
    )


def _named(records: Iterable[object]) -> tuple[tuple[str, object], ...]:
    return tuple((type(one).__name__, msgspec.to_builtins(one)) for one in records)


def _of_kinds(
    what: str, named: Iterable[tuple[str, object]], kinds: Mapping[str, Any]
) -> Iterator[Any]:
    for name, fields in named:
        try:
            yield msgspec.convert(fields, kinds[name])
        except (LookupError, msgspec.ValidationError) as error:
            raise PlanError(f"plan: a {what} {name}: {error}") from error


def targets_of(data: bytes) -> SolvedFact | None:
    """Return the answer that was sent, if there was one."""
    events = decode_payload(data) if data else []
    found = events[0] if events else None
    return found if isinstance(found, SOLVED) else None


def targets_bytes(targets: SolvedFact | None) -> bytes:
    """Return an answer as it is sent."""
    return b"" if targets is None else encode_payload([targets])


def send(connection: socket.socket, message: Request | Reply) -> None:
    """Send a message, and wait until it is out."""
    body = msgspec.msgpack.encode(message)
    connection.sendall(HEADER.pack(len(body)) + body)


def receive(connection: socket.socket) -> tuple[Request, list[int]] | None:
    """Wait for a request with its descriptors; None where the daemon has gone."""
    descriptors: list[int] = []
    header = _exactly(connection, HEADER.size, descriptors)
    if header is None:
        return None
    body = _exactly(connection, HEADER.unpack(header)[0], descriptors)
    return None if body is None else (_REQUEST.decode(body), descriptors)


def _exactly(connection: socket.socket, size: int, descriptors: list[int]) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        try:
            part, found, _, _ = socket.recv_fds(connection, min(size - len(parts), 1 << 20), 1)
        except ConnectionError:  # it was killed, and had not read all that we had said
            return None
        descriptors += found
        if not part:
            return None
        parts += part
    return bytes(parts)


_REQUEST: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
REPLY: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
