"""A log as lines of JSON, one event an object with its fields by name: to read, keep or move.

    {"seq":7,"kind":"JobFinished","at_us":5000000,"job_id":"j1"}

Fields that hold their default are left out, as in the published schema. An export that was cut
short may end in a torn line; a log in a database may not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from shunter.errors import IllegalEventError, LogDamagedError
from shunter.events.facts import Event
from shunter.events.log.reader import LogReader
from shunter.events.log.writer import LogWriter

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class ImportReport:
    """How many events were imported, and whether a torn last line was dropped."""

    events: int
    torn: bool


async def export_jsonl(
    reader: LogReader, stream: BinaryIO, after: int = 0, to: int | None = None
) -> int:
    """Write the events after `after` up to `to` as lines; return how many."""
    from shunter.events.schema import to_object

    written = 0
    async for frame in reader.frames(after, to):
        events = frame.events(after, to)
        first = max(frame.first_seq, after + 1)
        stream.write(
            b"".join(_line(seq, to_object(event)) for seq, event in enumerate(events, first))
        )
        written += len(events)
    return written


async def import_jsonl(lines: Iterable[bytes], log: LogWriter) -> ImportReport:
    """Append the events of exported lines to a log, which must end where they begin.

    Frames are cut anew: the digest is that of the exported log if both were cut alike.

    Raises:
        LogDamagedError: a line that is not the last torn one is no event, or not the next one;
            names the line. Events before it may have been appended.
    """
    batch: list[Event] = []
    start = log.seq
    torn = False
    for number, line in enumerate(lines, 1):
        if torn:
            raise LogDamagedError(f"line {number - 1} is cut short, and not the last", log.seq + 1)
        event = _event(line, number, log.seq + len(batch) + 1)
        if event is None:
            torn = True
            continue
        batch.append(event)
        if len(batch) == _BATCH:
            log.append(batch)
            await log.commit()
            batch = []
    log.append(batch)
    await log.commit()
    return ImportReport(log.seq - start, torn)


def _line(seq: int, named: dict[str, Any]) -> bytes:
    return orjson.dumps({"seq": seq, **named}, option=orjson.OPT_APPEND_NEWLINE)


def _event(line: bytes, number: int, seq: int) -> Event | None:
    """Return the event of a line; None for one cut short, which has no newline."""
    from shunter.events.schema import from_object

    try:
        named = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if not line.endswith(b"\n"):
            return None
        raise LogDamagedError(f"line {number} is not JSON: {error}", seq) from error
    found = named.pop("seq", None) if isinstance(named, dict) else None
    if found != seq:
        raise LogDamagedError(f"line {number} is not the event {seq}: {line[:80]!r}", seq)
    try:
        return from_object(named)
    except IllegalEventError as error:
        raise LogDamagedError(f"line {number}: {error}", seq) from error
