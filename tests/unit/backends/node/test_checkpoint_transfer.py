"""The verbs that send and receive checkpoints: damaged, cut off, killed, as another user.

They run on the oldest Python there is here, as they may on a host.
"""

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import hold
from shunter.backends.node.host import (
    DEPTH_MAX,
    END,
    ENTRIES_MAX,
    PATH_BYTES_MAX,
    PIECE,
    file_trees,
    packed,
    path_in_record,
    rows_of,
)
from tests.unit.backends.agents.test_zip_application import application, old_python

OLDEST = old_python() or sys.executable
SECRET = b"the secret of root"
NOISE = os.fsdecode(b"\xff" * 100) + "é" * 50  # 200 bytes in all


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can pass through."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        (Path(name) / "program.pyz").write_bytes(application())
        yield Path(name)


@pytest.fixture
def checkpoints(folder: Path) -> Path:
    """A folder with an old checkpoint."""
    place = folder / "job/checkpoints"
    place.mkdir(parents=True)
    (place / "old").write_text("old")
    return place


def verb(
    checkpoints: Path, name: str, *, user: str = "", crash: str = ""
) -> "subprocess.Popen[bytes]":
    """Begin a verb of the pushed file, which waits for its input."""
    program = checkpoints.parent.parent / "program.pyz"
    return subprocess.Popen(
        [OLDEST, "-I", "-S", str(program), name, str(checkpoints), user, "N"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "SHUNTER_CRASH": crash},
    )


def records(path: str, *before: list[object], size: int = 7) -> bytes:
    """Return what tells of a file that is sent, and of entries of the folder before it."""
    top = ["", "folder", 0o700, 10**18, 0, "", "", "", None]
    parent, _, name = path.rpartition("/")
    file = [name, "file", 0o600, 10**18, size, "", "", "stream", None]
    told: list[dict[str, object]] = [
        {"folder": "", "entries": [top, *before]},
        {"folder": parent, "entries": [file]},
        {"received": [path]},
        {"generation": 2},
    ]
    return b"".join(map(packed, told)) + END


def transfer(*parts: bytes, size: int = 7, digest: bytes | None = None) -> bytes:
    """Return what brings a file `new`, in pieces one after the other."""
    found, offset = bytearray(), 0
    for piece in parts:
        found += PIECE.pack(offset, len(piece)) + piece
        offset += len(piece)
    digest = hashlib.sha256(b"".join(parts)).digest() if digest is None else digest
    return records("new", size=size) + found + PIECE.pack(offset, 0) + digest


def answers(said: bytes) -> list[dict[str, Any]]:
    """Return what a verb has answered, one record after the other."""
    return [json.loads(line[2:]) for line in said.split(b"\n") if line.startswith(b"N ")]


def listed(checkpoints: Path, *, user: str = "") -> list[dict[str, Any]]:
    """Return what the verb that lists answers."""
    said, _ = verb(checkpoints, "manifest", user=user).communicate()
    return answers(said)


WHOLE = transfer(b"1234", b"567") + b"commit\n"


def names_in(place: Path) -> list[str]:
    return sorted(each.name for each in place.iterdir())


def names_beside(checkpoints: Path) -> list[str]:
    """Return what lies where a checkpoint does, but for the lock and the record about it."""
    inode = checkpoints.stat().st_ino
    known = {f"checkpoints.{kind}.{inode}" for kind in ("received", "whole")}
    return [
        name for name in names_in(checkpoints.parent) if name not in {"checkpoints.lock", *known}
    ]


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (transfer(b"damaged", digest=b"0" * 32) + b"commit\n", b"other bytes came than were sent"),
        (transfer(b"short") + b"commit\n", b"expected 7 bytes, and 5 came"),
        (transfer(b"too long") + b"commit\n", b"more came than was told"),
        (transfer(b"1234567")[:-3], b"it ended before all had come"),
        (b"\xff" * 64, b"it is no list of files"),
    ],
    ids=["damaged", "short", "long", "cut off", "noise"],
)
def test_checkpoint_that_was_damaged_on_its_way_is_not_taken(
    checkpoints: Path, content: bytes, cause: bytes
) -> None:
    """The verb that receives compares size and digest before anything is replaced."""
    said, _ = verb(checkpoints, "receive").communicate(content)
    assert cause in said
    assert names_in(checkpoints) == ["old"]
    assert names_beside(checkpoints) == ["checkpoints"]


