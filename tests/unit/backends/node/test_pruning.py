"""What is removed of jobs that have ended: no more than theirs, through no link, as their user."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.backends.node import MARK, SEAL, hold, seal
from shunter.backends.node.host import by_age, remove_attempts

SOMEBODY = 65_533  # a user id that nobody has


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job with one attempt, below a root that others can pass through."""
    return made_in(tmp_path / "jobs/j1")


def made_in(folder: Path) -> Path:
    (folder / "1").mkdir(parents=True)
    for name in ("started", "status", "stdout.0"):
        (folder / "1" / name).write_text("{}")
    os.mkfifo(folder / "1/channel")
    return folder


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of somebody else's with a file in it."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis").write_text("years")
    return folder


def removed(root: Path, *jobs: str) -> int:
    found = remove_attempts(str(root), [*jobs])
    assert found["error"] == ""
    return int(found["removed"])


def test_attempts_go_and_the_empty_folder_with_them(tmp_path: Path, job: Path) -> None:
    (job / "2").mkdir()
    (job / "fence").write_text("{}")
    (job / "checkpoints").mkdir()
    (job / "checkpoints.lock").write_text("")
    assert removed(tmp_path, "j1") == 2
    assert not job.exists()


def test_checkpoints_stay_with_all_that_belongs_to_them(tmp_path: Path, job: Path) -> None:
    (job / "checkpoints").mkdir()
    (job / "checkpoints/model").write_text("weights")
    (job / "checkpoints.lock").write_text("")
    assert removed(tmp_path, "j1") == 1
    assert sorted(path.name for path in job.iterdir()) == ["checkpoints", "checkpoints.lock"]
    assert (job / "checkpoints/model").read_text() == "weights"


@pytest.mark.parametrize(
    ("place", "count"),
    [
        *(("jobs/j1/1/link", 1), ("jobs/j1/1/deep/link", 1)),
        *(("jobs/j1/2", 1), ("jobs/j1/3.gone", 1), ("jobs/j1", 0), ("jobs", 0)),
    ],
)
def test_links_are_never_followed(tmp_path: Path, precious: Path, place: str, count: int) -> None:
    """In an attempt they are removed, and left alone in place of an attempt, a job or all jobs."""
    (precious / "1").mkdir()
    (precious / "j1/1").mkdir(parents=True)
    if count:
        made_in(tmp_path / "jobs/j1").joinpath("1/hard").hardlink_to(precious / "thesis")
    link = tmp_path / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(precious)
    assert removed(tmp_path, "j1") == count
    assert link.is_symlink() is not place.endswith("link")
    assert sorted(path.name for path in precious.iterdir()) == ["1", "j1", "thesis"]
    assert (precious / "j1/1").is_dir()
    assert (precious / "thesis").read_text() == "years"


@pytest.mark.parametrize("name", ["../precious", "..", ".", "", "j1/../../precious"])
def test_name_cannot_leave_the_folder_of_jobs(
    tmp_path: Path, job: Path, precious: Path, name: str
) -> None:
    (precious / "1").mkdir()
    assert removed(tmp_path, name) == 0
    assert (precious / "1").is_dir()
    assert (job / "1").is_dir()


@pytest.mark.parametrize("lock", ["lock", "ranks.lock"])
def test_attempt_whose_locks_are_held_stays(tmp_path: Path, job: Path, lock: str) -> None:
    (job / "1/status").unlink()
    held = hold(str(job / "1" / lock), 2)
    assert held is not None
    assert removed(tmp_path, "j1") == 0
    os.close(held)
    assert removed(tmp_path, "j1") == 1


def test_attempt_with_a_process_that_carries_its_mark_stays(tmp_path: Path, job: Path) -> None:
    folder = str(job / "1")
    marked = {**os.environ, MARK: folder, SEAL: seal(str(tmp_path), folder, os.geteuid())}
    program = [sys.executable, "-I", "-S", "-c", "print('up', flush=True); input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, env=marked, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert removed(tmp_path, "j1") == 0
        process.communicate(b"\n")
    assert removed(tmp_path, "j1") == 1


def test_younger_jobs_are_told_apart(tmp_path: Path, job: Path) -> None:
    (tmp_path / "jobs/j2/1").mkdir(parents=True)
    for path in (job / "1/started", job / "1/status", job / "1/stdout.0", job / "1/channel"):
        os.utime(path, (50, 50))
    for path in (job / "1", job):
        os.utime(path, (60, 60))
    assert by_age(str(tmp_path), 1000) == {"old": ("j1",), "young": ("j2",)}
    assert by_age(str(tmp_path), 55) == {"old": (), "young": ("j1", "j2")}


@pytest.fixture
def theirs(job: Path) -> Path:
    """The folder of a job of another user."""
    os.chown(job / "1/channel", SOMEBODY, SOMEBODY)
    return job


def test_root_removes_as_the_user_of_the_job(tmp_path: Path, theirs: Path) -> None:
    assert removed(tmp_path, "j1") == 1
    assert not theirs.exists()


def test_what_the_user_could_not_remove_stays_and_keeps_no_other_job(
    tmp_path: Path, theirs: Path
) -> None:
    """Goal: root's rights remove nothing. Method: a folder of root's within the attempt."""
    (theirs / "1/ours").mkdir(mode=0o700)
    (theirs / "1/ours/file").write_text("x")
    (tmp_path / "jobs/j2/1").mkdir(parents=True)
    found = remove_attempts(str(tmp_path), ["j1", "j2"])
    assert found["removed"] == 1
    assert f"user {SOMEBODY} cannot remove" in found["error"]
    assert (theirs / "1.gone/ours/file").read_text() == "x"
    assert not (tmp_path / "jobs/j2").exists()


def test_removal_that_was_cut_short_goes_on_as_the_same_user(tmp_path: Path, theirs: Path) -> None:
    (theirs / "1").rename(theirs / "1.gone")
    (theirs / "1.gone/channel").unlink()
    os.chown(theirs / "1.gone", SOMEBODY, SOMEBODY)
    assert removed(tmp_path, "j1") == 0
    assert not theirs.exists()
