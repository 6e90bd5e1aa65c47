"""`shunter up` and `down` under hardship: interrupted, disturbed, and in odd surroundings.

Goal: every hardship ends in what was asked for, or in one sentence that says what to do.
Method: real daemons; one that is to hang stops itself as it binds its socket.
"""

import os
import pwd
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.api.serving import PATIENCE_S, awaited, environment
from tests.live.up.test_up import MODULE, Person, person

pytestmark = pytest.mark.live

STOPS = """\
import os, signal, sys
def stop(event, arguments):
    if event == "socket.bind" and str(arguments[1]).startswith("/"):
        with open("{home}/stopped", "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        os.kill(os.getpid(), signal.SIGSTOP)
if "serve" in sys.orig_argv:
    sys.addaudithook(stop)
"""
OLD = """\
import sys
if "serve" in sys.orig_argv:
    import shunter
    shunter.__version__ = "0.0.9"
"""


@pytest.fixture
def newcomer() -> Iterator[Person]:
    yield from person()


def meddled(one: Person, text: str) -> None:
    """Let every Python of somebody run a text first."""
    (one.home / "sitecustomize.py").write_text(text, encoding="utf-8")
    one.variables = {"PYTHONPATH": f"{one.home}:{environment()['PYTHONPATH']}"}


def stopped(one: Person) -> int:
    """Return the daemon that stopped itself while it started, once it has."""
    path = one.home / "stopped"
    return int(awaited(lambda: path.exists() and path.read_text(encoding="ascii").strip()))


def first_note(command: "subprocess.Popen[str]") -> str:
    """Return the first line on stderr, or nothing if none comes."""
    assert command.stderr is not None
    came, _, _ = select.select([command.stderr], [], [], PATIENCE_S)
    return command.stderr.readline() if came else ""


@contextmanager
def resumed(daemon: int) -> Iterator[None]:
    """Let a daemon go on at the end."""
    try:
        yield
    finally:
        os.kill(daemon, signal.SIGCONT)


def left_starting(one: Person) -> int:
    """Interrupt an `up`; return the daemon that it leaves behind, which holds its lock."""
    meddled(one, STOPS.format(home=one.home))
    with one.begun("up", "--gpus", "1") as interrupted:
        daemon = stopped(one)
        interrupted.send_signal(signal.SIGINT)
        interrupted.communicate(timeout=PATIENCE_S)
    assert interrupted.returncode == 130
    one.variables = {}
    return daemon


def test_up_waits_for_the_daemon_of_one_that_was_interrupted(newcomer: Person) -> None:
    daemon = left_starting(newcomer)
    with newcomer.begun("up") as again:
        with resumed(daemon):
            assert "is starting or ending there" in first_note(again)
        out, _ = again.communicate(timeout=PATIENCE_S)
    assert (again.returncode, f"runs already: process {daemon}," in out) == (0, True)


def test_down_ends_a_daemon_that_is_starting(newcomer: Person) -> None:
    daemon = left_starting(newcomer)
    with newcomer.begun("down") as down:
        with resumed(daemon):
            assert "is starting or ending there" in first_note(down)
        out, _ = down.communicate(timeout=PATIENCE_S)
    ended = f"the daemon on unix:{newcomer.home}/up/shunter.sock (process {daemon}) has ended\n"
    assert (down.returncode, out) == (0, ended)


def test_up_says_that_it_waits_for_another(newcomer: Person) -> None:
    meddled(newcomer, STOPS.format(home=newcomer.home))
    with newcomer.begun("up", "--gpus", "1") as first:
        daemon = stopped(newcomer)
        with newcomer.begun("up") as second:
            with resumed(daemon):
                assert f"another `up` is at work in {newcomer.home}/up" in first_note(second)
            out, _ = second.communicate(timeout=PATIENCE_S)
        first.communicate(timeout=PATIENCE_S)
    assert (first.returncode, f"runs already: process {daemon}," in out) == (0, True)