def test_transfer_that_nobody_waits_for_any_more_replaces_nothing(checkpoints: Path) -> None:
    """Goal: who gave up on a transfer may count on it. Method: all comes, but no word to commit."""
    said, _ = verb(checkpoints, "receive").communicate(transfer(b"1234567"))
    assert b"ready" in said
    assert b"it ended before all had come" in said
    assert names_in(checkpoints) == ["old"]
    assert names_beside(checkpoints) == ["checkpoints"]
    said, _ = verb(checkpoints, "receive").communicate(WHOLE)
    assert names_in(checkpoints) == ["new"], said
    assert names_beside(checkpoints) == ["checkpoints"]


@pytest.mark.parametrize("struck", ["checkpoints committed", "checkpoints set aside"])
def test_transfer_killed_while_it_replaces_loses_neither_checkpoint(
    checkpoints: Path, struck: str
) -> None:
    """Goal: whoever looks next finds the old checkpoint, and the next transfer no pieces.

    Method: it dies between its two renames, or before them; then the folder is only read.
    """
    crash = f"{struck}:{checkpoints.parent.parent / 'struck'}"
    verb(checkpoints, "receive", crash=crash).communicate(WHOLE)
    assert (checkpoints.parent.parent / "struck").exists()
    entries, end = listed(checkpoints)
    assert [(each[0], each[-1]) for each in entries["entries"]] == [("", True), ("old", True)]
    assert not end["is_whole"]
    verb(checkpoints, "receive").communicate(WHOLE)
    assert names_in(checkpoints) == ["new"]
    assert names_beside(checkpoints) == ["checkpoints"]


def test_transfer_waits_for_the_one_before_it(checkpoints: Path) -> None:
    busy = hold(f"{checkpoints}.lock", 2)  # as one that is receiving holds it
    assert busy is not None
    waiting = verb(checkpoints, "receive")
    assert waiting.stdin is not None
    assert waiting.stdout is not None
    waiting.stdin.write(WHOLE)
    waiting.stdin.flush()
    assert waiting.stdout.read(1) == b"\n", "it says that it waits"
    assert names_in(checkpoints) == ["old"]
    os.close(busy)
    waiting.communicate()
    assert names_in(checkpoints) == ["new"]


@pytest.mark.needs("root")
@pytest.mark.parametrize("path", ["link", "d/secret", "unreadable"])
def test_nothing_of_root_is_read_through_what_a_user_has_put_there(
    checkpoints: Path, path: str
) -> None:
    """Goal: what was a file when it was listed may be anything by now. Method: it is.

    Read by root, each of them would tell the secret.
    """
    place = checkpoints.parent.parent / "of-root"
    place.mkdir(mode=0o700)
    for secret in (place / "secret", checkpoints / "unreadable"):
        secret.write_bytes(SECRET)
        secret.chmod(0o600)
    (checkpoints / "link").symlink_to(place / "secret")
    (checkpoints / "d").symlink_to(place)
    shutil.chown(checkpoints, "nobody")
    asked = packed({"paths": [path]}) + END
    streaming = verb(checkpoints, "stream", user="nobody")
    said, cause = streaming.communicate(asked)
    assert SECRET not in said
    assert streaming.returncode == 1, cause
    said, _ = verb(checkpoints, "digest", user="nobody").communicate(asked)
    assert answers(said) == [{"digests": [None]}, {"end": True}]


