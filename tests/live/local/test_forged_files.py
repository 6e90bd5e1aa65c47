"""Files that a user forges in namespaces of their own: nobody is taken for a supervisor by them.

The forger is a real user who mounts a folder of theirs where ours lies, makes files of our names
there, locks them, and hands them to a program with the setuid bit; or, stronger than a user is, to
a process that is root's through and through.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shunter.backends.node import alive_below, attempts, command
from tests.faults.supervised import Machine, is_alive, machine_at, wait_for
from tests.faults.test_supervisor import SLEEPS
from tests.live.ssh.farm import parent_of

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as other users"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare"),
]

NOBODY, STRANGER = 65534, 1
NOBODYS = {"uid": NOBODY, "gid": NOBODY, "groups": []}


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine in a folder that everybody may pass through."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        with machine_at(Path(folder) / "root") as found:
            yield found


@contextmanager
def mounted_over(root: Path, *paths: Path) -> Iterator[list[Path]]:
    """Have a user mount a folder over a root, in a namespace, with files of our names."""
    made = "".join(f"mkdir -p {path.parent} && touch {path} && " for path in paths)
    script = f"mount -t tmpfs none {root} && {made}echo up && exec sleep 60"
    with subprocess.Popen(
        ["unshare", "-Urm", "sh", "-c", script],
        user=STRANGER,
        group=STRANGER,
        cwd="/",
        stdout=subprocess.PIPE,
    ) as forger:
        try:
            assert forger.stdout is not None
            if forger.stdout.readline() != b"up\n":
                pytest.skip("users may have no namespaces here")
            seen = Path(f"/proc/{forger.pid}") / "root"
            yield [seen / path.relative_to("/") for path in paths]
        finally:
            forger.kill()


@contextmanager
def held(path: Path, how: str) -> Iterator[int]:
    """Have a process hold a file locked; yield its number."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        program = Path(folder) / "sleep"
        shutil.copy("/bin/sleep", program)
        program.chmod(0o4755 if how == "setuid" else 0o755)
        user = None if how == "root" else STRANGER
        file = os.open(path, os.O_RDWR)
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen([str(program), "60"], user=user, pass_fds=(file,)) as holder:
            os.close(file)
            try:
                yield holder.pid
            finally:
                holder.kill()


@pytest.mark.parametrize("how", ["setuid", "root"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_forged_lock_is_no_supervisor(machine: Machine, how: str, is_deleted: bool) -> None:
    machine.starts(machine.order("print('up')"))
    machine.status()
    forged = [machine.folder(number) / "lock" for number in (1, 2, 999)]
    with (
        mounted_over(machine.root, *forged) as (first, second, last),
        held(first, how),
        held(second, how) as holder,
        held(last, how),
    ):
        if is_deleted:
            for path in (first, second, last):
                path.unlink()
        assert Path(f"/proc/{holder}").stat().st_uid == 0, "it does not look like ours at all"
        assert alive_below(str(machine.root)) == {}
        assert attempts.running(str(machine.root), []) == []
        assert attempts.known_of(str(machine.root), "j0") == [1]
        answer = machine.starts(machine.order("print('up')", attempt=2))
        assert answer == {"answer": "started"}
        assert machine.status(2)["codes"] == (0,)


@pytest.mark.parametrize("how", ["stranger", "setuid", "root"])
def test_forged_file_of_ranks_holds_no_attempt(machine: Machine, how: str) -> None:
    """Of an attempt whose records are gone, so that nothing here tells whose it was."""
    machine.starts(machine.order("print('up')"))
    machine.status()
    wait_for(lambda: not attempts.is_held(f"{machine.folder()}/lock"), "its end")
    with mounted_over(machine.root, machine.folder() / "ranks.lock") as (path,), held(path, how):
        shutil.rmtree(machine.folder())
        assert attempts.holders(str(machine.folder())) == []
        assert attempts.sweep(str(machine.folder())) == 0


def test_stranger_who_opens_the_file_of_ranks_holds_nothing(machine: Machine) -> None:
    """Everybody may name it (O_PATH): it counts with whose attempt it was, purged or not."""
    order = machine.ordering(["/bin/sleep", "60"], user=NOBODYS)
    order["ranks"][0]["directory"] = "/"
    machine.starts(order)
    opens = "import os, sys, time; os.open(sys.argv[1], os.O_PATH); print('up'); time.sleep(60)"
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("needs a Python that everybody may run")
    argv = [python, "-ISu", "-c", opens, str(machine.folder() / "ranks.lock")]
    with subprocess.Popen(argv, user=STRANGER, cwd="/", stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        supervisor = machine.supervisor()
        os.kill(supervisor, signal.SIGSTOP)
        shutil.rmtree(machine.folder())
        os.kill(supervisor, signal.SIGKILL)
        wait_for(lambda: attempts.sweep(str(machine.folder())) == 0, "an empty machine")
        assert is_alive(holder.pid)
        holder.kill()


def test_hidden_process_of_a_purged_attempt_still_holds_it(machine: Machine) -> None:
    """One without its mark: the file of ranks that it inherited tells whose it is."""
    hides = "env -i setsid sleep 60 & echo hidden $!; exec sleep 60"
    order = machine.ordering(["/bin/sh", "-c", hides], user=NOBODYS)
    order["ranks"][0]["directory"] = "/"
    machine.starts(order)
    wait_for(lambda: len(machine.said("hidden").split()) == 2, "its number")
    hidden = int(machine.said("hidden").split()[1])
    supervisor = machine.supervisor()
    os.kill(parent_of(supervisor), signal.SIGKILL)  # or its reaper would leave nothing
    os.kill(supervisor, signal.SIGSTOP)
    try:
        shutil.rmtree(machine.folder())
        os.kill(supervisor, signal.SIGKILL)
        wait_for(lambda: attempts.sweep(str(machine.folder())) <= 1, "the end of the rank")
        assert is_alive(hidden)
        assert attempts.holders(str(machine.folder())) == [hidden]
    finally:
        os.kill(hidden, signal.SIGKILL)


def test_supervisor_in_a_namespace_of_its_own_is_known(machine: Machine) -> None:
    """As of a service with a private /tmp that was restarted: the same file, another mount."""
    order = machine.order(SLEEPS)
    subprocess.run(
        ["unshare", "-m", *command("start", str(machine.root))],
        input=json.dumps(order).encode(),
        check=True,
        capture_output=True,
    )
    machine.said("up")
    supervisor = machine.supervisor()
    assert alive_below(str(machine.root))[("j0", 1)].supervisors == [supervisor]


def test_stray_is_ended_alone_whatever_its_number(machine: Machine) -> None:
    """Its job may have any other attempt yet."""
    machine.starts(machine.order(SLEEPS, attempt=1))
    machine.starts(machine.order(SLEEPS, attempt=7))
    machine.said("up", 7)
    fence = json.loads((machine.folder().parent / "fence").read_text())
    (machine.folder().parent / "fence").write_text(json.dumps({"attempt": 1}))
    assert fence == {"attempt": 7}
    wait_for(lambda: attempts.end_alone(str(machine.root), "j0", 7, 1), "the end of the stray")
    assert machine.state() == "running"
    assert machine.starts(machine.order("print('up')", attempt=2)) == {"answer": "started"}
