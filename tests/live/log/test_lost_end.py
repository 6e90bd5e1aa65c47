"""A daemon that was killed and whose log has lost its end: the next one says what, and waits."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.api.serving import PATIENCE_S, Served, awaited, environment

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


def test_doctor_says_of_a_log_what_the_daemon_would_refuse_it_for(killed: Served) -> None:
    assert "ok    log       " in shunter(killed, "doctor", str(killed.config)).stdout
    damage(killed)
    lost = told_by_both(killed)
    assert "has lost the " in lost
    log = killed.root / "log.db"
    (killed.root / "log.db-wal").unlink()
    log.write_bytes(log.read_bytes()[:100] + b"\xff" * 4000 + log.read_bytes()[4100:])
    assert "is damaged: database disk image is malformed" in told_by_both(killed)
    log.unlink()
    assert "has lost the " in told_by_both(killed)


def test_damaged_file_names_the_next_step_wherever_it_is_met(served: Served) -> None:
    with served.client() as client:
        assert client.submit(["true"], gpus=1).result(PATIENCE_S) == 0
    served.end()
    served.start()  # with all of the log in its file, and nothing of it in memory
    log = served.root / "log.db"
    with log.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (log.stat().st_size - 4096))
    answers = [served.run("why", "j1"), served.run("submit", "--", "true")]
    served.end(signal.SIGKILL)
    answers.append(shunter(served, "serve", str(served.config)))
    answers.append(shunter(served, "why", "1", "--log", "log.db"))
    said = (
        f"error: the log {log} is damaged: database disk image is malformed; stop what writes it, "
        "and put the log, its -wal and its anchor back from one copy (`shunter log verify COPY` "
        "says whether that is whole)\n"
    )
    assert [(found.returncode, found.stderr) for found in answers] == [(1, said)] * 4


def told_by_both(served: Served) -> str:
    """Return why the daemon refuses to start, which doctor calls bad in the same words."""
    refused = shunter(served, "serve", str(served.config))
    found = shunter(served, "doctor", str(served.config))
    said = refused.stderr.strip().removeprefix("error: ")
    assert (refused.returncode, found.returncode) == (1, 1)
    assert f"BAD   log       {said}" in found.stdout
    return said


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


@pytest.fixture
def short(served: Served) -> tuple[Served, int]:
    """A daemon that was killed and whose last job is lost, and the first number that is."""
    with served.client() as client:
        assert client.submit(["true"], gpus=1).result(PATIENCE_S) == 0
    served.end()
    copy = (served.root / "log.db").read_bytes()
    served.start()
    with served.client() as client:
        assert client.submit(["sleep", "600"], gpus=1).id == "j2"
    awaited(lambda: "running" in told(served))
    served.end(signal.SIGKILL)
    for suffix in ("-wal", "-shm"):
        (served.root / f"log.db{suffix}").unlink()
    (served.root / "log.db").write_bytes(copy)
    refused = shunter(served, "serve", str(served.config))
    named = re.search(r"--accept-loss (\d+)`, once", refused.stderr)
    assert (refused.returncode, bool(named)) == (1, True)
    assert named is not None
    return served, int(named[1])


def told(served: Served) -> str:
    return served.run("queue").stdout


def test_daemon_goes_on_without_lost_events_once_that_is_accepted(
    short: tuple[Served, int],
) -> None:
    served, first = short
    other = shunter(served, "serve", str(served.config), "--accept-loss", str(first + 1))
    assert (other.returncode, f"numbers {first} to " in other.stderr) == (1, True)
    served.start(options=["--accept-loss", str(first)])
    assert re.search(rf"^warning: events {first} to \d+ are lost", served.said(), re.MULTILINE)
    awaited(lambda: "attempt 1 of j2 runs, and the log never gave it" in served.said())
    with served.client() as client:
        (lost,) = [one for one in client.events()["events"] if one["kind"] == "EventsLost"]
        assert lost["first_seq"] == first
        handle = client.submit(["true"], gpus=1)
        assert handle.result(PATIENCE_S) == 0
        assert int(handle.id[1:]) == lost["last_number"] + 1 > 2
    served.end(signal.SIGKILL)
    served.start()
    assert served.handle(handle.id).result(PATIENCE_S) == 0
    assert served.end() == 0
    for words in (("log", "verify", "--schema"), ("replay", "--verify")):
        assert shunter(served, *words, "log.db").returncode == 0


def test_log_of_a_stopped_daemon_is_one_file_and_whole(served: Served, tmp_path: Path) -> None:
    with served.client() as client:
        assert client.submit(["true"], gpus=1).result(PATIENCE_S) == 0
    served.end()
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(served.root / "log.db", copy)
    found = shunter(served, "log", "verify", str(copy / "log.db"))
    assert (found.returncode, found.stderr) == (0, "")
