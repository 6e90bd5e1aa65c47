"""Clients whose scheduler ends because the disk of its log is full: a real disk, real commands."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.hosts import fill
from tests.live.api.serving import PATIENCE_S, Served, awaited, environment

pytestmark = pytest.mark.live

WAITS = "until [ -e go ]; do sleep 0.05; done; echo last"
STOPPED = "the scheduler has stopped, and nothing was taken"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    where = tmp_path / "disk"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "small", str(where)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs to mount a tmpfs, as root")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def begun(served: Served, name: str, *words: str) -> "subprocess.Popen[str]":
    """Start a command of shunter's, whose output goes to files of a name."""
    with (
        (served.root / f"{name}.out").open("w") as out,
        (served.root / f"{name}.err").open("w") as err,
    ):
        return subprocess.Popen(
            [sys.executable, "-m", "shunter", *words],
            env=environment(SHUNTER_URL=served.url),
            cwd=served.root,
            stdout=out,
            stderr=err,
            text=True,
        )


def printed(served: Served, name: str, stream: str) -> str:
    return (served.root / f"{name}.{stream}").read_text()


def test_clients_wait_out_a_full_disk_and_nothing_is_taken_twice(
    tmp_path: Path, disk: Path
) -> None:
    served = Served(tmp_path)
    log = str(disk / "log.db")
    clients = []
    try:
        served.start(SHUNTER_LOG__URL=log)
        waiting = begun(
            served, "wait", "submit", "--wait", "--", "sh", "-c", f"echo first; {WAITS}"
        )
        clients.append(waiting)
        awaited(lambda: "first" in printed(served, "wait", "out"), served.process)
        following = begun(served, "follow", "logs", "-f", "j1")
        clients.append(following)
        awaited(lambda: "first" in printed(served, "follow", "out"), served.process)

        fill(disk / "filling")
        assert shutil.disk_usage(disk).free == 0
        large = ["--export", "none", "--env", f"PATH={os.environ['PATH']}"]
        large += ["--env", f"LARGE={'x' * 100_000}"]
        words = ["submit", "--patience", "10m", *large, "--", "true"]
        submitting = begun(served, "submit", *words)
        clients.append(submitting)
        awaited(lambda: STOPPED in printed(served, "submit", "err"))
        assert served.process is not None
        assert served.process.wait(PATIENCE_S) == 1
        assert "full" in served.said()
        assert "Traceback" not in served.said()
        assert [each.poll() for each in clients] == [None, None, None]

        (disk / "filling").unlink()
        served.start(SHUNTER_LOG__URL=log)
        assert submitting.wait(PATIENCE_S) == 0
        (served.root / "go").touch()
        assert waiting.wait(PATIENCE_S) == 0
        assert following.wait(PATIENCE_S) == 0
        assert printed(served, "wait", "out").splitlines()[-2:] == ["first", "last"]
        assert printed(served, "follow", "out").splitlines() == ["first", "last"]
        assert "Traceback" not in "".join(
            printed(served, each, "err") for each in ("wait", "follow", "submit")
        )
        with served.client() as client:
            assert client.handle("j2").result(PATIENCE_S) == 0
            assert sorted(each["id"] for each in client.history()["jobs"]) == ["j1", "j2"]
    finally:
        for each in clients:
            each.kill()
            each.wait()
        served.__exit__()