@pytest.mark.needs("root")
def test_what_arrives_is_its_users_from_the_first_byte(checkpoints: Path) -> None:
    """Goal: nobody can run or read a piece that is root's still. Method: a file half arrived."""
    shutil.chown(checkpoints, "nobody")
    receiving = verb(checkpoints, "receive", user="nobody")
    assert receiving.stdin is not None
    receiving.stdin.write(WHOLE[: WHOLE.index(b"567")])
    receiving.stdin.flush()
    incoming: list[Path] = []
    until_s = time.monotonic() + 20
    while not incoming and time.monotonic() < until_s:
        incoming = sorted(checkpoints.parent.glob("checkpoints.incoming.*/new"))
    found, above = incoming[0].stat(), incoming[0].parent.stat()
    assert (found.st_uid, above.st_uid) == (checkpoints.stat().st_uid,) * 2
    assert stat.S_IMODE(above.st_mode) == 0o700
    assert stat.S_IMODE(found.st_mode) == 0o600
    receiving.communicate(WHOLE[WHOLE.index(b"567") :])
    assert (checkpoints / "new").read_bytes() == b"1234567"


@pytest.mark.parametrize("path", ["../out", "/out", "d/../../out", "d//out", "d/out"])
def test_transfer_that_leads_out_of_the_folder_is_refused(checkpoints: Path, path: str) -> None:
    """`d` arrives as a link, and is not followed either."""
    out = checkpoints.parent / "out"
    link = ["d", "link", 0o777, 10**18, 0, "..", "", "", None]
    whole = records(path, link) + WHOLE[len(records("new")) :]
    said, _ = verb(checkpoints, "receive").communicate(whole)
    assert b"error" in said
    assert not out.exists()
    assert names_in(checkpoints) == ["old"]
    assert names_beside(checkpoints) == ["checkpoints"]


def test_paths_are_told_once_a_folder_and_come_back_as_they_were(checkpoints: Path) -> None:
    """Goal: the list of many files of one folder is short. Method: names beyond UTF-8 and JSON."""
    names = [b"caf\xe9-\xff\n", b'"\\', "é".encode(), "日\U0001f40d".encode(), b"plain"]
    within = "d" * 250 + "/" + os.fsdecode(b"\xff" * 250)
    (checkpoints / within).mkdir(parents=True)
    for name in names:
        (checkpoints / within / os.fsdecode(name)).touch()
    told = listed(checkpoints)
    paths = [path_in_record(path) for record in told[:-1] for path, _ in rows_of(record)]
    assert all(character <= "\xff" for record in told[:-1] for character in str(record))
    assert sorted(paths) == sorted(
        ["", "d" * 250, within, "old", *(f"{within}/{os.fsdecode(name)}" for name in names)]
    )
    assert [len(record["entries"]) for record in told[:-1] if "d" in record["folder"]] == [1, 5]


def chain(folder: Path, number: int) -> None:
    (folder / "/".join("d" * (number + 1))).mkdir()


@pytest.mark.parametrize(
    ("adds", "most", "cause"),
    [
        (lambda folder, number: (folder / str(number)).touch(), 20, "more than 20 files"),
        (lambda folder, number: os.mkfifo(folder / str(number)), 20, "more than 20 files"),
        (lambda folder, number: (folder / f"{NOISE}{number}").touch(), 19, "paths and targets of"),
        (lambda folder, number: (folder / str(number)).symlink_to(NOISE), 19, "paths and targets"),
        (chain, 10, "folders more than 10 deep"),
    ],
    ids=["files", "what is none", "long names", "targets of links", "depth"],
)
def test_folder_may_have_so_much_and_no_more(
    checkpoints: Path,
    monkeypatch: pytest.MonkeyPatch,
    adds: Callable[[Path, int], None],
    most: int,
    cause: str,
) -> None:
    """None is left out in silence, by bounds a thousandth as large, in bytes of UTF-8."""
    assert (ENTRIES_MAX, PATH_BYTES_MAX, DEPTH_MAX) == (100_000, 16 << 20, 200)
    for name, bound in (("ENTRIES_MAX", 20), ("PATH_BYTES_MAX", 4_000), ("DEPTH_MAX", 10)):
        monkeypatch.setattr(file_trees, name, bound)
    (checkpoints / "old").unlink()
    for number in range(most):
        adds(checkpoints, number)
    file_trees.entries_of(file_trees.opened(str(checkpoints)))
    adds(checkpoints, most)
    with pytest.raises(ValueError, match=cause):
        file_trees.entries_of(file_trees.opened(str(checkpoints)))


