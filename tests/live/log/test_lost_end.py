"""A daemon that was killed and whose log has lost its end: the next one says what, and waits."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.api.serving import PATIENCE_S, Served, environment

pytestmark = pytest.mark.live

JOBS = 12


@pytest.fixture
def killed(served: Served) -> Served:
    """A daemon that was killed while nobody had closed its log."""
    with served.client() as client:
        for _ in range(JOBS):
            client.submit(["true"], gpus=1)
    served.end(signal.SIGKILL)
    return served


def damage(served: Served) -> None:
    """Flip one bit in the midst of the write-ahead log."""
    wal = served.root / "log.db-wal"
    whole = bytearray(wal.read_bytes())
    whole[len(whole) // 2] ^= 8
    wal.write_bytes(whole)


def shunter(served: Served, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shunter", *words],
        env=environment(),
        cwd=served.root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_numbers_that_are_lost_are_named_by_every_command_and_the_daemon(killed: Served) -> None:
    whole = shunter(killed, "log", "verify", "log.db")
    assert (whole.returncode, whole.stdout.startswith("sound: ")) == (0, True)
    damage(killed)
    for words in (
        ("log", "verify", "log.db"),
        ("log", "export", "log.db"),
        ("log", "stats", "log.db"),
        ("replay", "log.db"),
        ("why", "1", "--log", "log.db"),
        ("serve", str(killed.config)),
    ):
        found = shunter(killed, *words)
        assert found.returncode == 1, words
        lines = found.stderr.splitlines()
        assert len(lines) == 1, words
        assert "log.db has lost the " in lines[0]
        assert " events with sequence numbers " in lines[0]


def test_daemon_goes_on_without_what_is_lost_once_the_anchor_is_moved_away(
    killed: Served,
) -> None:
    damage(killed)
    anchor = killed.root / "log.db.anchor"
    anchor.rename(killed.root / "away")
    said = shunter(killed, "log", "verify", "log.db")
    assert (said.returncode, said.stdout.startswith("sound: ")) == (0, True)
    assert said.stderr.startswith("warning: the log ")
    killed.start()
    assert "which is not there: whether events after its last one are lost" in killed.said()
    assert anchor.exists()
    with killed.client() as client:
        assert client.submit(["true"], gpus=1).result(PATIENCE_S) == 0


def test_log_of_a_stopped_daemon_is_one_file_and_whole(served: Served, tmp_path: Path) -> None:
    with served.client() as client:
        assert client.submit(["true"], gpus=1).result(PATIENCE_S) == 0
    served.end()
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(served.root / "log.db", copy)
    found = shunter(served, "log", "verify", str(copy / "log.db"))
    assert (found.returncode, found.stderr) == (0, "")
