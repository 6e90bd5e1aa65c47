"""What a log consists of, whatever keeps it: frames in a chain, their head, and snapshots.

    frame 1..1000 ──chain──▶ frame 1001..2000 ──chain──▶ … ──▶ head(seq, chain, term)

A frame is a run of events encoded once. Its chain value is a hash over the value before it and
its own payload, so the last value stands for every byte of the log, in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from shunter.errors import IllegalEventError, LogDamagedError
from shunter.events.codec import decode_payload
from shunter.events.kinds import Event

CHAIN_BYTES = 32
GENESIS = bytes(CHAIN_BYTES)


@dataclass(frozen=True, slots=True)
class Frame:
    """A run of events as it is stored; `at_us` is the instant of its first event."""

    first_seq: int
    count: int
    at_us: int
    term: int
    chain: bytes
    payload: bytes

    @property
    def last_seq(self) -> int:
        """The sequence number of its last event."""
        return self.first_seq + self.count - 1

    def events(self, after: int = 0, to: int | None = None) -> Sequence[Event]:
        """Return its events, decoded; only those after `after` and up to `to`, if given.

        Raises:
            LogDamagedError: the payload does not hold what the frame says it does.
        """
        try:
            events = decode_payload(self.payload)
        except IllegalEventError as error:
            raise LogDamagedError(f"{self.named}: {error}", self.first_seq) from error
        if len(events) != self.count:
            raise LogDamagedError(
                f"{self.named} holds {len(events)} events where its row says {self.count}",
                self.first_seq,
            )
        if events[0].at_us != self.at_us:
            raise LogDamagedError(
                f"{self.named} begins at {events[0].at_us} us, its row says {self.at_us}",
                self.first_seq,
            )
        start = max(0, after + 1 - self.first_seq)
        end = self.count if to is None else min(self.count, to + 1 - self.first_seq)
        return events if end - start == self.count else events[start:end]

    @property
    def named(self) -> str:
        """The frame in words, for messages."""
        return f"the frame at sequence number {self.first_seq}"


@dataclass(frozen=True, slots=True)
class Head:
    """Where a log ends: its last sequence number, chain value and writer's term."""

    seq: int
    chain: bytes
    term: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State and policy memory right after the event `seq`, encoded, under one digest."""

    seq: int
    at_us: int
    state: bytes
    memory: bytes
    digest: str

    @classmethod
    def of(cls, seq: int, at_us: int, state: bytes, memory: bytes) -> "Snapshot":
        """Return the snapshot of these bytes, with its digest."""
        return cls(seq, at_us, state, memory, snapshot_digest(state, memory))

    def check(self) -> None:
        """Raise LogDamagedError unless the digest is that of the bytes."""
        if snapshot_digest(self.state, self.memory) != self.digest:
            raise LogDamagedError(
                f"the snapshot at sequence number {self.seq} does not match its digest", self.seq
            )


def next_chain(previous: bytes, payload: bytes) -> bytes:
    """Return the chain value after a frame with this payload."""
    return blake2b(previous + payload, digest_size=CHAIN_BYTES).digest()


def snapshot_digest(state: bytes, memory: bytes) -> str:
    """Return the digest over both parts; the length keeps them apart."""
    together = blake2b(len(state).to_bytes(8, "big"), digest_size=CHAIN_BYTES)
    together.update(state)
    together.update(memory)
    return together.hexdigest()
