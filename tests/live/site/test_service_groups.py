"""What systemd does to a service's control group at a restart, done to a daemon in one of its own.

`KillMode=process` ends the main process and nothing else: jobs live on. `KillMode=control-group`,
which systemd takes where a unit says nothing, kills all that is in the group, supervisors and jobs
too: these count as lost, and run again.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from shunter.daemon import Site
from shunter.events import JobId, Outcome
from tests.contracts.local_backends import empty
from tests.live.site.daemons import Daemon
from tests.live.site.sites import NOBODY, config, events_until, verified, wait_for
from tests.live.site.witnesses import marks, witness, wrongs

pytestmark = pytest.mark.live

# A hierarchy that limits nothing: that of systemd (version 1), or the unified one.
PLACES = (Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup"))
WORK = """
mark("works")
time.sleep(float(sys.argv[2]))
mark("worked")
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of the service; it is empty at the end."""
    for place in PLACES:
        folder = place / f"shunter-test-{os.getpid()}"
        if not (place / "cgroup.procs").exists():
            continue
        with suppress(OSError):
            folder.mkdir()
            yield folder
            kill_all(folder)
            folder.rmdir()
            return
    pytest.skip("needs a control group that may be made below /sys/fs/cgroup")


def members(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]


def kill_all(folder: Path) -> None:
    """Kill what is in a group until nothing is, as systemd does."""
    until_s = time.monotonic() + 20
    while found := members(folder):
        assert time.monotonic() < until_s, f"{found} cannot be killed"
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def service(root: Path, group: Path, work_s: float) -> Daemon:
    """Start a daemon in a group, which submits a job and stops when that has ended."""

    async def deed(site: Site) -> None:
        job_id = await site.submit(witness(root, WORK, str(work_s), key="one"), NOBODY)
        await events_until(site, lambda _: site.past.outcome(job_id) is not None)

    def joined() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    return Daemon(config(root), deed, joined)


@pytest.mark.parametrize("kill_mode", ["process", "control-group"])
def test_job_survives_a_restart_of_its_service(tmp_path: Path, group: Path, kill_mode: str) -> None:
    lives = kill_mode == "process"
    try:
        daemon = service(tmp_path, group, 1.5)
        wait_for(lambda: "j1.1 works" in marks(tmp_path))
        assert daemon.pid in members(group)
        assert len(members(group)) > 1, "supervisors are in the group of the service"
        if lives:
            daemon.kill()
        else:
            kill_all_of(daemon, group)
        assert service(tmp_path, group, 1.5).wait() == 0
        assert wrongs(tmp_path) == []
        last = 1 if lives else 2
        worked = [mark for mark in marks(tmp_path) if mark.endswith(" worked")]
        assert worked == [f"j1.{last} worked"]
        verdict = anyio.run(verified, tmp_path)
        assert verdict.divergence is None
        assert verdict.past.outcome(JobId("j1")) is Outcome.finished
    finally:
        empty(str(tmp_path / "attempts"))


def kill_all_of(daemon: Daemon, group: Path) -> None:
    """Kill a daemon and all that is in its group."""
    for pid in members(group):
        if pid != daemon.pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    daemon.kill()
    kill_all(group)