def test_what_may_not_be_copied_is_told_as_too_large_with_what_to_do(checkpoints: Path) -> None:
    (checkpoints / "/".join("d" * (DEPTH_MAX + 1))).mkdir(parents=True)
    (answer,) = listed(checkpoints)
    assert f"{checkpoints} has folders more than {DEPTH_MAX} deep" in answer["error"]
    assert "backend.ssh.checkpoints" in answer["error"]
    assert answer["is_too_large"] is True


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as somebody else")
def test_entry_that_cannot_be_read_is_named_by_its_whole_path(checkpoints: Path) -> None:
    closed = checkpoints / "d" / os.fsdecode(b"caf\xe9")
    closed.mkdir(parents=True, mode=0o700)
    shutil.chown(checkpoints, "nobody")
    (answer,) = listed(checkpoints, user="nobody")
    assert answer["error"] == f"{checkpoints}/d/caf\\xe9: Permission denied"


def test_file_that_is_gone_when_it_is_read_is_named_and_said_to_be_tried_again(
    checkpoints: Path,
) -> None:
    streaming = verb(checkpoints, "stream")
    _, said = streaming.communicate(packed({"paths": ["d/gone"]}) + END)
    expected = f"{checkpoints}/d/gone is not there any more: the folder changed while it was read"
    assert expected in said.decode()
    assert "tried again" in said.decode()


def test_file_that_goes_while_a_folder_is_listed_is_named(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: the names have been read when it goes."""
    monkeypatch.setattr(file_trees, "_names_in", lambda *_: [b"gone"])
    with pytest.raises(FileNotFoundError) as raised:
        file_trees.entries_of(file_trees.opened(str(checkpoints)))
    said = file_trees.said_error(raised.value, str(checkpoints))
    assert said.startswith(f"{checkpoints}/gone is not there any more: the folder changed")


def told_of(*paths: str, mode: int = 0o600) -> tuple[list[Any], io.BytesIO]:
    """Return what tells of empty files that are sent, and what is sent of them."""
    common: dict[str, Any] = {"mode": mode, "mtime_ns": 10**18, "size": 0, "to": "", "inode": ""}
    kind = {"kind": "file", "from": "stream", "same": None}
    sent = (PIECE.pack(0, 0) + hashlib.sha256().digest()) * len(paths)
    return [{**common, **kind, "path": path} for path in paths], io.BytesIO(sent)


def test_files_are_synced_when_all_have_come_and_before_the_folder_counts(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that syncs each as it comes keeps the sender of thousands waiting beyond its limit."""
    told, stream = told_of("a", "b", mode=0o200)
    steps, sync = list[int](), os.fsync

    def read(count: int) -> bytes:
        steps.append(count)
        return stream.read(count)

    def note_sync(file: int) -> None:
        steps.append(0)
        sync(file)

    monkeypatch.setattr(file_trees, "read_exactly", read)
    monkeypatch.setattr(os, "fsync", note_sync)
    file_trees.build(file_trees.opened(str(checkpoints)), None, told, ["a", "b"])
    assert stream.read() == b""
    assert steps == [PIECE.size, 32, PIECE.size, 32, 0, 0]
    assert [(checkpoints / path).stat().st_mode & 0o777 for path in "ab"] == [0o200] * 2


@pytest.mark.parametrize("can_start_threads", [True, False])
def test_file_of_many_that_is_not_synced_fails_the_transfer_and_without_threads_all_are(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch, *, can_start_threads: bool
) -> None:
    """The user may have no more threads than there are."""
    paths = [f"f{number}" for number in range(30)]
    told, stream = told_of(*paths)
    sync, synced = os.fsync, list[int]()

    def note_sync(file: int) -> None:
        synced.append(file)
        if len(synced) == len(paths) and can_start_threads:
            raise OSError(5, "the disk is gone")
        sync(file)

    def starts_none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(file_trees, "read_exactly", stream.read)
    monkeypatch.setattr(os, "fsync", note_sync)
    opened = file_trees.opened(str(checkpoints))
    if can_start_threads:
        with pytest.raises(OSError, match="the disk is gone"):
            file_trees.build(opened, None, told, paths)
        return
    monkeypatch.setattr(threading.Thread, "start", starts_none)
    file_trees.build(opened, None, told, paths)
    assert len(synced) == len(paths)
