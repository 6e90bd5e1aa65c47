"""Kills of a daemon whose log is read by `sqlite3` all the time: what was acknowledged is there.

    python -m tests.live.log.kills KILLS FOLDER

One job keeps all GPUs, so that the others wait and a kill costs little. After some submissions, how
many is drawn by the number of the kill, the daemon is killed and started again.
"""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from shunter.errors import UnreachableError
from tests.live.api.serving import PATIENCE_S, Served, awaited

MOST_BETWEEN = 6
"""Submissions between two kills, at most."""

COUNT = "SELECT count(*) FROM events"
IN_PYTHON = f"""
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("{COUNT}").fetchone()[0])
connection.close()
"""


@dataclass(slots=True)
class Outcome:
    """What came of it: submissions that were acknowledged, readings, and what was lost."""

    kills: int
    acknowledged: int
    readings: int
    lost: list[str]


class Reader:
    """Reads the log again and again, each time by a process that then leaves it."""

    def __init__(self, log: Path) -> None:
        tool = shutil.which("sqlite3")
        self._words = (
            [tool, str(log), COUNT] if tool else [sys.executable, "-c", IN_PYTHON, str(log)]
        )
        self._done = Event()
        self.readings = 0
        self._thread = Thread(target=self._read)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Read while the block lasts."""
        self._thread.start()
        try:
            yield
        finally:
            self._done.set()
            self._thread.join(PATIENCE_S)

    def _read(self) -> None:
        while not self._done.is_set():
            found = subprocess.run(
                self._words, capture_output=True, timeout=PATIENCE_S, check=False
            )
            self.readings += found.returncode == 0


def run(served: Served, kills: int) -> Outcome:
    """Kill a daemon so often; return what came of it."""
    reader = Reader(served.root / "log.db")
    acknowledged: list[str] = []
    lost: dict[str, None] = {}
    with served.client() as client:
        client.submit(["sleep", "1000000"], gpus=4)
    with reader.at_work():
        for number in range(kills):
            before = reader.readings
            for _ in range(random.Random(number).randint(1, MOST_BETWEEN)):
                with served.client() as client:
                    acknowledged.append(client.submit(["true"], gpus=4).id)
            awaited(lambda before=before: reader.readings > before)
            kill_in_a_submission(served, acknowledged)
            served.start()
            lost |= dict.fromkeys(missing(served, acknowledged))
    return Outcome(kills, len(acknowledged), reader.readings, list(lost))


def kill_in_a_submission(served: Served, acknowledged: list[str]) -> None:
    """Kill the daemon while another thread submits."""
    has_begun = Event()

    def submit() -> None:
        try:
            with served.client() as client:
                while True:
                    has_begun.set()
                    acknowledged.append(client.submit(["true"], gpus=4).id)
        except UnreachableError:
            return

    thread = Thread(target=submit)
    thread.start()
    has_begun.wait(PATIENCE_S)
    served.end(signal.SIGKILL)
    thread.join(PATIENCE_S)


def missing(served: Served, acknowledged: list[str]) -> list[str]:
    """Return the jobs that were acknowledged, and that the daemon does not know."""
    with served.client() as client:
        known = {one["id"] for one in client.queue()["jobs"]}
    return [job_id for job_id in acknowledged if job_id not in known]


def main(kills: int, folder: Path) -> None:
    """Kill a daemon in a folder so often, and print what came of it."""
    began_s = time.monotonic()
    with Served(folder) as served:
        outcome = run(served, kills)
        served.end()
        verified = served.run("log", "verify", f"{folder}/log.db")
    print(
        f"{outcome.kills} kills, {outcome.readings} readings, {outcome.acknowledged} submissions "
        f"acknowledged, {len(outcome.lost)} lost, in {time.monotonic() - began_s:.0f} s"
    )
    print(verified.stdout or verified.stderr, end="")
    sys.exit(bool(outcome.lost) or verified.returncode)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
