"""The verbs that send and receive checkpoints: damaged, cut off, killed, as another user.

They run on the oldest Python there is here, as they may on a host.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.backends.agents.zip_application import zip_application
from shunter.backends.node.records import hold
from shunter.backends.node.remote.file_trees import PIECE
from tests.unit.backends.agents.test_zip_application import old_python

OLDEST = old_python() or sys.executable
SECRET = b"the secret of root"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can pass through."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        (Path(name) / "program.pyz").write_bytes(zip_application())
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


def transfer(*pieces: bytes, size: int = 7, digest: bytes | None = None) -> bytes:
    """Return what brings a file `new`, in pieces one after the other."""
    about = {"mode": 0o600, "mtime_ns": 10**18, "to": "", "inode": "", "same": None}
    top = {**about, "path": "", "kind": "folder", "mode": 0o700, "size": 0, "from": ""}
    file = {**about, "path": "new", "kind": "file", "size": size, "from": "stream"}
    told = {"generation": 2, "entries": [top, file], "received": ["new"]}
    found, offset = bytearray(), 0
    for piece in pieces:
        found += PIECE.pack(offset, len(piece)) + piece
        offset += len(piece)
    digest = hashlib.sha256(b"".join(pieces)).digest() if digest is None else digest
    record = json.dumps(told).encode()
    return len(record).to_bytes(8, "big") + record + found + PIECE.pack(offset, 0) + digest


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
        (b"\xff" * 64, b"it is no transfer"),
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
    said, _ = verb(checkpoints, "manifest").communicate()
    told = json.loads(said.split(b" ", 1)[1])
    assert [(each["path"], each["changed"]) for each in told["entries"]] == [
        ("", True),
        ("old", True),
    ]
    assert not told["is_whole"]
    verb(checkpoints, "receive").communicate(WHOLE)
    assert names_in(checkpoints) == ["new"]
    assert names_beside(checkpoints) == ["checkpoints"]


def test_transfer_waits_for_the_one_before_it(checkpoints: Path) -> None:
    busy = hold(f"{checkpoints}.lock", 2)  # as one that is receiving holds it
    assert busy is not None
    waiting = verb(checkpoints, "receive")
    assert waiting.stdin is not None
    waiting.stdin.write(WHOLE)
    waiting.stdin.flush()
    time.sleep(1.0)
    assert names_in(checkpoints) == ["old"]
    assert waiting.poll() is None
    os.close(busy)
    waiting.communicate()
    assert names_in(checkpoints) == ["new"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as somebody else")
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
    asked = json.dumps({"paths": [path]}).encode()
    streaming = verb(checkpoints, "stream", user="nobody")
    said, cause = streaming.communicate(asked)
    assert SECRET not in said
    assert streaming.returncode == 1, cause
    said, _ = verb(checkpoints, "digest", user="nobody").communicate(asked)
    assert json.loads(said.split(b" ", 1)[1]) == {"digests": {}}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as somebody else")
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
    content = WHOLE[8 : 8 + int.from_bytes(WHOLE[:8], "big")]
    told = json.loads(content)
    told["entries"][1]["path"] = told["received"][0] = path
    link = {**told["entries"][1], "path": "d", "kind": "link", "to": "..", "from": ""}
    told["entries"].insert(1, link)
    changed = json.dumps(told).encode()
    whole = len(changed).to_bytes(8, "big") + changed + WHOLE[8 + len(content) :]
    said, _ = verb(checkpoints, "receive").communicate(whole)
    assert b"error" in said
    assert not out.exists()
    assert names_in(checkpoints) == ["old"]
    assert names_beside(checkpoints) == ["checkpoints"]
