"""What was acknowledged is there after a real `kill -9`, and after a disk that was really full."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.events.log import open_log, read_log
from tests.contracts.event_logs import events_of, story

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

ROOT = Path(__file__).resolve().parents[2]


def child(path: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.log_child", str(path), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def killed_after(path: Path, commits: int) -> int:
    """Kill the child after it said so many commits; return the last number it said."""
    with child(path, "live") as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(commits)]
        process.kill()
        # What it said between the last line read here and its end was acknowledged as well.
        said += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    return said[-1]


def run_until_it_fails(path: Path, mode: str, limit_bytes: int | None) -> tuple[int, str]:
    """Return the last number the child said, and the failure it ended with."""
    with child(path, mode, *([] if limit_bytes is None else [str(limit_bytes)])) as process:
        assert process.stdout is not None
        *said, failure = process.stdout.read().split("\n")[:-1]
    return int(said[-1]), failure


async def test_no_acknowledged_event_is_lost_to_kill_nine(tmp_path: Path) -> None:
    """Goal: durable means durable. Method: kill a child in mid-append, five times on one log."""
    path = tmp_path / "run.db"
    for term, commits in enumerate((1, 3, 20, 57, 130), 1):
        acknowledged = killed_after(path, commits)
        async with read_log(str(path)) as reader:
            report = await reader.verify()
            assert report.events >= acknowledged
            assert report.events % 7 == 0
            assert report.term == term
            assert await events_of(reader, 0, 7) == story(7)


async def test_log_of_a_killed_process_can_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    acknowledged = killed_after(path, 5)
    async with open_log(str(path), frame_events=None, resume=True) as log:
        assert log.seq >= acknowledged
        assert log.term == 2
        log.append(story(1))
    async with read_log(str(path)) as reader:
        assert (await reader.verify()).digest == log.digest


@pytest.mark.parametrize("mode", ["live", "simulation"])
async def test_file_that_may_not_grow_stops_the_writer_and_keeps_the_rest(
    tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "run.db"
    acknowledged, failure = run_until_it_fails(path, mode, 400_000)
    assert failure.startswith("LogError: the log")
    assert "cannot be" in failure
    async with read_log(str(path)) as reader:
        events = (await reader.verify()).events
        assert acknowledged - 20 <= events <= acknowledged + 20
        assert mode == "simulation" or events >= acknowledged


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a file system")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


async def test_full_disk_stops_the_writer_and_keeps_the_rest(small_disk: Path) -> None:
    path = small_disk / "run.db"
    acknowledged, failure = run_until_it_fails(path, "live", None)
    assert failure.startswith("LogError: the log")
    assert failure.endswith("no space left")
    async with read_log(str(path)) as reader:
        assert (await reader.verify()).events >= acknowledged