def test_up_believes_nobody_but_its_daemon_that_it_is_up(newcomer: Person) -> None:
    meddled(newcomer, STOPS.format(home=newcomer.home))
    with newcomer.begun("up", "--gpus", "1") as command:
        daemon = stopped(newcomer)
        variables = Path(f"/proc/{daemon}/environ").read_bytes().split(b"\0")
        name = next(one for one in variables if one.startswith(b"NOTIFY_SOCKET=@"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.sendto(b"READY=1", b"\0" + name.partition(b"@")[2])
        os.kill(daemon, signal.SIGKILL)
        _, err = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 1
    assert "the daemon did not come up: a signal ended it; it said nothing" in err
    newcomer.variables = {}


def test_nobody_else_may_write_where_the_umask_lets_all(newcomer: Person) -> None:
    before = os.umask(0)
    try:
        newcomer.home /= "deep"
        newcomer.up("--gpus", "1")
    finally:
        os.umask(before)
    found = [newcomer.home, *sorted((newcomer.home / "up").rglob("*"))]
    assert len(found) > 5
    assert [path for path in found if path.lstat().st_mode & stat.S_IWOTH] == []


def test_jobs_of_others_reach_their_folders_whatever_the_umask(newcomer: Person) -> None:
    before = os.umask(0o077)
    try:
        newcomer.up("--gpus", "1")
    finally:
        os.umask(before)
    attempts = newcomer.home / "up" / "shunter-attempts"
    assert stat.S_IMODE(attempts.stat().st_mode) == 0o711


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_messages_that_are_no_file_are_named_and_hold_nobody_up(
    newcomer: Person, make: Callable[[Path], None]
) -> None:
    messages = newcomer.home / "up" / "shunter.messages"
    messages.parent.mkdir(parents=True)
    make(messages)
    found = newcomer.shunter("up", "--gpus", "1")
    told = f"error: no daemon was started: {messages}: expected a file for what the daemon says"
    assert (found.returncode, told in found.stderr) == (2, True)
    messages.rmdir() if messages.is_dir() else messages.unlink()


def test_file_that_has_other_gpus_than_the_daemon_is_said(newcomer: Person) -> None:
    newcomer.up("--gpus", "1")
    config = newcomer.home / "up" / "shunter.toml"
    refused = newcomer.shunter("up", "--gpus", "2")
    assert (refused.returncode, "write gpus = 2 in its" in refused.stderr) == (2, True)
    config.write_text(config.read_text().replace("gpus = 1\n", "gpus = 2\n"))
    found = newcomer.shunter("up")
    assert "runs already" in found.stdout
    assert ", 1 GPU," in found.stdout
    assert f"warning: {config} says 2 GPUs now" in found.stderr
    refused = newcomer.shunter("up", "--gpus", "2")
    assert (refused.returncode, "the daemon that runs has 1 GPU" in refused.stderr) == (2, True)


def test_logs_that_are_followed_say_how_the_job_ended(newcomer: Person) -> None:
    newcomer.up("--gpus", "0")
    newcomer.said("submit", "--", "sh", "-c", "echo a; exit 7")
    found = newcomer.shunter("logs", "-f", "j1")
    assert (found.returncode, found.stdout) == (0, "a\n")
    assert found.stderr.splitlines()[-1] == "j1 failed: exit code 7"
    assert newcomer.shunter("logs", "j1").stderr == ""


def test_down_says_nothing_of_who_follows_a_job(newcomer: Person) -> None:
    newcomer.up("--gpus", "0")
    newcomer.said("submit", "--", "sh", "-c", "echo a; sleep 600")
    with newcomer.begun("logs", "-f", "j1") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "a\n"
        newcomer.said("down")
        following.kill()
    messages = (newcomer.home / "up" / "shunter.messages").read_text()
    (stopped,) = messages.splitlines()[1:]
    assert stopped.endswith(" stopped; 1 job runs on")


@pytest.mark.parametrize("name", [b"tab\x7f", b"latin-\xe9"])
def test_home_that_no_config_can_name_is_refused(newcomer: Person, name: bytes) -> None:
    newcomer.home /= os.fsdecode(name)
    found = newcomer.shunter("up", "--gpus", "1")
    assert (found.returncode, "expected a path of printable characters" in found.stderr) == (
        2,
        True,
    )
    assert not newcomer.home.exists()


def test_up_is_done_where_commands_find_no_daemon_by_themselves(newcomer: Person) -> None:
    newcomer.variables = {"SHUNTER_URL": "rubbish"}
    for said in ("is up: process", "runs already: process"):
        found = newcomer.shunter("up", "--gpus", "1")
        assert (found.returncode, said in found.stdout) == (0, True)
        assert f"export SHUNTER_URL=unix:{newcomer.home}/up/shunter.sock" in found.stderr
    newcomer.variables = {}


def test_daemon_that_also_listens_on_tcp_is_asked_on_its_socket(newcomer: Person) -> None:
    config = newcomer.home / "site.toml"
    newcomer.said("init", "--local", "--gpus", "1", "--out", str(config))
    text = config.read_text(encoding="utf-8")
    tokens = newcomer.home / "tokens"
    tokens.write_text(f"{'t' * 40} {pwd.getpwuid(os.geteuid()).pw_name}\n", encoding="ascii")
    tokens.chmod(0o600)
    alone = 'token_file = "tokens"\nlisten = "tcp:127.0.0.1:0"'
    config.write_text(text.replace('listen = "unix:"', alone), encoding="utf-8")
    found = newcomer.shunter("up", str(config))
    assert (found.returncode, "server.listen: expected a socket too" in found.stderr) == (2, True)
    place = f"unix:{newcomer.home}/s"
    both = f'token_file = "tokens"\nlisten = ["tcp:127.0.0.1:0", "{place}"]'
    config.write_text(text.replace('listen = "unix:"', both), encoding="utf-8")
    first, again = (newcomer.up(str(config)) for _ in range(2))
    assert (first["has_started"], again["has_started"]) == (True, False)
    ended = f"the daemon on {place} (process {first['pid']}) has ended\n"
    assert newcomer.said("down", "--url", place) == ended


def test_daemon_that_is_stopped_is_said_to_be_silent(newcomer: Person) -> None:
    daemon = newcomer.up("--gpus", "1")["pid"]
    os.kill(daemon, signal.SIGSTOP)
    with newcomer.begun("queue") as queue:
        with resumed(daemon):
            note = first_note(queue)
            assert f"(process {daemon}) has not answered yet" in note
        queue.communicate(timeout=PATIENCE_S)
    assert queue.returncode == 0


def test_daemon_of_an_older_version_is_said(newcomer: Person) -> None:
    meddled(newcomer, OLD)
    newcomer.up("--gpus", "1")
    newcomer.variables = {}
    found = newcomer.shunter("up")
    assert (found.returncode, "that daemon is of Shunter 0.0.9" in found.stderr) == (0, True)


def test_up_works_with_its_output_closed(newcomer: Person) -> None:
    words = ["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", sys.executable, *MODULE]
    variables = environment(HOME=str(newcomer.home), SHUNTER_HOME=str(newcomer.home / "up"))
    found = subprocess.run(
        [*words, "up", "--gpus", "1"], env=variables, cwd="/", timeout=PATIENCE_S, check=False
    )
    assert found.returncode == 0
    assert newcomer.said("down").endswith(" has ended\n")


@pytest.mark.needs("root")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_daemon_outside_this_container_is_not_ended_from_here(newcomer: Person) -> None:
    newcomer.up("--gpus", "1")
    variables = environment(HOME=str(newcomer.home), SHUNTER_HOME=str(newcomer.home / "up"))
    found = subprocess.run(
        ["unshare", "--pid", "--fork", sys.executable, *MODULE, "down"],
        env=variables,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (found.returncode, "is in another container" in found.stderr) == (5, True)
