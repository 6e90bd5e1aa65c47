"""A folder of files as a list of entries, and as a stream: read and built without following links.

Every name is looked up in the open folder that holds it (openat), and none is followed if it is a
link, so that no entry leads out of the folder whatever its owner puts there. An entry is

    {"path", "kind": "folder" | "file" | "link", "mode", "mtime_ns", "size", "to", "inode"}

with paths relative to the folder, "" for itself, parents first. Names that are no UTF-8 keep their
bytes (surrogateescape). Only files with several names have an `inode`. Other kinds of files, and
the setuid, setgid and sticky bits, are left out.

A file is streamed as pieces that hold data, so that holes stay holes: each is preceded by PIECE
(offset, length); one of length 0 at the file's size ends it, and is followed by the SHA-256 of all
pieces.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
import sys
import threading
import time
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

Kind = Literal["file", "link", "folder"]
Transfer = TypedDict("Transfer", {"changed": bool, "from": str, "same": "int | None"}, total=False)


class Entry(Transfer):
    """A file, link or folder of a checkpoint, with what a transfer says of it."""

    path: str
    kind: Kind
    mode: int
    mtime_ns: int
    size: int
    inode: str
    to: str


Done = TypeVar("Done")
PIECE = struct.Struct(">QI")
PIECE_BYTES = 1 << 20
DEPTH_MAX = 200
_KINDS: dict[int, Kind] = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
MODE_BITS = 0o777
ALIVE_S = 1.0
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO keeps nobody waiting
_said_s = [time.monotonic()]


def entries_of(top: int) -> list[Entry]:
    """Return the entries of an open folder.

    Raises:
        OSError: some of it cannot be read.
        TooMuchError: it holds more than a checkpoint may.
    """
    folder, bound = os.open(".", _FOLDER, dir_fd=top), ListBound()
    try:
        found = [_entry("", os.fstat(folder))]
        for entry in _below(folder, "", bound):
            bound.add(recorded_path(entry["path"]), recorded_path(entry["to"]))
            found.append(entry)
    finally:
        os.close(folder)
    return found


def _below(folder: int, path: str, bound: ListBound, depth: int = 0) -> Iterator[Entry]:
    if depth > DEPTH_MAX:
        raise TooMuchError(f"folders more than {DEPTH_MAX} deep")
    with naming(path):
        names = _names_in(folder, bound)
    for name in names:
        say_alive()
        text = name.decode("utf-8", "surrogateescape")
        inner = f"{path}/{text}" if path else text
        inside, to = -1, b""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                inside = os.open(name, _FOLDER, dir_fd=folder)
            elif stat.S_ISLNK(found.st_mode):
                to = os.readlink(name, dir_fd=folder)
        except OSError as error:
            raise OSError(error.errno, error.strerror, inner) from error
        if stat.S_ISDIR(found.st_mode):
            try:
                yield _entry(inner, found)
                yield from _below(inside, inner, bound, depth + 1)
            finally:
                os.close(inside)
        elif stat.S_ISLNK(found.st_mode):
            yield {**_entry(inner, found), "to": to.decode("utf-8", "surrogateescape")}
        elif stat.S_ISREG(found.st_mode):
            yield _entry(inner, found)


def _names_in(folder: int, bound: ListBound) -> list[bytes]:
    """Return the names in a folder, in order, unless they are too many to read."""
    most = bound.entries_left + 1
    with os.scandir(folder) as found:
        names = sorted(os.fsencode(each.name) for each in islice(found, most))
    if len(names) > bound.entries_left:
        raise bound.too_many()
    return names


def _entry(path: str, found: os.stat_result) -> Entry:
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "file")
    several = kind == "file" and found.st_nlink > 1
    return {
        "path": path,
        "kind": kind,
        "mode": found.st_mode & MODE_BITS,
        "mtime_ns": found.st_mtime_ns,
        "size": found.st_size if kind == "file" else 0,
        "to": "",
        "inode": f"{found.st_dev}:{found.st_ino}" if several else "",
    }


def digest_of(top: int, path: str) -> str:
    """Return the SHA-256 of a file: of its size, its data, and where that is.

    A hole costs nothing, however large: a terabyte of zeros would take hours to read.
    """
    digest = hashlib.sha256()
    file = open_file(top, path)
    try:
        size = os.fstat(file).st_size
        for begin, offset, piece in _data_of(file, size):
            if offset == begin:
                digest.update(PIECE.pack(begin, 0))
            digest.update(piece)
            say_alive()
        digest.update(PIECE.pack(size, 1))
    finally:
        os.close(file)
    return digest.hexdigest()


def write_file(top: int, path: str, write: Callable[[bytes], object]) -> None:
    """Stream a file below an open folder."""
    with naming(path):
        file = open_file(top, path)
    digest = hashlib.sha256()
    try:
        for _, offset, piece in _data_of(file, os.fstat(file).st_size):
            digest.update(piece)
            write(PIECE.pack(offset, len(piece)))
            write(piece)
        write(PIECE.pack(os.fstat(file).st_size, 0))
        write(digest.digest())
    finally:
        os.close(file)


def _data_of(file: int, size: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the pieces of a file that hold data, and where these are.

    Of each where the data that it is of begins, its own place, and its bytes.
    All of it is data where the file system does not tell. A file that became shorter meanwhile ends
    early: its size will not be the one that was told.
    """
    offset = 0
    while offset < size:
        try:
            begin = os.lseek(file, offset, os.SEEK_DATA)
            end = os.lseek(file, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # nothing but a hole up to the end
            begin, end = offset, size
        offset = begin
        while offset < min(end, size):
            piece = os.pread(file, min(PIECE_BYTES, end - offset, size - offset), offset)
            if not piece:
                break
            yield begin, offset, piece
            offset += len(piece)
        offset = end


def opened(path: str) -> int:
    """Open a folder, not through a link, without a right to read it."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def parts_of(path: str) -> list[bytes]:
    """Return the names that lead to an entry.

    Raises:
        ValueError: they lead elsewhere.
    """
    parts = path.encode("utf-8", "surrogateescape").split(b"/")
    if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
        raise ValueError("its path leads out of the folder")
    return parts


def open_parent(top: int, path: str) -> tuple[int, bytes]:
    """Return the folder that holds an entry, opened through no link, and its name."""
    *parents, name = parts_of(path)
    folder = os.open(".", _FOLDER, dir_fd=top)
    for parent in parents:
        try:
            inner = os.open(parent, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder, name


def open_file(top: int, path: str) -> int:
    """Open a file to read, unless it is a link or something else by now."""
    file = _in_parent(top, path, lambda at, name: os.open(name, _FILE, dir_fd=at))
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ValueError("it is no file any more")
    return file


def change_mode(top: int, name: bytes, mode: int) -> None:
    """Set the mode of an entry of an open folder, which is not followed."""
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        if not stat.S_ISLNK(os.fstat(held).st_mode):
            os.chmod(f"/proc/self/fd/{held}", mode & MODE_BITS)
    finally:
        os.close(held)


def remove(top: int, name: bytes) -> None:
    """Remove a folder's entry with all that is in it; what cannot be removed stays."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            _empty_entry(top, name)
            os.rmdir(name, dir_fd=top)
        else:
            os.unlink(name, dir_fd=top)
    except OSError:
        return


def empty(top: int) -> None:
    """Remove all that is in an open folder, as far as we may."""
    folder = os.open(".", _FOLDER, dir_fd=top)
    try:
        for name in sorted(os.listdir(folder)):
            remove(folder, os.fsencode(name))
            say_alive()
    finally:
        os.close(folder)


def _empty_entry(top: int, name: bytes) -> None:
    mode = os.stat(name, dir_fd=top, follow_symlinks=False).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        change_mode(top, name, stat.S_IRWXU)
    folder = os.open(name, _FOLDER, dir_fd=top)
    try:
        empty(folder)
    finally:
        os.close(folder)


def say_alive() -> None:
    """Write an empty line now and then: whoever waits knows that work goes on."""
    if time.monotonic() - _said_s[0] >= ALIVE_S:
        _said_s[0] = time.monotonic()
        sys.stdout.write("\n")
        sys.stdout.flush()


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Have errors of the system name an entry by its whole path in the folder."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def said_error(error: Exception, folder: str) -> str:
    """Return what an error says to people; `naming` has told it where in a folder."""
    if not isinstance(error, OSError) or not isinstance(error.filename, str):
        return str(error)
    path = f"{folder}/{error.filename}".rstrip("/")
    if error.filename.startswith("/"):
        path = error.filename
    elif error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        said = f"{path} is not there any more: the folder changed while it was read, which is tried"
        return _as_utf8(f"{said} again")
    return _as_utf8(f"{path}: {error.strerror}")


def _as_utf8(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# A folder built from entries and a stream, inside an open, empty folder. Folders are open to their
# owner only until all is in them; then they get their modes and times.

SYNC_BYTES = 64 << 20
SYNCS_AT_ONCE = 8
ALIVE_LOOK_S = 0.5
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP)


def build(new: int, old: int | None, entries: list[Entry], received: list[str]) -> None:
    """Build what entries tell in an open folder.

    Args:
        new: the folder, empty.
        old: one that holds the files that are to be taken from here.
        entries: what it is to hold, parents first; see checkpoint_transfer.py.
        received: the paths of the files that stdin brings, in that order.
    Raises:
        ValueError: the entries or what was received are not as they should be.
        OSError: something cannot be written.
        EOFError: the stream ended too early.
    """
    by_path = {entry["path"]: entry for entry in entries}
    folders = [entry for entry in entries if entry["kind"] == "folder"]
    for entry in folders:
        if entry["path"]:
            with naming(entry["path"]):
                _in_parent(new, entry["path"], lambda at, name: os.mkdir(name, 0o700, dir_fd=at))
    for path in received:
        with naming(path):
            _receive(new, by_path[path])
        say_alive()
    # Not each as it comes: the sender of thousands would wait longer than it may for a write.
    _finish_files(new, [by_path[path] for path in received])
    for entry in entries:
        say_alive()
        with naming(entry["path"]):
            if entry["kind"] == "link":
                _make_link(new, entry)
            elif entry["from"] == "here":
                if old is None:
                    raise ValueError(f"{entry['path']}: it is not here any more")
                _take(new, old, entry)
    for entry in entries:
        if entry["same"] is None:
            continue
        same = entries[entry["same"]]["path"]
        if not _named_again(new, same, new, entry["path"]):
            _copied(new, same, new, entry)
    for entry in reversed(folders):  # the innermost first: what is in them changes their times
        _finish_folder(new, entry)


def read_exactly(count: int) -> bytes:
    """Return so many bytes of stdin, and read none behind them.

    Raises:
        EOFError: there are fewer.
    """
    found = bytearray()
    while len(found) < count:
        piece = os.read(0, count - len(found))
        if not piece:
            raise EOFError("it ended before all had come")
        found += piece
    return bytes(found)


def _receive(new: int, entry: Entry) -> None:
    """Write one file as stdin brings it."""
    file = _created(new, entry["path"])
    digest, unsynced = hashlib.sha256(), 0
    try:
        while True:
            offset, length = PIECE.unpack(read_exactly(PIECE.size))
            if length == 0:
                break
            if length > PIECE_BYTES or offset + length > entry["size"]:
                raise ValueError(f"{entry['path']}: more came than was told")
            piece = read_exactly(length)
            digest.update(piece)
            _write_all(file, piece, offset)
            unsynced += length
            if unsynced >= SYNC_BYTES:  # so that the last sync does not take minutes
                os.fdatasync(file)
                unsynced = 0
        if offset != entry["size"]:
            raise ValueError(f"{entry['path']}: expected {entry['size']} bytes, and {offset} came")
        if read_exactly(digest.digest_size) != digest.digest():
            raise ValueError(f"{entry['path']}: other bytes came than were sent")
        os.ftruncate(file, entry["size"])
    finally:
        os.close(file)


def _make_link(new: int, entry: Entry) -> None:
    to = entry["to"].encode("utf-8", "surrogateescape")

    def make(at: int, name: bytes) -> None:
        os.symlink(to, name, dir_fd=at)
        told_ns = (entry["mtime_ns"], entry["mtime_ns"])
        os.utime(name, ns=told_ns, dir_fd=at, follow_symlinks=False)

    _in_parent(new, entry["path"], make)


def _take(new: int, old: int, entry: Entry) -> None:
    """Take a file that lies here already; copy it where it can have no second name."""
    if not _named_again(old, entry["path"], new, entry["path"]):
        _copied(old, entry["path"], new, entry)
    _in_parent(new, entry["path"], lambda at, name: change_mode(at, name, entry["mode"]))


def _named_again(source: int, path: str, new: int, to: str) -> bool:
    """Give a file a second name; False if it cannot have one."""
    at, name = open_parent(source, path)
    into, second = open_parent(new, to)
    try:
        os.link(name, second, src_dir_fd=at, dst_dir_fd=into, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    finally:
        os.close(at)
        os.close(into)
    return True


def _copied(source: int, path: str, new: int, entry: Entry) -> None:
    reader, file = open_file(source, path), _created(new, entry["path"])
    try:
        offset = 0
        for piece in iter(lambda: os.read(reader, PIECE_BYTES), b""):
            if piece.strip(b"\0"):  # what is all zeros may be a hole
                _write_all(file, piece, offset)
            offset += len(piece)
            say_alive()
        os.ftruncate(file, entry["size"])
        _finish_file(file, entry)
    finally:
        os.close(reader)
        os.close(file)


def _created(new: int, path: str) -> int:
    return _in_parent(new, path, lambda at, name: os.open(name, _NEW, 0o600, dir_fd=at))


def _write_all(file: int, piece: bytes, offset: int) -> None:
    while piece:
        written = os.pwrite(file, piece, offset)
        piece, offset = piece[written:], offset + written


def _in_parent(top: int, path: str, do: Callable[[int, bytes], Done]) -> Done:
    """Do something with an entry in the open folder that holds it."""
    at, name = open_parent(top, path)
    try:
        return do(at, name)
    finally:
        os.close(at)


def _finish_files(new: int, entries: list[Entry]) -> None:
    """Sync files, several at a time: a file system commits them together.

    One after the other took 2.5 ms each on a disk where eight at a time took 0.2 ms.
    """

    def finish(entry: Entry) -> None:
        with naming(entry["path"]):
            file = open_file(new, entry["path"])
            try:
                _finish_file(file, entry)
            finally:
                os.close(file)

    if len(entries) <= SYNCS_AT_ONCE:
        for entry in entries:
            finish(entry)
            say_alive()
        return
    left, lock = iter(entries), threading.Lock()
    synced: list[Entry] = []
    failures: list[Exception] = []

    def finish_some() -> None:
        try:
            while not failures:
                with lock:
                    entry = next(left, None)
                if entry is None:
                    return
                finish(entry)
                synced.append(entry)
        except (OSError, ValueError) as error:
            failures.append(error)

    # Nothing is imported here: it may be with the rights of a user who cannot read our files.
    threads: list[threading.Thread] = []
    with suppress(RuntimeError):  # the user may have no more: then as many as there are
        while len(threads) < SYNCS_AT_ONCE:
            thread = threading.Thread(target=finish_some)
            thread.start()
            threads.append(thread)
    if not threads:
        finish_some()
    for thread in threads:
        while thread.is_alive():
            thread.join(ALIVE_LOOK_S)
            say_alive()
    if failures:
        raise failures[0]
    if len(synced) < len(entries):  # a thread has ended by an error of another kind
        raise OSError("not all files could be synced")


def _finish_file(file: int, entry: Entry) -> None:
    os.fchmod(file, entry["mode"] & MODE_BITS)
    os.utime(file, ns=(entry["mtime_ns"], entry["mtime_ns"]))
    os.fsync(file)


def _finish_folder(new: int, entry: Entry) -> None:
    def opened_in(at: int, name: bytes) -> int:
        return os.open(name, _FOLDER, dir_fd=at)

    path = entry["path"]
    folder = _in_parent(new, path, opened_in) if path else opened_in(new, b".")
    try:
        os.fsync(folder)
        os.fchmod(folder, entry["mode"] & MODE_BITS)
        os.utime(folder, ns=(entry["mtime_ns"], entry["mtime_ns"]))
    finally:
        os.close(folder)


# Lists of entries between a node and the daemon, as many small records with bounds in all:
#
#     {"folder": PATH, "entries": [[NAME, FIELD, …], …]}
#
# The top folder is "". Paths have a character for each byte (Latin-1), since one letter beyond
# Latin-1 makes Python use two or four bytes for each.

Text = TypeVar("Text", str, "str | None")
ENTRIES_MAX, PATH_BYTES_MAX = 100_000, 16 << 20
"""What a checkpoint may have, to be copied: files and folders in its folder, and bytes of all their
paths and of the targets of links."""
TOO_MUCH = (
    "it stays where it is: pack or remove files there and `shunter resume` the job, or have the"
    " servers share a folder for checkpoints (backend.ssh.checkpoints)"
)
RECORD_ENTRIES = 500
RECORD_TEXT_BYTES = 1 << 16
RECORD_BYTES_MAX = 4 << 20
LENGTH_BYTES = 4
END = (0).to_bytes(LENGTH_BYTES, "big")
"""Ends the records that a node is told."""


class TooMuchError(ValueError):
    """A folder has more than a checkpoint may; its text says of what."""


class ListBound:
    """Counts a list, and refuses it once it is larger than a checkpoint may be."""

    def __init__(self) -> None:
        self.entries_left = ENTRIES_MAX
        self._path_bytes_left = PATH_BYTES_MAX

    def add(self, path: str, to: str = "") -> None:
        """Count an entry by its path in a record, and by its target if it is a link.

        The folder itself, whose path is empty, counts as nothing.

        Raises:
            TooMuchError: it is one too many.
            ValueError: it is not as in a record.
        """
        self.entries_left -= 1 if path else 0
        self._path_bytes_left -= len(path.encode("latin-1")) + len(to.encode("latin-1"))
        if self.entries_left < 0:
            raise self.too_many()
        if self._path_bytes_left < 0:
            raise TooMuchError(
                f"paths and targets of links of more than {PATH_BYTES_MAX >> 20} MiB in all"
            )

    def too_many(self) -> TooMuchError:
        """Return what says that there are too many entries."""
        return TooMuchError(f"more than {ENTRIES_MAX:,} files and folders")


def recorded_path(path: str) -> str:
    """Return a path, or the target of a link, as it is in a record."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("latin-1")


def path_in_record(text: str) -> str:
    """Return the path that is in a record.

    Raises:
        ValueError: it is none.
    """
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")


def encoded_bytes(text: str) -> int:
    """Return how many bytes a text has in a record: up to six for a byte of a name."""
    return len(text) if text.isascii() and text.isprintable() else len(json.dumps(text))


def listings(rows: Iterable[tuple[str, list[object]]]) -> Iterator[dict[str, object]]:
    """Yield the records of a list of entries, in their order.

    Args:
        rows: of each entry its path, and the fields that are told of it.
    """
    folder, found, size = "", [], 0  # type: str, list[list[object]], int
    for path, fields in rows:
        parent, _, name = path.rpartition("/")
        length = sum(encoded_bytes(each) for each in (name, *fields) if isinstance(each, str))
        if found and (parent != folder or _is_full(found, size + length)):
            yield {"folder": folder, "entries": found}
            found, size = [], 0
        folder, size = parent, size + length
        found.append([name, *fields])
    if found:
        yield {"folder": folder, "entries": found}


def rows_of(listing: Mapping[str, Any]) -> Iterator[tuple[str, list[object]]]:
    """Yield the entries of a record: of each its path, and its fields."""
    folder = listing["folder"]
    for name, *fields in listing["entries"]:
        yield (f"{folder}/{name}" if folder else str(name)), fields


def pieces(items: Iterable[Text]) -> Iterator[list[Text]]:
    """Yield the parts of a list of paths or digests of which each fits in a record."""
    found, size = [], 0  # type: list[Text], int
    for item in items:
        length = encoded_bytes(item or "")
        if found and _is_full(found, size + length):
            yield found
            found, size = [], 0
        found.append(item)
        size += length
    if found:
        yield found


def _is_full(found: Sequence[object], size: int) -> bool:
    return len(found) == RECORD_ENTRIES or size > RECORD_TEXT_BYTES


def packed(record: Mapping[str, object]) -> bytes:
    """Return a record as it is told to a node: its length, and JSON."""
    content = json.dumps(record).encode()
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def unpacked(read_exactly: Callable[[int], bytes]) -> Iterator[dict[str, Any]]:
    """Yield the records that somebody tells, up to the end of them.

    Raises:
        ValueError: it is no record.
        EOFError: there is no end of them.
    """
    while True:
        length = int.from_bytes(read_exactly(LENGTH_BYTES), "big")
        if not length:
            return
        if length > RECORD_BYTES_MAX:
            raise ValueError("it is no list of files")
        yield json.loads(read_exactly(length))
