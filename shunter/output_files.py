"""Files that a command writes: looked at before its work, and replaced only by whole ones.

A file is written under another name in its folder, synced, and renamed: a full disk leaves the old
one. What is no plain file (a terminal, a pipe, a device) is written in place; our own output is
appended to, in the order of all that is printed.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO

from shunter.errors import ShunterError, UsageError

_STREAMS = (0, 1, 2)


def check_target(path: Path | None, log: str = "", inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a file that cannot be written, before the work; None: there is none.

    Args:
        path: the file.
        log: the address of the log that the command reads or writes, if it does.
        inputs: other files that it reads or writes.
    Raises:
        UsageError: its folder does not exist, no file can be made there, it is a folder itself, it
            belongs to the log, or is one of the others.
    """
    if path is None:
        return
    try:
        refuse_same(path, log, inputs)
        if path.is_dir() or not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: name a file in a folder that exists")
        if _is_replaced(path):
            file, temporary = _made_beside(path)
            os.close(file)
            temporary.unlink()
        elif not os.access(path, os.W_OK):
            raise UsageError(f"cannot write {path}: you may not; name another file")
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}; name a file in a folder that you may write"
        ) from error


def refuse_same(path: Path, log: str = "", inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a file of a log, or another one of the command, by any name.

    Raises:
        UsageError: it is.
    """
    if path.exists() and not path.is_file():
        return  # a terminal may be what is read, too
    for number, each in enumerate(_files_of(log)):
        if _are_same(path, each):
            what = f"it belongs to the log {log}" if number else "it is the log itself"
            raise UsageError(f"cannot write {path}: {what}; name another file")
    for named in inputs:
        if _are_same(path, Path(named)):
            raise UsageError(
                f"cannot write {path}: this command needs {named} itself; name another file"
            )


def made_folder(folder: Path) -> None:
    """Make a folder for files, if there is none; that above it must exist.

    Raises:
        UsageError: there is something else of that name, or none can be made there.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}; name a folder, or a new one in a folder "
            "that exists"
        ) from error


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a text file to write, which takes its place once it is whole.

    That is when the block ends without an error. Line feeds are written as they are given.

    Raises:
        ShunterError: it cannot be written; what was there is unchanged.
    """
    with replacing_bytes(path) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        yield text
        text.detach()


@contextmanager
def replacing_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write, as `replacing` does."""
    try:
        if not _is_replaced(path):
            with _opened_in_place(path) as in_place:
                yield in_place
            return
        number, temporary = _made_beside(path)
        try:
            with os.fdopen(number, "wb") as file:
                yield file
                file.flush()
                os.fsync(number)
            temporary.replace(path.resolve())
        finally:
            with suppress(OSError):  # it is where it belongs
                temporary.unlink()
    except OSError as error:
        raise ShunterError(f"cannot write {path}: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    """Make a text the content of a file, or leave the file as it is.

    Raises:
        ShunterError: it cannot be written.
    """
    with replacing(path) as file:
        file.write(text)


def _files_of(log: str) -> Iterable[Path]:
    """Return the files of a log, by its address; that itself first."""
    if not log:
        return ()
    from shunter.events.log import files_of

    return dict.fromkeys(each.resolve() for each in files_of(log))


def _are_same(one: Path, other: Path) -> bool:
    """Say whether two names are of one file, by links of either kind, too."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _is_replaced(path: Path) -> bool:
    """Say whether another file may take its place.

    Our own output may be a file, too.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and not any(_is_stream(found, each) for each in _STREAMS)


def _opened_in_place(path: Path) -> BinaryIO:
    """Open what is no plain file; our own output goes on where it is."""
    found = path.stat()
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        if _is_stream(found, number):
            stream.flush()
            return os.fdopen(os.dup(number), "wb")
    return path.open("wb")


def _is_stream(found: os.stat_result, number: int) -> bool:
    with suppress(OSError):  # it may be closed
        return os.path.samestat(found, os.fstat(number))
    return False


def _made_beside(path: Path) -> tuple[int, Path]:
    """Make an empty file beside another, with the permissions of that; open it."""
    target = path.resolve()
    temporary = target.with_name(f".shunter-{os.urandom(4).hex()}.new")
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with suppress(OSError):  # there is none, or the file system has no permissions
        os.fchmod(number, stat.S_IMODE(target.stat().st_mode))
    return number, temporary
