"""The log from outside: an address in, a writer or a reader out; and all of it as lines of JSON.

Addresses are `memory:`, `none:` (only the chain is kept), a path, or `sqlite+aiosqlite:///path`
as SQLAlchemy reads it: three slashes and a relative path, four for an absolute one. What speaks SQL
is imported only for those that need it.

A log to read, keep or move is a line of JSON an event, an object with its fields by name:

    {"seq":7,"kind":"JobFinished","at_us":5000000,"job_id":"j1"}

Fields that hold their default are left out, as in the published schema. An export that was cut
short may end in a torn line; a log in a database may not.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from shunter.errors import IllegalEventError, LogDamagedError, NotFoundError, UsageError
from shunter.events.facts import Event
from shunter.events.log.frames import GENESIS, Head, WithoutLost
from shunter.events.log.reader import LogReader, wrong_types_in
from shunter.events.log.stores import MemoryStore, NullStore, Segment, Store, StoredPastJobs
from shunter.events.log.writer import LogWriter

if TYPE_CHECKING:
    from shunter.events.log.sqlite import WriterLock

MEMORY = "memory:"
NONE = "none:"
_FILE = ("sqlite+aiosqlite:///", "sqlite:///")
_KNOWN = "use memory:, none:, a path, or sqlite+aiosqlite:/// and a path"


@asynccontextmanager
async def open_log(
    url: str,
    *,
    overwrite: bool = False,
    durable: bool = False,
    frame_events: int | None = 1000,
    frames_per_transaction: int = 10,
    resume: bool | WithoutLost = False,
    mode: int | None = None,
    claim: "WriterLock | None" = None,
    compressed: bool = False,
) -> AsyncIterator[LogWriter]:
    """Open a log for writing.

    Leaving the block writes what is left, unless it is left by an exception.

    Args:
        url: where it is to be.
        overwrite: replace a log that is there.
        durable: sync every commit to the disk (`synchronous=FULL`), not only checkpoints, and say
            so in an anchor beside the log.
        frame_events: events a frame, exactly; None makes a frame of each commit (live).
        frames_per_transaction: how many frames a simulation writes at once.
        resume: go on with a log that is there (or start one), in the next term; `WithoutLost` even
            if those events are lost, which the first commit has to record.
        mode: permissions of the file, as of chmod; None leaves them to the umask.
        claim: what `claim_log` returned for the same address; closing the log gives it back.
        compressed: keep frames as zlib: a fifth of the bytes, which `query_log` reads and plain SQL
            does not. The chain is over what is compressed, so that the digest is the same.
    Raises:
        LogExistsError: there is a log, and neither `overwrite` nor `resume`; nothing is touched.
        LogVersionError: there is something else, or a log of a newer Shunter.
        LogDamagedError: the log to resume is not what was written; names the sequence number.
        LogError: the place cannot be written, or another process writes there.
        UsageError: the address is not one of those above.
    """
    store: Store
    warning, lost = "", None
    if url in (MEMORY, NONE):
        store, head = (MemoryStore() if url == MEMORY else NullStore()), Head(0, GENESIS, 1)
    else:
        from shunter.events.log.sqlite_store import open_store

        store, head, warning = await open_store(
            path_of(url),
            overwrite=overwrite,
            durable=durable,
            resume=resume,
            mode=mode,
            lock=claim,
            compressed=compressed,
        )
        lost = store.lost
    log = LogWriter(
        url,
        store,
        head,
        frame_events=frame_events,
        frames_per_transaction=frames_per_transaction,
        warning=warning,
        lost=lost,
    )
    try:
        if frame_events is None:
            await store.bring_past_up_to_date()
        yield log
        await log.close()
    finally:
        await log.abandon()


async def claim_log(url: str) -> "WriterLock | None":
    """Take the place of a log that is to be made once some work is done.

    Nothing is written: until it is released, or its process has ended, nobody else makes a log
    there. What is kept in no file needs no place: None.

    Raises:
        LogExistsError: there is a log.
        LogError: the place cannot be written, or another process writes there.
        UsageError: the address is none of a log.
    """
    if url in (MEMORY, NONE):
        return None
    from shunter.events.log.sqlite_store import claim

    return await claim(path_of(url))


@asynccontextmanager
async def read_log(log: str | LogWriter) -> AsyncIterator[LogReader]:
    """Open a log for reading: by its address or, as memory needs, by its writer.

    Raises:
        NotFoundError: there is no such log.
        LogVersionError: it is something else, or of a newer Shunter.
        LogSchemaError: whoever reads it fails on an event that violates its schema.
    """
    if isinstance(log, LogWriter):
        opened = log.source()
    elif log in (MEMORY, NONE):
        raise NotFoundError(f"there is nothing to read at {log}: such a log ends with its process")
    else:
        from shunter.events.log.sqlite_source import open_source

        opened = open_source(path_of(log))
    async with opened as source:
        reader = LogReader(source)
        try:
            yield reader
        except (IllegalEventError, TypeError, ValueError, AttributeError, LookupError) as error:
            damage = await wrong_types_in(reader.frames())
            if damage is None:
                raise
            raise damage from error


def open_past_jobs(log: LogWriter) -> StoredPastJobs:
    """Open what the tables beside a live log say of past jobs; to be closed.

    Raises:
        LogError: the log cannot be read.
        UsageError: it is kept in no file.
    """
    from shunter.events.log.tables import SqlPastJobs

    return SqlPastJobs(path_of(log.url))


async def reindex_log(url: str) -> None:
    """Make what is derived from the events of a log anew, from its first event on.

    Raises:
        NotFoundError: there is no such log.
        LogDamagedError: a frame is missing, or is not what was written; nothing is changed.
        LogError: another process writes it.
    """
    from shunter.events.log.sqlite_store import reindex

    await reindex(path_of(url))


async def upgrade_log(url: str) -> None:
    """Bring the tables of a log up to this version, in place.

    Raises:
        NotFoundError: there is no such log.
        LogVersionError: it is something else, or of a newer Shunter.
        LogError: another process writes it.
    """
    from shunter.events.log.upgrading import upgrade

    await upgrade(path_of(url))


def load_store(url: str) -> None:
    """Import what an address needs, for callers that time what comes after."""
    if url not in (MEMORY, NONE):
        import_module("shunter.events.log.sqlite_store")


def files_of(url: str) -> list[Path]:
    """Return all files of a log, the log first, whether they are there or not.

    The others are its anchor, its lock and those of SQLite; none are where it is kept in no file.

    Raises:
        UsageError: the address is none of a log.
    """
    if url in (MEMORY, NONE):
        return []
    from shunter.events.log.sqlite import ANCHOR_SUFFIX, LOCK_SUFFIX, SIDE_FILES

    path = path_of(url)
    named = dict.fromkeys((path, path.resolve()))  # SQLite's lie beside the file behind a link
    suffixes = ("", ANCHOR_SUFFIX, LOCK_SUFFIX, *SIDE_FILES)
    return [each.with_name(each.name + suffix) for suffix in suffixes for each in named]


def path_of(url: str) -> Path:
    """Return the path of the log file that an address names.

    Raises:
        UsageError: the address names no file.
    """
    name = url
    for prefix in _FILE:
        name = name.removeprefix(prefix) if url.startswith(prefix) else name
    if not name or "://" in name or name.startswith(":memory:") or name in (MEMORY, NONE):
        raise UsageError(f"no log can be kept at {url!r}; {_KNOWN}")
    return Path(name).resolve()


async def seal(log: LogWriter, upto_seq: int) -> tuple[Segment, ...]:
    """Move the frames that end by `upto_seq` into compressed read-only segments.

    There must be a snapshot at or after `upto_seq`, so that a start needs none of them. Returns
    the segments made; the caller appends a `SegmentSealed` for each. Readers notice nothing, but
    the SQL view no longer shows these events. A store without a disk seals nothing.

    Raises:
        LogError: there is no such snapshot, or `upto_seq` is not written yet.
    """
    segments: list[Segment] = []
    while segment := await log.seal(upto_seq):
        segments.append(segment)
    return tuple(segments)


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
