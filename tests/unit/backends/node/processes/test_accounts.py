"""Work with the rights of a user, who cannot stop it, and for whom nobody waits long."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import User, ranks
from shunter.backends.node.host import as_user, pruning
from tests.faults.supervised import is_alive, wait_for
from tests.unit.backends.node.orders import order_of, rank_of

pytestmark = pytest.mark.needs("root")

STRANGER, OTHER = 65_533, 65_532  # user ids that nobody has
STRANGERS = User(uid=STRANGER, gid=STRANGER, groups=())
# Stops all below a process that it may stop, and lets them go on a while later.
STOPS = """
import os, signal, sys, time
root, until = sys.argv[1], time.time() + 8
stopped = []
print("up", flush=True)
while time.time() < until:
    try:
        children = open(f"/proc/{root}/task/{root}/children").read().split()
    except OSError:
        break
    for child in map(int, children):
        try:
            if child != os.getpid():
                os.kill(child, signal.SIGSTOP)
                stopped.append(child)
        except OSError:
            pass
for child in stopped:
    try:
        os.kill(child, signal.SIGCONT)
    except OSError:
        pass
"""


@contextmanager
def stopped_by(user: int) -> Iterator[None]:
    """Have a user stop all children of ours that the user may stop."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("needs a Python that everybody may run")
    argv = [python, "-ISc", STOPS, str(os.getpid())]
    with subprocess.Popen(argv, user=user, cwd="/", stdout=subprocess.PIPE) as stopper:
        assert stopper.stdout is not None
        assert stopper.stdout.readline() == b"up\n"
        yield
        stopper.kill()


def worked(for_s: float) -> dict[str, Any]:
    """Return who does it, after a while."""
    time.sleep(for_s)
    with tempfile.TemporaryFile() as made:
        return {"uid": os.fstat(made.fileno()).st_uid, "pid": os.getpid()}


def test_user_cannot_stop_what_is_done_as_that_user() -> None:
    began_s = time.monotonic()
    with stopped_by(STRANGER):
        found = as_user(STRANGERS, lambda: worked(0.5))
    assert found["uid"] == STRANGER
    assert time.monotonic() - began_s < 4.0


def test_user_has_no_rights_of_root_and_groups(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    found = as_user(STRANGERS, lambda: {"read": secret.read_text()})
    assert "Permission denied" in str(found["error"])
    found = as_user(STRANGERS, lambda: {"groups": os.getgroups(), "group": os.getegid()})
    assert found == {"groups": [], "group": STRANGER}


def test_what_takes_too_long_is_killed_and_told(tmp_path: Path) -> None:
    """Also where it stands still."""
    number = tmp_path / "number"

    def stands() -> dict[str, Any]:
        number.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
        return {}

    assert as_user(None, stands, 0.3) == {"error": "stopped: not done within 0.3 s"}
    assert not is_alive(int(number.read_text()))


def test_work_without_a_limit_ends_once_nobody_waits_for_it(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from shunter.backends.node.host.accounts import as_user\n"
        "print('up', flush=True)\n"
        f"found = as_user(None, lambda: time.sleep(60), None)\n"
        f"open({str(tmp_path / 'found')!r}, 'w').write(found['error'])\n"
    )
    argv = [sys.executable, "-c", program]
    root = str(Path(pruning.__file__).parents[4])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=root) as working:
        assert working.stdout is not None
        assert working.stdout.readline() == b"up\n"
        working.stdout.close()
        assert working.wait(20) == 0
    assert (tmp_path / "found").read_text() == "stopped: nobody waits for it"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with two jobs of one user, and one of another."""
    for job, user in (("j1", STRANGER), ("j2", OTHER), ("j3", STRANGER)):
        folder = tmp_path / "jobs" / job / "1"
        folder.mkdir(parents=True)
        (folder / "status").write_text("{}")
        os.mkfifo(folder / "channel")
        os.chown(folder / "channel", user, user)
    return tmp_path


def test_user_cannot_stop_the_removal_of_what_is_old(root: Path) -> None:
    began_s = time.monotonic()
    with stopped_by(STRANGER):
        found = pruning.remove_attempts(str(root), ["j1", "j2", "j3"])
    assert found == {"removed": 3, "error": ""}
    assert time.monotonic() - began_s < 5.0


def test_removal_that_stands_still_costs_its_user_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system of the user's own that never answers, which is stood in for here."""
    empty = pruning._empty_attempt

    def stands(folder: int) -> None:
        if os.geteuid() == STRANGER:
            time.sleep(60)
        empty(folder)

    monkeypatch.setattr(pruning, "_empty_attempt", stands)
    monkeypatch.setattr(pruning, "ATTEMPT_S", 0.5)
    began_s = time.monotonic()
    found = pruning.remove_attempts(str(root), ["j1", "j2", "j3"])
    assert time.monotonic() - began_s < 5.0
    assert str(found["error"]).startswith(f"j1: what user {STRANGER} left there cannot be removed")
    assert sorted(job.name for job in (root / "jobs").iterdir()) == ["j1", "j3"]
    monkeypatch.undo()
    assert pruning.remove_attempts(str(root), ["j1", "j2", "j3"])["error"] == ""
    assert sorted((root / "jobs").iterdir()) == []


def test_rank_holds_no_fence_while_its_user_may_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is its user's from the change of user on, and becomes the user's program after."""
    tmp_path.chmod(0o711)
    fence = os.open(tmp_path / "fence.lock", os.O_RDWR | os.O_CREAT)
    (tmp_path / "ranks.lock").touch()
    lock = os.open(tmp_path / "ranks.lock", os.O_PATH)
    order = order_of(ranks=[rank_of()]).replaced(user=STRANGERS)
    importlib.import_module("ctypes")  # as in a supervisor: the user may be unable to read it
    monkeypatch.setattr(os, "execvpe", lambda *_: time.sleep(60))
    pid = ranks.spawn(str(tmp_path), order, 0, lock, ranks.Gate(1, is_open=True))
    try:
        status = Path(f"/proc/{pid}/status")
        wait_for(lambda: f"Uid:\t{STRANGER}\t{STRANGER}" in status.read_text(), "its user")
        held = [each for each in sorted(Path(f"/proc/{pid}/fd").iterdir()) if int(each.name) > 2]
        assert [str(each.readlink()) for each in held] == [str(tmp_path / "ranks.lock")]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fence)
        os.close(lock)
