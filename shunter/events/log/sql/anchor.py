"""The anchor: a small file beside a log that says up to where events were synced to the disk.

A commit is synced in the log, then written into the anchor, and only then acknowledged:

    log     … commit 41 ── commit 42 (synced)
    anchor  … commit 41 ───────────────────── commit 42 (written) ──▶ acknowledged ── synced

So an anchor that is behind its log is sound, and a log that ends before its anchor has lost events:
SQLite drops what follows a damaged place of a write-ahead log, and says nothing.

What was written outlives the process, whatever kills it. A power cut may take what is not synced,
which is done at once but not waited for: a commit waits for one sync, not two. The file has two
slots, written in turn, so that a write that was torn leaves the one before.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from threading import Event, Thread
from typing import Self

import orjson

from shunter.errors import LogDamagedError, LogError
from shunter.events.log.consistency import refuse_lost
from shunter.events.log.frames import CHAIN_BYTES, GENESIS, Head

SLOT_BYTES = 4096
SLOTS = 2
SUFFIX = ".anchor"

SYNC_EVERY_S = 0.2
"""At most so often: a disk that syncs for the anchor lets the log wait."""

_FRESH = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


def anchor_path(log: Path) -> Path:
    """Return where the anchor of a log lies."""
    return log.with_name(log.name + SUFFIX)


def read_anchor(log: Path) -> Head | None:
    """Return what the anchor of a log says; None if there is no anchor.

    Raises:
        LogDamagedError: neither slot holds what was written.
        LogError: it cannot be read.
    """
    path = anchor_path(log)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogError(f"the anchor {path} cannot be read: {error.strerror}") from error
    heads = [head for head in _slots(content) if head is not None]
    if not heads:
        raise LogDamagedError(
            f"the anchor {path} is damaged, so that it is not known whether its log is whole; "
            "move it away to go on without it"
        )
    return max(heads, key=lambda head: (head.term, head.seq))


def refuse_lost_whole(log: Path) -> None:
    """Raise LogDamagedError where there is no log, and an anchor says what one held."""
    anchor = read_anchor(log)
    if anchor is not None and anchor.seq:
        refuse_lost(str(log), anchor, Head(0, GENESIS, anchor.term))


class Anchor:
    """Writes the anchor of one log, while it is open for writing."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        self._turn = 0
        self._failed: OSError | None = None
        self._moved, self._closing = Event(), Event()
        self._thread = Thread(target=self._sync, name="anchor", daemon=True)
        self._thread.start()

    @classmethod
    def at(cls, log: Path, head: Head, mode: int | None) -> Self:
        """Make the anchor of a log, or replace it, with both slots at `head`.

        Raises:
            LogError: it cannot be written.
        """
        path = anchor_path(log)
        fresh = path.with_name(path.name + ".new")
        try:
            file = os.open(fresh, _FRESH, 0o666)
        except OSError as error:
            raise _failure(path, error) from error
        try:
            if mode is not None or log.exists():
                os.fchmod(file, log.stat().st_mode & 0o777 if mode is None else mode)
            os.pwrite(file, _slot(head) * SLOTS, 0)
            os.fsync(file)
            fresh.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            os.close(file)
            raise _failure(path, error) from error
        return cls(path, file)

    def move(self, head: Head) -> None:
        """Say that everything up to `head` is synced; this itself is synced right after.

        Raises:
            LogError: it cannot be written, or what was written before cannot be synced.
        """
        try:
            os.pwrite(self._file, _slot(head), self._turn * SLOT_BYTES)
        except OSError as error:
            self._failed = self._failed or error
        if self._failed is not None:
            raise _failure(self._path, self._failed) from self._failed
        self._turn = (self._turn + 1) % SLOTS
        self._moved.set()

    def close(self) -> None:
        """Sync it, and let go of the file, which stays."""
        self._closing.set()
        self._moved.set()
        self._thread.join()
        with suppress(OSError):  # what is not synced is behind, at worst
            os.fdatasync(self._file)
        os.close(self._file)

    def _sync(self) -> None:
        """Sync what was written, again and again; many moves make one sync."""
        while not self._closing.is_set():
            self._moved.wait()
            self._moved.clear()
            try:
                os.fdatasync(self._file)
            except OSError as error:
                self._failed = self._failed or error
            self._closing.wait(SYNC_EVERY_S)


def _slots(content: bytes) -> Sequence[Head | None]:
    return [
        _head_in(content[place * SLOT_BYTES : (place + 1) * SLOT_BYTES]) for place in range(SLOTS)
    ]


def _slot(head: Head) -> bytes:
    """Return a slot: a line of JSON, filled up with spaces."""
    said = {"seq": head.seq, "chain": head.chain.hex(), "term": head.term}
    line = orjson.dumps({**said, "digest": _digest(head)})
    return line.ljust(SLOT_BYTES - 1) + b"\n"


def _head_in(slot: bytes) -> Head | None:
    try:
        said = orjson.loads(slot)
        head = Head(said["seq"], bytes.fromhex(said["chain"]), said["term"])
        is_whole = said["digest"] == _digest(head) and slot == _slot(head)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    return head if is_whole and len(head.chain) == CHAIN_BYTES else None


def _digest(head: Head) -> str:
    text = orjson.dumps([head.seq, head.chain.hex(), head.term])
    return blake2b(text, digest_size=16).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _failure(path: Path, error: OSError) -> LogError:
    return LogError(f"the anchor {path} cannot be written: {error.strerror}")
