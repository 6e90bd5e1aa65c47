"""The lists of files of a job's checkpoint, of all its hosts, and what they give joined.

A user decides how many files there are and how long their names are, so no list is held in memory:
SQLite keeps them in a file that has no name, at most CACHE_KIB of it in memory. Every host has a
whole folder, in which only the files of its rank are new; `join` chooses whose counts, path by
path.

Paths are bytes in there, with NUL in place of "/": in this order a folder comes right before what
is in it. Only one thread at a time may work with lists, and it may be any.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shunter.backends.node import ERROR_CHARACTERS, cleaned
from shunter.backends.node.host import (
    ENTRIES_MAX,
    MODE_BITS,
    PATH_BYTES_MAX,
    Kind,
    ListBound,
    TooMuchError,
    rows_of,
)
from shunter.errors import BackendError
from shunter.events import NodeName

CACHE_KIB = 512
FEW, FEW_CHARACTERS = 1_000, 100_000
"""Lists of more files or longer paths are worked with in a thread, others on the event loop."""
ENTRIES_OF_ALL_MAX = 4 * ENTRIES_MAX
"""What the servers of a gang may list in all; what differs between them is held to ListBound."""
NUMBER_MOST, INODE_MOST = 2**63 - 1, 64
_SCHEMA = f"""
PRAGMA journal_mode = OFF;
PRAGMA cache_size = -{CACHE_KIB};
CREATE TABLE listed (
    path BLOB, host INTEGER, kind TEXT, mode INTEGER, mtime_ns INTEGER, size INTEGER, target TEXT,
    inode TEXT, changed INTEGER, is_chosen INTEGER, PRIMARY KEY (path, host)
) WITHOUT ROWID;
CREATE TABLE gone (path BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE hosts (host INTEGER PRIMARY KEY, generation INTEGER);
CREATE TABLE several_names (
    host INTEGER, inode TEXT, path BLOB, number INTEGER, PRIMARY KEY (host, inode)
) WITHOUT ROWID;
CREATE TABLE alike (
    host INTEGER, path BLOB, digest TEXT, is_same INTEGER, PRIMARY KEY (host, path)
) WITHOUT ROWID;
BEGIN
"""
_CHOOSE = """
UPDATE listed SET is_chosen = 1 WHERE host = (
    SELECT other.host FROM listed AS other NATURAL JOIN hosts WHERE other.path = listed.path
    ORDER BY other.changed DESC, iif(other.changed, 0, -hosts.generation), other.host LIMIT 1
) AND (changed OR path NOT IN gone)
"""
_NO_PARENT = """
SELECT path, host FROM listed WHERE is_chosen AND path > ? AND NOT EXISTS (
    SELECT 1 FROM listed AS above
    WHERE above.path = parent(listed.path) AND above.is_chosen AND above.kind = 'folder'
) ORDER BY path LIMIT 1
"""
_LATEST_TIMES = """
UPDATE listed SET mtime_ns = (
    SELECT max(other.mtime_ns) FROM listed AS other
    WHERE other.path = listed.path AND other.kind = 'folder'
) WHERE is_chosen AND kind = 'folder'
"""
_NAME_AGAIN = """
INSERT OR IGNORE INTO several_names SELECT host, inode, path, number FROM (
    SELECT host, inode, path, row_number() OVER (ORDER BY path) - 1 AS number
    FROM listed WHERE is_chosen
) WHERE inode != '' ORDER BY number
"""


class ListedEntry(NamedTuple):
    """A file, link or folder of a checkpoint, as a node lists it.

    Its fields are those of `remote.file_trees`.

    `changed` says that it is another one than when the last transfer came.
    """

    path: str
    kind: Kind
    mode: int
    mtime_ns: int
    size: int
    to: str
    inode: str
    changed: bool


class Record(NamedTuple):
    """A record of a list: entries, paths that are gone, or the end."""

    entries: Sequence[ListedEntry] = ()
    gone: Sequence[str] = ()
    is_last: bool = False
    generation: int = 0
    is_whole: bool = False


class StaysError(BackendError):
    """A checkpoint is too large to be copied: its job goes on where that lies."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class TooManyEntriesError(ValueError):
    """The hosts of a gang list more entries together than are put together."""


@dataclass(slots=True)
class _Host:
    """How much a host has listed, and since which transfer it tells changes."""

    name: NodeName
    entries: int
    gone: ListBound
    generation: int = 0
    is_whole: bool = False


class FileLists:
    """What the hosts of an attempt list, and the one tree that it gives.

    A file comes from where it was changed since the last transfer, since there ran the rank that
    writes it, and is gone where one rank has removed it and none has changed it. Where several
    have changed it, the lowest rank's counts; where one of them has made a folder with files of its
    own and another a file or link, the folder.
    """

    def __init__(self) -> None:
        self.database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self.database.create_function("parent", 1, _parent, deterministic=True)
        self.database.executescript(_SCHEMA)
        self._hosts: list[_Host] = []
        self._bound = ListBound()
        self._left = ENTRIES_OF_ALL_MAX
        self._characters = 0

    def close(self) -> None:
        """Remove them."""
        self.database.close()

    @property
    def is_large(self) -> bool:
        """Say whether others would wait for what is done with them on the event loop."""
        return ENTRIES_OF_ALL_MAX - self._left > FEW or self._characters > FEW_CHARACTERS

    @property
    def sizes(self) -> Sequence[tuple[NodeName, int]]:
        """How many entries each host has listed."""
        return [(host.name, host.entries) for host in self._hosts]

    def name_of(self, host: int) -> NodeName:
        """Return the name of a host by its number, which is its rank."""
        return self._hosts[host].name

    def number_of(self, name: NodeName) -> int:
        """Return the number of a host; -1 if it has listed nothing."""
        return next((at for at, host in enumerate(self._hosts) if host.name == name), -1)

    def begin(self, name: NodeName) -> None:
        """Have what comes next be of one more host, in order of rank."""
        self._hosts.append(_Host(name, 0, ListBound()))

    def take(self, line: bytes) -> bool:
        """Take in a record of the host begun last; return whether it was its last.

        Raises:
            TooManyEntriesError: it has more than the servers of a gang may have.
            BackendError: it is no such record, or there are more than a checkpoint may have.
        """
        host = self._hosts[-1]
        record = record_of(host.name, line)
        try:
            self._add(record.entries)
            for path in record.gone:
                host.gone.add(path)
            values = ((key_of(path),) for path in record.gone)
            self.database.executemany("INSERT OR IGNORE INTO gone VALUES (?)", values)
        except TooManyEntriesError:
            raise
        except sqlite3.IntegrityError as error:
            raise failed(f"host {host.name} listed a file twice") from error
        except ValueError as error:
            raise failed(f"host {host.name}: {error}") from error
        host.generation, host.is_whole = record.generation, record.is_whole
        return record.is_last

    def _add(self, entries: Sequence[ListedEntry]) -> None:
        number = len(self._hosts) - 1
        for entry in entries:
            self._left -= 1 if entry.path else 0
            if self._left < 0:
                raise TooManyEntriesError(f"more than {ENTRIES_OF_ALL_MAX:,} files and folders")
            if not (number and self._is_known(entry)):
                try:
                    self._bound.add(entry.path, entry.to)
                except TooMuchError as error:
                    counted = f"{error}, each counted once if it is the same"
                    raise TooManyEntriesError(counted) from error
            self._hosts[-1].entries += 1 if entry.path else 0
            self._characters += len(entry.path) + len(entry.to)
        self.database.executemany(
            "INSERT INTO listed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            ((key_of(entry.path), number, *entry[1:]) for entry in entries),
        )

    def _is_known(self, entry: ListedEntry) -> bool:
        """Say whether a host before has listed the same."""
        found = self.database.execute(
            "SELECT 1 FROM listed WHERE path = ? AND (kind, mode, mtime_ns, size, target, inode,"
            " changed) = (?, ?, ?, ?, ?, ?, ?) LIMIT 1",
            (key_of(entry.path), *entry[1:]),
        )
        return found.fetchone() is not None

    def join(self) -> bool:
        """Choose of each path the entry that counts; return whether there is anything.

        Raises:
            BackendError: a host has listed a file without the folder it is in.
        """
        run, alone = self.database.execute, 0 if len(self._hosts) == 1 else None
        whole = [each for each in enumerate(self._hosts) if each[1].is_whole]
        if whole:  # a transfer to another attempt got that far, and that attempt never ran
            alone = max(whole, key=lambda each: each[1].generation)[0]
        if alone is not None:
            run("UPDATE listed SET is_chosen = 1 WHERE host = ?", (alone,))
        else:
            values = ((at, host.generation) for at, host in enumerate(self._hosts))
            self.database.executemany("INSERT INTO hosts VALUES (?, ?)", values)
            # What nobody has changed is right where the latest transfer came.
            run(_CHOOSE)
            self._keep_parents()
            run(_LATEST_TIMES)  # a folder's time changes with each entry that comes or goes
        run(_NAME_AGAIN)
        some = "SELECT 1 FROM listed WHERE is_chosen AND path != x'' LIMIT 1"
        return run(some).fetchone() is not None

    def _keep_parents(self) -> None:
        """Have a folder above each entry, from the host of that entry."""
        run, found = self.database.execute, (b"", 0)
        # What is above an entry comes before it, so one pass meets all.
        while found := run(_NO_PARENT, (found[0],)).fetchone():
            path, host = found
            while path:
                path = _parent(path)
                of_host = "path = ? AND host = ? AND kind = 'folder'"
                if run(
                    "SELECT 1 FROM listed WHERE path = ? AND is_chosen AND kind = 'folder'", (path,)
                ).fetchone():
                    break  # it came before, so what is above it is there
                run("UPDATE listed SET is_chosen = 0 WHERE path = ?", (path,))
                is_there = run(
                    f"UPDATE listed SET is_chosen = 1 WHERE {of_host}",  # noqa: S608  no input
                    (path, host),
                ).rowcount
                if not is_there:
                    name = self._hosts[host].name
                    raise failed(f"host {name} listed a file without its folder")


def record_of(node: NodeName, line: bytes) -> Record:
    """Return a record of what a host lists.

    Raises:
        BackendError: it is none, or says what went wrong.
    """
    answer = read_answer(node, line)
    try:
        return _record(answer)
    except (LookupError, TypeError, ValueError) as error:
        raise failed(f"host {node} said what is no list of files") from error


def _record(answer: Any) -> Record:
    # What says nothing could come for ever; a folder is said once, and stands in each path.
    if "entries" in answer:
        entries = answer["entries"]
        if not entries or len(answer["folder"]) * len(entries) > PATH_BYTES_MAX:
            raise ValueError("there are none, or their paths are too long")
        return Record([listed_entry(path, fields) for path, fields in rows_of(answer)])
    if "gone" in answer:
        gone = list(answer["gone"])
        if not gone or not all(isinstance(path, str) for path in gone):
            raise TypeError("a path is no text, or there is none")
        return Record(gone=gone)
    generation, is_whole = answer["generation"], answer["is_whole"]
    if type(generation) is not int or not 0 <= generation <= NUMBER_MOST:
        raise TypeError("this is no number of a transfer")
    return Record(is_last=True, generation=generation, is_whole=bool(is_whole))


def listed_entry(path: str, fields: Sequence[object]) -> ListedEntry:
    """Return an entry as a node tells it.

    Raises:
        TypeError: these are not the fields of one.
        LookupError: its kind or mode is none of a file.
    """
    entry = ListedEntry(path, *fields)  # type: ignore[arg-type]  # checked below
    if [type(each) for each in entry] != _TYPES or not (
        0 <= entry.size <= NUMBER_MOST
        and abs(entry.mtime_ns) <= NUMBER_MOST
        and len(entry.inode) <= INODE_MOST
    ):
        raise TypeError("these are no fields of a file")
    if entry.kind not in _KINDS or not 0 <= entry.mode <= MODE_BITS:
        raise LookupError("this is no kind or mode of a file")
    return entry


_KINDS = ("file", "link", "folder")
_TYPES = [str, str, int, int, int, str, str, bool]


def key_of(path: str) -> bytes:
    """Return what a path is in the database.

    Raises:
        ValueError: it is not as in a record.
    """
    return path.encode("latin-1").replace(b"/", b"\0")


def path_of(key: bytes) -> str:
    """Return the path that is in the database."""
    return key.replace(b"\0", b"/").decode("latin-1")


def _parent(key: bytes) -> bytes:
    return key.rpartition(b"\0")[0]


def read_answer(node: str, line: bytes) -> Any:
    """Return an answer of a host.

    Raises:
        StaysError: it says that there is more than is copied.
        BackendError: it is none, or says what went wrong.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise failed(f"host {node} said what is no answer") from error
    if not isinstance(found, dict):
        raise failed(f"host {node} said what is no answer")
    if "error" in found:
        kind = StaysError if found.get("is_too_large") is True else failed
        raise kind(f"host {node}: {cleaned(found['error'], ERROR_CHARACTERS)}")
    return found


def failed(cause: str) -> BackendError:
    """Return what says that a checkpoint cannot be copied now."""
    return BackendError(cause, retryable=True)
