"""Who reads the log of a running daemon by SQLite alone takes nothing away from it.

A process that closes any descriptor of a file drops all POSIX locks that it has on it, SQLite's
among them. A reader that leaves then takes itself for the last one and removes the write-ahead log.
"""

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from shunter.api import ROUTES, SSE
from shunter.errors import UnreachableError
from tests.live.api.serving import PATIENCE_S, Served

pytestmark = pytest.mark.live

SHARED_FIRST, SHARED_BYTES = 0x4000_0002, 510
"""Where SQLite locks a database that it reads."""
FLOCK = "hhqqi"
READS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM events").fetchone()[0])
connection.close()
"""
REMOVED = r"log\.db-wal is no longer the one that the scheduler writes: another process removed it"


def read_plainly(log: Path) -> int:
    """Return how many events another process counts that reads the log, and leaves it."""
    words = [sys.executable, "-c", READS, str(log)]
    return int(subprocess.run(words, capture_output=True, check=True, timeout=PATIENCE_S).stdout)


def reader_of(log: Path) -> int:
    """Return the process that holds SQLite's lock of the log as seen from here; 0: none does."""
    with log.open("r+b") as file:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, SHARED_FIRST, SHARED_BYTES, 0)
        kind, *_, pid = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else pid


def files_of(served: Served) -> dict[str, int]:
    """Return the files of the log that a daemon writes, each with its inode."""
    return {
        path.name: path.stat().st_ino
        for path in sorted(served.root.glob("log.db*"))
        if not path.name.endswith(".anchor")
    }


def test_daemon_holds_its_lock_when_it_is_ready_and_after_every_route(served: Served) -> None:
    assert served.process is not None
    log, pid = served.root / "log.db", served.process.pid
    assert reader_of(log) == pid
    with served.client() as client:
        assert client.submit(["true"]).result(PATIENCE_S) == 0
        assert reader_of(log) == pid
    with served.http() as http:
        for route in ROUTES:
            path = route.path.format(job_id="j1", seq="3", node="n0", gpu="0", group="g1", key="k")
            if route.media == SSE:
                with http.stream(route.method, path):
                    pass
            else:
                http.request(route.method, path, json={"command": ["true"]})
            assert reader_of(log) == pid, route.name


@pytest.mark.parametrize(
    "words", [("why", "j1"), ("events",), ("queue", "--explain"), ("show", "j1"), ("doctor",)]
)
def test_plain_reading_after_a_command_leaves_the_files_of_the_log(
    served: Served, words: tuple[str, ...]
) -> None:
    with served.client() as client:
        assert client.submit(["true"]).result(PATIENCE_S) == 0
    served.run(*words)
    before = files_of(served)
    assert set(before) == {"log.db", "log.db-wal", "log.db-shm", "log.db.lock"}
    assert read_plainly(served.root / "log.db") > 0
    assert files_of(served) == before


def test_job_submitted_after_a_plain_reading_outlives_a_kill_of_the_daemon(
    served: Served,
) -> None:
    with served.client() as client:
        ids = [client.submit(["true"]).id]
        for _ in range(3):
            assert read_plainly(served.root / "log.db") > 0
            ids.append(client.submit(["true"]).id)
            assert served.run("why", ids[-1]).returncode == 0
    served.end(signal.SIGKILL)
    served.start()
    assert [served.handle(job_id).result(PATIENCE_S) for job_id in ids] == [0] * len(ids)


@pytest.fixture
def robbed(served: Served) -> Served:
    """A daemon with a job, whose write-ahead log is then removed."""
    with served.client() as client:
        assert client.submit(["true"]).result(PATIENCE_S) == 0
    (served.root / "log.db-wal").unlink()
    return served


def test_daemon_whose_write_ahead_log_is_removed_takes_nothing_and_says_why(
    robbed: Served,
) -> None:
    with closing(robbed.client()) as client, pytest.raises(UnreachableError):
        client.submit(["true"])
    assert robbed.process is not None
    assert robbed.process.wait(PATIENCE_S) == 1
    assert re.search(REMOVED, robbed.said())


def test_daemon_that_has_nothing_to_write_notices_it_and_nothing_is_lost(robbed: Served) -> None:
    assert robbed.process is not None
    assert robbed.process.wait(PATIENCE_S) == 1
    assert re.search(REMOVED, robbed.said())
    robbed.start()
    assert robbed.handle("j1").result(PATIENCE_S) == 0
