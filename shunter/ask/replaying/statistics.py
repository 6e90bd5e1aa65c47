"""What a log consists of: how many events of which kind, over which time, in how many bytes."""

from collections import Counter
from pathlib import Path
from typing import TypedDict

from shunter.ask.replaying.folding import Advance
from shunter.ask.replaying.instants import clock
from shunter.events.log import LogReader

SCHEMA = 1


class LogBytes(TypedDict):
    """The bytes of all events, of the log's file if it is one, and of a mean event."""

    payload: int
    file: int | None
    per_event: float | None


class LogStatistics(TypedDict):
    """What a log consists of; instants are in microseconds and as `T+HH:MM:SS`."""

    schema: int
    url: str
    events: int
    digest: str
    kinds: dict[str, int]
    span: dict[str, int | str]
    terms: dict[str, int]
    frames: int
    bytes: LogBytes
    snapshots: list[int]
    segments: list[list[int]]


async def log_statistics(reader: LogReader, advance: Advance | None = None) -> LogStatistics:
    """Count what is in a log, without folding it.

    Raises:
        LogDamagedError: the bytes are not what was written; names the sequence number.
    """
    head = await reader.head()
    kinds: Counter[str] = Counter()
    terms: Counter[int] = Counter()
    frames = payload_bytes = 0
    first_us = last_us = 0
    async for frame in reader.frames(0, head.seq):
        rows = frame.rows()
        kinds.update(row[0] for row in rows)
        terms[frame.term] += frame.count
        first_us = first_us if frames else frame.at_us
        last_us = rows[-1][1]
        frames += 1
        payload_bytes += len(frame.payload)
        if advance is not None:
            advance(frame.last_seq, head.seq)
    snapshots, segments = await reader.snapshots(), await reader.segments()
    return {
        "schema": SCHEMA,
        "url": reader.url,
        "events": head.seq,
        "digest": head.chain.hex(),
        "kinds": dict(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0]))),
        "span": {
            "first_us": first_us,
            "last_us": last_us,
            "first": clock(first_us),
            "last": clock(last_us),
        },
        "terms": {str(term): count for term, count in sorted(terms.items())},
        "frames": frames,
        "bytes": {
            "payload": payload_bytes,
            "file": _file_bytes(Path(reader.url)),
            "per_event": round(payload_bytes / head.seq, 1) if head.seq else None,
        },
        "snapshots": [snapshot.seq for snapshot in snapshots],
        "segments": [[segment.first_seq, segment.last_seq] for segment in segments],
    }


def _file_bytes(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
