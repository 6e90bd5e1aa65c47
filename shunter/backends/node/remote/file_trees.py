"""A folder of files as a list of entries, and as a stream: read and built without following links.

Every name is looked up in the open folder that holds it (openat), and none is followed if it is a
link, so that no entry leads out of the folder whatever its owner puts there. An entry is

    {"path", "kind": "folder" | "file" | "link", "mode", "mtime_ns", "size", "to", "inode"}

with paths relative to the folder, "" for itself, parents first. Names that are no UTF-8 keep their
bytes (surrogateescape). `inode` is told of files with several names only. What is neither a folder,
a file nor a link is no part of it. Bits of a mode that give rights (setuid, setgid, sticky) are
not told.

A file is streamed as pieces that hold data, so that holes stay holes: each is preceded by PIECE
(offset, length); one of length 0 at the file's size ends it, and is followed by the SHA-256 of all
pieces. Only the standard library of Python 3.8 or later.
"""

# Paths are bytes, as the kernel has them.
# ruff: noqa: PTH101, PTH208

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
import sys
import time
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from shunter.backends.node.remote.entry_lists import ListBound, TooMuchError, recorded_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shunter.backends.node.messages.wire import Entry, Kind

PIECE = struct.Struct(">QI")
PIECE_BYTES = 1 << 20
DEPTH_MAX = 200
_KINDS: dict[int, Kind] = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
MODE_BITS = 0o777
ALIVE_S = 1.0
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO keeps nobody waiting
_said_s = [time.monotonic()]


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


def opened(path: str) -> int:
    """Open a folder, not through a link, without a right to read it."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


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


def digest_of(top: int, path: str) -> str:
    """Return the SHA-256 of a file: of its size, its data, and where that is.

    A hole costs nothing, however large: a terabyte of zeros would take hours to read.
    """
    digest = hashlib.sha256()
    file = open_file(top, path)
    try:
        size = os.fstat(file).st_size
        for begin, end in _extents(file, size):
            digest.update(PIECE.pack(begin, 0))
            offset = begin
            while offset < end:
                piece = os.pread(file, min(PIECE_BYTES, end - offset), offset)
                if not piece:
                    break
                digest.update(piece)
                offset += len(piece)
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
        size = os.fstat(file).st_size
        for begin, end in _extents(file, size):
            offset = begin
            while offset < end:
                piece = os.pread(file, min(PIECE_BYTES, end - offset), offset)
                if not piece:
                    break  # it became shorter: its size will not be the one that was told
                digest.update(piece)
                write(PIECE.pack(offset, len(piece)))
                write(piece)
                offset += len(piece)
        write(PIECE.pack(os.fstat(file).st_size, 0))
        write(digest.digest())
    finally:
        os.close(file)


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
    folder, name = open_parent(top, path)
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
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
    names = sorted(os.fsencode(each.name) for each in islice(os.scandir(folder), most))
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


def _extents(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Return where a file holds data; all of it where the file system does not tell."""
    offset = 0
    while offset < size:
        try:
            begin = os.lseek(file, offset, os.SEEK_DATA)
            end = os.lseek(file, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # nothing but a hole up to the end
            begin, end = offset, size
        yield begin, min(end, size)
        offset = end
