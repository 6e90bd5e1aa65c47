"""Whose a scheduler's folder is, with all that it lies in, before anything is put there."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.backends.live import digest, installer
from shunter.backends.node.host import unsafe
from tests.unit.backends.agents.test_zip_application import old_python

ROOT_ONLY = pytest.mark.needs("root")
STRANGER = 65_533


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody can pass through, below one where all may make files."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def test_own_folder_below_one_with_the_sticky_bit_is_safe(place: Path) -> None:
    assert unsafe(str(place)) == ""
    assert unsafe(str(place / "not/made/yet")) == ""
    assert unsafe("/") == ""


def test_folder_in_which_all_may_make_files_is_not(place: Path) -> None:
    for mode in (0o1777, 0o777, 0o733):
        place.chmod(mode)
        assert unsafe(str(place)) == f"everybody may write to {place} (mode {mode:04o})"
    place.chmod(0o1777)
    assert unsafe(str(place / "base")) == ""  # ours, once we have made it
    place.chmod(0o777)
    assert "everybody may write to" in unsafe(str(place / "base"))


@ROOT_ONLY
def test_folder_or_parent_of_somebody_else_is_not(place: Path) -> None:
    base = place / "theirs/base"
    base.mkdir(parents=True)
    os.chown(base.parent, STRANGER, STRANGER)
    for path in (base, base.parent, base.parent / "not/made/yet"):
        assert unsafe(str(path)) == f"{base.parent} belongs to user {STRANGER}"
    os.chown(base.parent, 0, 0)
    os.chown(base, STRANGER, STRANGER)
    assert unsafe(str(base)) == f"{base} belongs to user {STRANGER}"


@ROOT_ONLY
def test_folder_of_a_group_is_not_unless_the_group_is_its_owners_own(place: Path) -> None:
    place.chmod(0o770)
    assert unsafe(str(place)) == ""  # group root, of which nobody else is
    os.chown(place, 0, STRANGER)
    assert unsafe(str(place)) == f"the group {STRANGER} may write to {place} (mode 0770)"


@ROOT_ONLY
def test_links_are_followed_as_the_kernel_does_and_must_be_ours(place: Path) -> None:
    (place / "real/inner").mkdir(parents=True)
    (place / "ours").symlink_to("real/inner")
    (place / "theirs").symlink_to(place / "real/inner")
    os.lchown(place / "theirs", STRANGER, STRANGER)
    assert unsafe(str(place / "ours/base")) == ""
    assert unsafe(str(place / "theirs/base")) == f"{place}/theirs is a link of user {STRANGER}'s"
    (place / "ours-to-theirs").symlink_to("real/../theirs")
    assert "theirs is a link of" in unsafe(str(place / "ours-to-theirs"))
    (place / "loop").symlink_to("loop")
    assert "loop is a link of" in unsafe(str(place / "loop"))
    os.chown(place / "real", STRANGER, STRANGER)
    assert unsafe(str(place / "ours/base")) == f"{place}/real belongs to user {STRANGER}"


CONTENT = b"content"


def installed(base: Path, content: bytes = CONTENT) -> str:
    """Run the installer of `CONTENT` as a host does that gets this of it; return the answer."""
    program = installer()
    begin = "import sys;exec(sys.stdin.buffer.read(int(sys.argv[1])))"
    words = ["-I", "-S", "-c", begin, str(len(program)), "install", str(base), digest(CONTENT), "N"]
    ran = subprocess.run(
        [old_python() or sys.executable, *words],
        input=program + content,
        capture_output=True,
        check=True,
        umask=0,
    )
    return ran.stdout.decode()


def test_file_is_put_there_whole_and_again_if_it_is_another(place: Path) -> None:
    base = place / "not/made/yet"
    path = base / f"shunter-{digest(CONTENT)}.pyz"
    assert f'"path": "{path}"' in installed(base)
    for strange in (b"CONTENT", b"", b"longer content"):
        path.write_bytes(strange)
        assert f'"path": "{path}"' in installed(base)
        assert path.read_bytes() == CONTENT
    path.chmod(0o666)
    inode = path.stat().st_ino
    installed(base)
    assert path.stat().st_ino != inode
    assert sorted(base.iterdir()) == [path]
    modes = [each.stat().st_mode & 0o7777 for each in (path, base, base.parent, base.parent.parent)]
    assert modes == [0o600, 0o711, 0o711, 0o711]


def test_file_stays_whole_when_who_sends_another_is_killed_halfway(place: Path) -> None:
    """What a daemon has sent when it dies may be read after the next daemon's is there."""
    path = place / f"shunter-{digest(CONTENT)}.pyz"
    installed(place)
    for came in (CONTENT[:3], b""):
        assert f'"cut": {len(came)}' in installed(place, came)
        assert path.read_bytes() == CONTENT
    path.unlink()
    assert '"cut": 3' in installed(place, CONTENT[:3])
    assert sorted(place.iterdir()) == []


@ROOT_ONLY
def test_nothing_is_written_to_a_folder_that_is_not_safe(place: Path) -> None:
    base = place / "base"
    base.mkdir()
    shutil.chown(base, STRANGER)
    assert '"unsafe"' in installed(base)
    assert sorted(base.iterdir()) == []
