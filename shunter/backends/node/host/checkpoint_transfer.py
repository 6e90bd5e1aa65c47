"""A job's checkpoints as they leave one node and arrive on another, as the job's user.

    python3 -I -S FILE manifest FOLDER USER NONCE             every entry, and what is new in it
    python3 -I -S FILE digest FOLDER USER NONCE < PATHS       the SHA-256 of some files
    python3 -I -S FILE stream FOLDER USER NONCE < PATHS       these files as a stream
    python3 -I -S FILE receive FOLDER USER NONCE < TRANSFER   build the folder, and replace it

Where a process of root is asked, it becomes USER before it opens anything in FOLDER, so links and
modes in there give nobody more than that user has. Entries and streams are those of file_trees.py.

Lists are small records (file_trees.py). `manifest` answers entries with LISTED of each,
then {"gone"} with paths that are there no more, then the generation. `digest` answers {"digests"}
in the order of what was asked, null for a file that cannot be read. PATHS are records {"paths"}.
TRANSFER are records with TRANSFERRED of each entry, {"received"} and {"generation"}, and after
their end the files `received` as one stream after the other. Of an entry `from` is "stream", "here"
(the file of that path that lies here already) or "", and `same` is the number of an entry before
it that is the same file under another name, from 0, or null. What arrives is built in a folder of
its own, then "ready" is answered, and only the line "commit" has it take the place of what was
there: a scheduler that has given up in the meantime has sent none. Whatever fails, nothing is left
of what arrived: {"error"} is answered, with "is_too_large" where there is more than is copied.

`FOLDER.received.INODE` has the generation of the last transfer, and how every entry was then: so a
gang's checkpoint is put together of the files each rank wrote since. It counts for the folder with
that inode only. Until an attempt begins it is `FOLDER.whole.INODE`: all ranks' files are here.

One transfer at a time holds `FOLDER.lock`; readers and starts of attempts share it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from shunter.backends.node.host.accounts import account, as_user, become
from shunter.backends.node.host.checkpoint_folders import finish_swap, make_private, record_of
from shunter.backends.node.host.file_trees import (
    TOO_MUCH,
    ListBound,
    TooMuchError,
    build,
    digest_of,
    empty,
    entries_of,
    listings,
    opened,
    path_in_record,
    pieces,
    read_exactly,
    recorded_path,
    rows_of,
    said_error,
    say_alive,
    unpacked,
    write_file,
)
from shunter.backends.node.records import failpoint, hold, own_folder, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from shunter.backends.node.host.file_trees import Entry
    from shunter.backends.node.messages import User

    Answer = Mapping[str, object]

COMMIT = b"commit\n"
_FILE = ("kind", "mode", "mtime_ns", "size", "to", "inode")
LISTED, TRANSFERRED = (*_FILE, "changed"), (*_FILE, "from", "same")
"""What is told of an entry, in this order: from a node, and to it."""
REMOVE_S = 60.0


def manifest(folder: str, name: str, nonce: str) -> Answer:
    """Return the entries of a folder, and which are new since the last transfer."""
    return _answered(nonce, folder, lambda: _listed(folder, name, nonce))


def digest(folder: str, name: str, nonce: str) -> Answer:
    """Return the digests of the files that stdin names, if they can be read."""

    def work() -> Answer:
        paths = list(_paths_asked_for())  # nobody waits to tell the rest while a large file is read
        top, found = _opened_as(folder, name), []  # type: int, list[str | None]
        for path in paths:
            try:
                found.append(digest_of(top, path))
            except (OSError, ValueError):
                found.append(None)  # it is sent, or is said to be unreadable then
        _say_each(nonce, ({"digests": part} for part in pieces(found)))
        return {"end": True}

    return _answered(nonce, folder, work)


def stream(folder: str, name: str, nonce: str) -> Answer:
    """Stream the files that stdin names, and end without another word."""
    try:
        paths = list(_paths_asked_for())
        top = _opened_as(folder, name)
        sys.stdout.write(f"\n{nonce} ")
        sys.stdout.flush()
        for path in paths:
            write_file(top, path, sys.stdout.buffer.write)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        sys.exit(said_error(error, folder))
    sys.exit(0)


def receive(folder: str, name: str, nonce: str) -> Answer:
    """Make a folder hold what stdin tells, or change nothing and say why."""
    return _answered(nonce, folder, lambda: _received(folder, account(name), nonce))


def _signature(entry: Entry) -> list[object]:
    """Return by what it is told that an entry is another one than before."""
    told: dict[str, list[object]] = {
        "file": [entry["size"], entry["mtime_ns"]],
        "link": [entry["to"]],
        "folder": [entry["mode"]],
    }
    return [entry["kind"], *told[entry["kind"]]]


def _listed(folder: str, name: str, nonce: str) -> Answer:
    """Say the entries; return since which transfer they tell changes."""
    nothing = {"generation": 0, "is_whole": False}
    if not os.path.isdir(os.path.dirname(folder)):
        return nothing
    held = _hold_alone(folder)
    finish_swap(folder)
    fcntl.flock(held, fcntl.LOCK_SH)
    if not os.path.lexists(folder):
        return nothing
    whole = _read_record(folder, "whole")
    before = whole or _read_record(folder, "received") or {"generation": 0, "entries": {}}
    entries, known = entries_of(_opened_as(folder, name)), before["entries"]
    for entry in entries:
        entry["changed"] = known.get(entry["path"]) != _signature(entry)
    gone = sorted(known.keys() - {entry["path"] for entry in entries})
    for entry in entries:
        entry["to"] = recorded_path(entry["to"])
    _say_each(
        nonce, listings((recorded_path(entry["path"]), fields_of(entry)) for entry in entries)
    )
    _say_each(nonce, ({"gone": part} for part in pieces(map(recorded_path, gone))))
    return {"generation": before["generation"], "is_whole": bool(whole)}


def fields_of(entry: Mapping[str, Any]) -> list[object]:
    """Return what is told of an entry beside its path."""
    return [entry[name] for name in LISTED]


def _received(folder: str, user: User | None, nonce: str) -> Answer:
    own_folder(os.path.dirname(folder))
    held = _hold_alone(folder)
    finish_swap(folder)
    _drop_leftovers(folder, user)
    incoming = f"{folder}.incoming.{os.getpid()}.{time.monotonic_ns()}"
    make_private(incoming, user)
    try:
        new = opened(incoming)
        old = opened(folder) if os.path.lexists(folder) else None
        built = as_user(user, lambda: _guarded(folder, lambda: _built(new, old)), None)
        if "error" in built:
            return built
        failpoint("checkpoints built")
        _say_aside(nonce, {"ready": True})
        if read_exactly(len(COMMIT)) != COMMIT:
            return {"error": "it was not to be kept"}
        # By its inode it is known which folder a record is about, whenever we are interrupted.
        put(f"{folder}.whole.{os.lstat(incoming).st_ino}", built)
        failpoint("checkpoints committed")
        _swap(folder, incoming)
        failpoint("checkpoints swapped")
        return {}
    finally:
        _drop_leftovers(folder, user)
        os.close(held)


def _built(new: int, old: int | None) -> Answer:
    entries: list[Entry] = []
    received: list[str] = []
    generation, bound = 0, ListBound()
    for record in unpacked(read_exactly):
        if "entries" in record:
            for path, fields in rows_of(record):
                told: Any = dict(zip(TRANSFERRED, fields))
                bound.add(path, told["to"])
                told["to"] = path_in_record(told["to"])
                entry: Any = {"path": path_in_record(path), **told}
                entries.append(entry)
        received += map(path_in_record, record.get("received", []))
        generation = record.get("generation", generation)
    build(new, old, entries, received)
    signed = {entry["path"]: _signature(entry) for entry in entries_of(new)}
    return {"generation": generation, "entries": signed}


def _paths_asked_for() -> Iterator[str]:
    """Yield the paths that stdin names."""
    bound = ListBound()
    for record in unpacked(read_exactly):
        for path in record["paths"]:
            bound.add(path)
            yield path_in_record(path)


def _opened_as(folder: str, name: str) -> int:
    """Open a folder, and be from then on the user whose it is."""
    top = opened(folder)
    become(account(name))
    return top


def _hold_alone(folder: str) -> int:
    """Wait until nobody else changes or reads a folder; keep others out from then on."""
    while True:
        held = hold(f"{folder}.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if held is not None:
            return held
        say_alive()
        time.sleep(0.05)


def _swap(folder: str, incoming: str) -> None:
    if os.path.lexists(folder):
        os.rename(folder, f"{folder}.old")
        failpoint("checkpoints set aside")
    os.rename(incoming, folder)


def _read_record(folder: str, kind: str) -> dict[str, Any] | None:
    """Return a record about a folder, of any size; None if there is none.

    It has the `generation` of a transfer, and how its `entries` were then, by path.
    """
    try:
        with open(record_of(folder, kind), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except (FileNotFoundError, ValueError):
        return None
    return found


def _drop_leftovers(folder: str, user: User | None) -> None:
    """Remove what transfers have left, and records of folders that are gone."""
    where, _, name = folder.rpartition("/")
    kinds = ("received", "whole")
    kept = [record_of(folder, kind) for kind in kinds] if os.path.lexists(folder) else []
    for left in sorted(os.listdir(where)):
        path = f"{where}/{left}"
        if left.startswith(tuple(f"{name}.{kind}." for kind in kinds)) and path not in kept:
            os.unlink(path)
        elif left == f"{name}.old" or left.startswith(f"{name}.incoming."):
            _remove_folder(path, user, f"{folder}.left.{time.monotonic_ns()}")


def _remove_folder(path: str, user: User | None, aside: str) -> None:
    """Remove a folder: what is in it as its user, then its name, which is ours."""
    top = opened(path)
    try:
        as_user(user, lambda: empty(top), REMOVE_S)
        os.rmdir(path)
    except OSError:  # not even its user may remove all that is in it
        os.rename(path, aside)
    finally:
        os.close(top)


def _answered(nonce: str, folder: str, work: Callable[[], Answer]) -> Answer:
    found = _guarded(folder, work)
    sys.stdout.write(f"\n{nonce} ")
    return found


def _guarded(folder: str, work: Callable[[], Answer]) -> Answer:
    """Return the answer of work, or why it failed."""
    try:
        return work()
    except TooMuchError as error:
        return {"error": f"{folder} has {error}; {TOO_MUCH}", "is_too_large": True}
    except (OSError, ValueError, EOFError) as error:
        return {"error": said_error(error, folder)}


def _say_aside(nonce: str, record: Answer) -> None:
    sys.stdout.write(f"\n{nonce} {json.dumps(record)}\n")
    sys.stdout.flush()


def _say_each(nonce: str, records: Iterable[Answer]) -> None:
    for record in records:
        _say_aside(nonce, record)
