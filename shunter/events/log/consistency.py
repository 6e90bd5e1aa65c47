"""What must hold between the parts of a log: frame and frame, frame and head, log and anchor."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from shunter.errors import LogDamagedError
from shunter.events.log.frames import Frame, Head, next_chain

REINDEX = "`shunter log reindex` makes it anew, while nothing writes the log"


def checked_frame(frame: Frame, seq: int, before: Frame | None, head: Head) -> Frame:
    """Return the frame if it holds `seq` and fits the one before and the head."""
    assert before is not None, "the chain value before the first frame is fetched with it"
    if frame.first_seq != before.last_seq + 1 or not frame.first_seq <= seq <= frame.last_seq:
        raise LogDamagedError(
            f"sequence number {seq} is missing: {frame.named} has {frame.count} events", seq
        )
    if next_chain(before.chain, frame.payload) != frame.chain:
        raise LogDamagedError(
            f"{frame.named} does not match its chain value: its bytes, or those before it, "
            "are not what was written",
            frame.first_seq,
        )
    if not before.term <= frame.term <= head.term:
        raise LogDamagedError(
            f"{frame.named} has term {frame.term}, between {before.term} and {head.term} expected",
            frame.first_seq,
        )
    if frame.last_seq >= head.seq and (frame.last_seq, frame.chain) != (head.seq, head.chain):
        raise LogDamagedError(
            f"{frame.named} and the head disagree: the head is at {head.seq}, the frame ends at "
            f"{frame.last_seq}",
            frame.first_seq,
        )
    return frame


def refuse_other_term(frame: Frame, terms: Sequence[tuple[int, int]]) -> None:
    """Raise LogDamagedError unless a frame is of the term that had begun."""
    place = bisect_right(terms, frame.first_seq, key=itemgetter(0))
    if place and terms[place - 1][1] != frame.term:
        raise LogDamagedError(
            f"{frame.named} has term {frame.term}, and term {terms[place - 1][1]} is expected",
            frame.first_seq,
        )


def refuse_lost(log: str, anchor: Head, head: Head) -> None:
    """Raise LogDamagedError if a log ends before what its anchor says was synced."""
    remedy = "put the log, its -wal and its anchor back from one copy"
    remedy += (
        f", or go on without them, which is recorded: `shunter serve CONFIG --accept-loss "
        f"{head.seq + 1}`, once"
        if head.seq
        else f", or move the anchor {log}.anchor away, and the folder of attempts too, to begin "
        "again"
    )
    if anchor.seq > head.seq:
        raise LogDamagedError(
            f"the log {log} has lost the {anchor.seq - head.seq} events with sequence numbers "
            f"{head.seq + 1} to {anchor.seq}: its anchor says that they were on the disk, and the "
            f"log ends before them; {remedy}",
            head.seq + 1,
        )
    if anchor.term > head.term:
        raise LogDamagedError(
            f"the log {log} has lost the start of term {anchor.term} after sequence number "
            f"{head.seq}: its anchor says that it was on the disk, and the log is of term "
            f"{head.term}; {remedy}",
            head.seq,
        )
    if anchor.seq == head.seq:
        refuse_other_chain(log, anchor, head.chain)


def refuse_other_chain(log: str, anchor: Head, chain: bytes | None) -> None:
    """Raise LogDamagedError unless a chain value is that of the anchor."""
    if chain != anchor.chain:
        raise LogDamagedError(
            f"the log {log} and its anchor disagree at sequence number {anchor.seq}: one of the "
            "two was changed, or is another log's",
            anchor.seq,
        )


def without_anchor(log: str) -> str:
    """Return what to tell of a log that was kept with an anchor and has none now."""
    return (
        f"the log {log} was kept with an anchor, {log}.anchor, which is not there: whether events "
        "after its last one are lost is not known; who copies or moves the log of a daemon takes "
        "its anchor along"
    )
