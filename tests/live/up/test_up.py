"""`shunter up` and `down`: real daemons in the background, their kills, and their users.

Goal: what the README promises of the first hour holds from any folder, for each user alone.
Method: the commands as a person types them, with a home that is empty.
"""

import json
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from shunter.client import Client
from tests.contracts.local_backends import empty
from tests.live.api.serving import PATIENCE_S, awaited, environment, in_the_foreground

pytestmark = pytest.mark.live

MODULE = ("-P", "-m", "shunter")


def _python_of_all() -> str:
    """Return a Python like ours that every user may run; ours may lie in a closed folder."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    closed = [folder for folder in Path(sys.executable).resolve().parents if not _may_enter(folder)]
    return f"/usr/bin/{version}" if closed else sys.executable


def _may_enter(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


@dataclass
class Person:
    """Somebody with a home of his own, who types commands elsewhere."""

    home: Path
    uid: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    def shunter(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        with self.begun(*words) as command:
            out, err = command.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(words, command.returncode, out, err)

    def begun(self, *words: str) -> "subprocess.Popen[str]":
        """Begin a command."""
        of_home = {"HOME": str(self.home), "SHUNTER_HOME": str(self.home / "up")}
        variables = dict(environment(**{**of_home, **self.variables}))
        if self.uid is not None:  # root's is a place of the whole machine
            packages = sysconfig.get_path("purelib")
            variables["PYTHONPATH"] = f"{variables['PYTHONPATH']}:{packages}"
            variables.pop("SHUNTER_HOME")
            variables.pop("XDG_RUNTIME_DIR", None)
        with in_the_foreground():
            return subprocess.Popen(
                [sys.executable if self.uid is None else _python_of_all(), *MODULE, *words],
                cwd="/",
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                user=self.uid,
                group=self.uid,
                extra_groups=None if self.uid is None else [],
            )

    def said(self, *words: str) -> str:
        """Return what a command prints that goes well."""
        found = self.shunter(*words)
        assert found.returncode == 0, found.stderr
        return found.stdout

    def up(self, *words: str) -> dict[str, Any]:
        """Return what `up` says of its daemon."""
        told: dict[str, Any] = json.loads(self.said("up", "--json", *words))
        return told

    def job(self, job_id: str) -> dict[str, Any]:
        """Return what is known of a job."""
        told: dict[str, Any] = json.loads(self.said("show", job_id, "--json"))
        return told

    def clean_up(self) -> None:
        """End the daemon and all that it started."""
        told = self.shunter("up", "--json")  # whatever the test left of it
        if told.returncode == 0:
            with suppress(ProcessLookupError):
                os.kill(json.loads(told.stdout)["pid"], signal.SIGKILL)
        for attempts in sorted(self.home.glob("**/shunter-attempts")):
            empty(str(attempts))


def person(uid: int | None = None) -> Iterator[Person]:
    """Yield somebody whose home has a short path, as sockets want it."""
    with tempfile.TemporaryDirectory(prefix="up-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        if uid is not None:
            os.chown(home, uid, uid)
        one = Person(home, uid)
        try:
            yield one
        finally:
            one.clean_up()


@pytest.fixture
def newcomer() -> Iterator[Person]:
    yield from person()


def test_two_commands_lead_to_the_output_of_a_job(newcomer: Person) -> None:
    said = newcomer.said("up", "--gpus", "2")
    assert "is up: process" in said
    assert f"log       {newcomer.home}/up/shunter.db" in said
    assert (
        newcomer.said("submit", "--wait", "--", "hostname").splitlines()[1] == os.uname().nodename
    )
    assert newcomer.said("logs", "j1").strip() == os.uname().nodename
    again = newcomer.said("up")
    assert "runs already: process" in again
    assert f"config    {newcomer.home}/up/shunter.toml" in again
    differs = newcomer.shunter("up", "--gpus", "3")
    assert (differs.returncode, "is there already, with 2 GPUs" in differs.stderr) == (2, True)


def test_machine_without_gpus_runs_what_asks_for_none(newcomer: Person) -> None:
    newcomer.up("--gpus", "0")
    newcomer.said("submit", "--wait", "--", "true")
    job = newcomer.job("j1")
    spec = job["spec"]
    assert (job["state"], spec["gpus"], spec["cpus_milli"]) == ("finished", 0, 1000)
    refused = newcomer.shunter("submit", "--gpus", "1", "--", "true")
    assert (refused.returncode, "there are 0 (GPUs" in refused.stderr) == (5, True)


def test_jobs_run_on_after_down_unless_they_are_to_end(newcomer: Person) -> None:
    newcomer.up("--gpus", "1")
    newcomer.said("submit", "--", "sleep", "1000")
    newcomer.said("submit", "--", "sleep", "1000")
    awaited(lambda: newcomer.job("j1")["state"] == "running")
    down = newcomer.said("down")
    assert " has ended; 1 job runs on; 1 job waits in its log; " in down
    assert (newcomer.home / "up" / "shunter.sock.lock").stat().st_mtime > 1e9
    messages = newcomer.home / "up" / "shunter.messages"
    first, *_, last = messages.read_text(encoding="utf-8").splitlines()
    dated = r"20[0-9]{2}-[0-9-]{5} [0-9:]{8}[+-][0-9:]{5} "
    assert re.fullmatch(dated + "ready: .*", first)
    assert re.fullmatch(dated + "stopped; 1 job runs on", last)
    for words in (["submit", "--", "true"], ["queue"]):
        lone = newcomer.shunter(*words)
        assert (lone.returncode, "`shunter up`" in lone.stderr) == (4, True)
        assert "tried again" not in lone.stderr
    socket = f"unix:{newcomer.home}/up/shunter.sock"
    assert newcomer.said("down") == f"no daemon is running on {socket}\n"
    refused = newcomer.shunter("down", "--end-jobs")
    assert (refused.returncode, "none can end its jobs" in refused.stderr) == (4, True)
    newcomer.up()
    found = newcomer.job("j1")
    assert (found["state"], len(found["attempts"])) == ("running", 1)
    assert newcomer.said("down", "--end-jobs").endswith(" has ended\n")
    assert messages.read_text(encoding="utf-8").endswith(" stopped; no job runs\n")
    newcomer.up()
    assert [newcomer.job(job)["state"] for job in ("j1", "j2")] == ["cancelled", "cancelled"]


def test_jobs_that_are_to_end_with_their_daemon_start_no_command_any_more(
    newcomer: Person,
) -> None:
    newcomer.up("--gpus", "1")
    newcomer.said("submit", "--gpus", "1", "--array", "1-8", "--", "sleep", "1000")
    newcomer.said("submit", "--gpus", "1", "--after", "j8:any", "--", "sleep", "1000")
    awaited(lambda: newcomer.job("j1")["state"] == "running")
    newcomer.said("down", "--end-jobs")
    newcomer.up()
    found = [newcomer.job(f"j{number}") for number in range(1, 10)]
    assert [one["state"] for one in found] == ["cancelled"] * 9
    assert [len(one["attempts"]) for one in found] == [1, *[0] * 8]


def test_job_behind_two_that_came_first_waits_for_no_guard_of_theirs(newcomer: Person) -> None:
    """With the config that `up` writes, whose minimum runtime keeps both in place for a minute."""
    newcomer.up("--gpus", "2")
    for _ in range(3):
        newcomer.said("submit", "--gpus", "1", "--", "sleep", "1000")
    awaited(lambda: newcomer.job("j2")["state"] == "running")
    why = json.loads(newcomer.said("why", "j3", "--json"))
    assert why["reason"]["name"] == "outranked"
    assert "a guard ends" not in why["short"]["to_do"]


def test_ten_kills_lose_no_submission_and_end_no_job(newcomer: Person) -> None:
    newcomer.up("--gpus", "1")
    newcomer.said("submit", "--", "sh", "-c", "echo $$; exec sleep 1000")
    awaited(lambda: newcomer.said("logs", "j1"))
    process = int(newcomer.said("logs", "j1"))
    for number in range(10):
        assert newcomer.said("submit", "--", "true") == f"submitted j{number + 2}\n"
        os.kill(newcomer.up()["pid"], signal.SIGKILL)
        assert newcomer.up()["has_started"]
    os.kill(process, 0)
    assert len(newcomer.job("j1")["attempts"]) == 1
    waiting = json.loads(newcomer.said("queue", "--json"))["jobs"]
    assert {job["id"] for job in waiting} == {f"j{number}" for number in range(1, 12)}


def test_time_between_the_end_of_a_job_and_the_next_daemon_is_not_counted(
    newcomer: Person,
) -> None:
    daemon = newcomer.up("--gpus", "2")["pid"]
    go_on = newcomer.home / "go-on"
    command = f"until test -e {go_on}; do sleep 0.05; done"
    newcomer.said("submit", "--gpus", "2", "--", "sh", "-c", command)
    awaited(lambda: newcomer.job("j1")["state"] == "running")
    os.kill(daemon, signal.SIGKILL)
    go_on.touch()
    (attempts,) = sorted(newcomer.home.glob("**/shunter-attempts"))
    (status,) = awaited(lambda: sorted(attempts.glob("**/j1/1/status")))
    awaited(lambda: time.time() > status.stat().st_mtime + 3)
    address = newcomer.up()["addresses"][0]
    with Client(address) as client:  # at once: a command would take its time to start
        assert client.queue()["jobs"] == []
        job = client.job("j1")
    (one,) = job["attempts"]
    began, ended, released = [
        datetime.fromisoformat(one[name]).timestamp()
        for name in ("started_at", "ended_at", "released_at")
    ]
    assert released > ended + 2
    assert job["service_gpu_s"] == pytest.approx(2 * (ended - began), abs=0.1)
    why = json.loads(newcomer.said("why", "j1", "--json"))
    (run,) = [part for part in why["timeline"] if part["what"] == "run"]
    assert (run["to_us"] - run["from_us"]) / 1e6 == why["totals"]["held_s"] < ended - began + 2


def test_submission_waits_for_a_daemon_that_was_killed_a_moment_ago(newcomer: Person) -> None:
    os.kill(newcomer.up("--gpus", "1")["pid"], signal.SIGKILL)
    with newcomer.begun("submit", "--", "true") as command:
        assert command.stderr is not None
        assert "it is tried again for 120 s" in command.stderr.readline()
        newcomer.up()
        out, _ = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, out) == (0, "submitted j1\n")


def test_two_that_are_typed_at_once_start_one_daemon(newcomer: Person) -> None:
    commands = [newcomer.begun("up", "--json", "--gpus", "1") for _ in range(4)]
    told = []
    for command in commands:
        out, err = command.communicate(timeout=PATIENCE_S)
        assert command.returncode == 0, err
        told.append(json.loads(out))
    assert sorted(one["has_started"] for one in told) == [False, False, False, True]
    assert len({one["pid"] for one in told}) == 1


def test_daemon_that_cannot_start_says_why_and_is_not_waited_for(newcomer: Person) -> None:
    os.kill(newcomer.up("--gpus", "1")["pid"], signal.SIGKILL)
    lock = newcomer.home / "up" / "shunter.sock.lock"
    os.utime(lock, (0, 0))  # as if that had been long ago
    (newcomer.home / "up" / "shunter.db.anchor").unlink()
    (newcomer.home / "up" / "shunter.db").write_bytes(b"no log")
    (newcomer.home / "up" / "shunter.db-wal").unlink(missing_ok=True)
    found = newcomer.shunter("up")
    assert found.returncode == 2
    assert "shunter.db is not a Shunter" in found.stderr
    assert "the daemon did not come up: it ended with code 2" in found.stderr
    assert not (newcomer.home / "up" / "shunter.sock").exists()
    lone = newcomer.shunter("submit", "--", "true")
    assert (lone.returncode, "tried again" in lone.stderr) == (4, False)
    (newcomer.home / "up" / "shunter.db").unlink()


@pytest.mark.needs("root")
def test_full_disk_is_named_and_leaves_no_part_of_a_config(newcomer: Person) -> None:
    """Method: a disk with room for nothing, then for the config and not for the log."""
    disk = newcomer.home / "up"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k", "small", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs to mount a tmpfs")
    try:
        (disk / "fill").write_bytes(bytes(48 * 1024))
        full = newcomer.shunter("up")
        assert (full.returncode, "No space left on device" in full.stderr) == (2, True)
        assert sorted(disk.iterdir()) == [disk / "fill"]
        (disk / "fill").write_bytes(bytes(20 * 1024))
        silent = newcomer.shunter("up")
        assert (silent.returncode, f"the disk of {disk} has 0 kB free" in silent.stderr) == (
            1,
            True,
        )
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_config_of_its_own_is_served_from_any_folder(newcomer: Person) -> None:
    config = newcomer.home / "site.toml"
    newcomer.said("init", "--local", "--gpus", "1", "--out", str(config))
    text = config.read_text(encoding="utf-8")
    assert 'listen = "unix:"' in text
    socket = f"unix:{newcomer.home}/its.sock"
    config.write_text(text.replace('"unix:"', f'"{socket}"'), encoding="utf-8")
    newcomer.variables = {"SHUNTER_URL": socket}
    told = newcomer.up(str(config))
    assert (told["config"], told["addresses"]) == (str(config), [socket])
    assert told["log"] == str(newcomer.home / "shunter.db")
    newcomer.said("submit", "--wait", "--", "true")
    missing = newcomer.shunter("up", str(newcomer.home / "none.toml"))
    assert (missing.returncode, "`shunter init` writes one" in missing.stderr) == (3, True)
    ended = f"the daemon on {socket} (process {told['pid']}) has ended\n"
    assert newcomer.said("down") == ended


def test_home_that_is_named_means_its_daemon_alone(newcomer: Person) -> None:
    """Goal: no command reaches another daemon of the same person."""
    config = newcomer.home / "site.toml"
    newcomer.said("init", "--local", "--gpus", "1", "--out", str(config))
    usual = f"unix:{newcomer.home}/run/shunter.sock"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace('"unix:"', f'"{usual}"'), encoding="utf-8")
    newcomer.variables = {"XDG_RUNTIME_DIR": str(newcomer.home / "run"), "SHUNTER_URL": usual}
    pid = newcomer.up(str(config))["pid"]
    newcomer.said("submit", "--", "sleep", "1000")
    newcomer.variables = {"XDG_RUNTIME_DIR": str(newcomer.home / "run")}
    socket = f"unix:{newcomer.home}/up/shunter.sock"
    for words in (["down", "--end-jobs"], ["queue"], ["submit", "--", "true"]):
        refused = newcomer.shunter(*words)
        assert (refused.returncode, socket in refused.stderr) == (4, True)
    newcomer.variables = {"SHUNTER_URL": usual}
    assert newcomer.up(str(config))["pid"] == pid
    assert newcomer.job("j1")["state"] in ("waiting", "running")
    newcomer.said("down", "--end-jobs")


def test_second_daemon_of_a_machine_is_warned_of_the_first(newcomer: Person) -> None:
    first = newcomer.up("--gpus", "1")["pid"]
    variables = newcomer.variables
    newcomer.variables = {"SHUNTER_HOME": str(newcomer.home / "second")}
    try:
        second = newcomer.shunter("up", "--gpus", "1")
        assert second.returncode == 0
        warned = f"another daemon runs on this machine (process {first}, its socket in "
        assert f"{warned}{newcomer.home}/up): if it has the same GPUs" in second.stderr
        assert newcomer.shunter("up").stderr.count(warned) == 0
        newcomer.said("down")
    finally:
        newcomer.variables = variables


@pytest.mark.needs("root")
def test_two_users_neither_see_nor_disturb_each_other() -> None:
    people = [person(one.pw_uid) for one in pwd.getpwall() if one.pw_name in ("daemon", "nobody")]
    ana, ben = map(next, people)
    try:
        if not Path(_python_of_all()).exists():
            pytest.skip(f"needs {_python_of_all()}: users cannot enter the folder of ours")
        for one in (ana, ben):
            assert one.up("--gpus", "1")["has_started"]
            assert f"{one.home}/.shunter/" in one.up()["config"]
        ana.said("submit", "--name", "hers", "--", "sleep", "1000")
        ben.said("submit", "--wait", "--name", "his", "--", "true")
        awaited(lambda: ana.job("j1")["state"] == "running")
        assert [one.job("j1")["spec"]["name"] for one in (ana, ben)] == ["hers", "his"]
        foreign = ben.shunter("down", "--url", ana.up()["addresses"][0])
        assert (foreign.returncode, "may not be opened by this user" in foreign.stderr) == (5, True)
        ben.said("down", "--end-jobs")
        assert ana.job("j1")["state"] == "running"
        assert ana.said("down", "--end-jobs").endswith(" has ended\n")
    finally:
        for each in people:
            next(each, None)
