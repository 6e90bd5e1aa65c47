"""`shunter up` and `down`: the lock of a socket, the unit of systemd, daemons that are gone."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from shunter.addresses import UnixAddress
from shunter.api import take_lock
from shunter.cli import app, unit_text, up
from shunter.errors import UnavailableError

ADDRESS = UnixAddress("/run/a.sock")


@pytest.fixture(autouse=True)
def _ended_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another command end the daemon once it has been found."""

    def nobody(url: str | None) -> NoReturn:
        raise UnavailableError(f"no daemon answers on {url}")

    found = iter([(1, ADDRESS), None])
    monkeypatch.setattr(up, "settled_daemon_at", lambda _addresses, _busy: next(found))
    monkeypatch.setattr(up, "connect", nobody)


def test_daemon_that_another_ends_meanwhile_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    up.down(end_jobs=False, url=str(ADDRESS))
    assert (
        capsys.readouterr().out == "no daemon is running on this machine: it was ended meanwhile\n"
    )


def test_jobs_that_were_to_end_are_not_said_to_have() -> None:
    with pytest.raises(UnavailableError):
        up.down(end_jobs=True, url=str(ADDRESS))


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def test_daemon_is_not_kept_out_by_who_looks_whether_one_is_there(tmp_path: Path) -> None:
    path, is_over, looks = tmp_path / "lock", threading.Event(), threading.Semaphore(0)

    def look() -> None:
        while not is_over.is_set():
            with opened(path) as descriptor:
                with suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                looks.release()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(500):
            looks.acquire()  # it is at it
            with opened(path) as descriptor:
                assert take_lock(descriptor)
    finally:
        is_over.set()
        looking.join()


def test_lock_of_another_daemon_is_not_taken(tmp_path: Path) -> None:
    with opened(tmp_path / "lock") as first, opened(tmp_path / "lock") as second:
        assert take_lock(first)
        assert not take_lock(second)


UNIT = """\
# A scheduler of your own, kept up by systemd:
#
#   mkdir -p ~/.config/systemd/user
#   shunter up --systemd-unit > ~/.config/systemd/user/shunter.service
#   systemctl --user enable --now shunter
#   loginctl enable-linger            # so that it lives while you are logged out
[Unit]
Description=Shunter, a scheduler for deep-learning jobs

[Service]
ExecStart=/opt/py/bin/python -P -m shunter serve "/srv/ana b/100%%.toml"
# It says when it takes commands; why a start failed is in the journal.
Type=notify
Restart=on-failure
RestartSec=2
# 2: the config is wrong, 5: another daemon is at work. Trying again would change nothing.
RestartPreventExitStatus=2 5
# A stop ends the daemon alone: its jobs run on, and the next start finds them again.
KillMode=process
# Lets the daemon hold jobs to the memory they asked for, where systemd delegates that to users.
Delegate=yes
LimitNOFILE=65536
TasksMax=infinity

[Install]
WantedBy=default.target
"""


def test_unit_is_as_it_was_agreed() -> None:
    words = ["/opt/py/bin/python", "-P", "-m", "shunter", "serve", "/srv/ana b/100%.toml"]
    assert unit_text(words, is_root=False) == UNIT


def test_unit_of_root_is_one_of_the_machine() -> None:
    text = unit_text(["shunter", "serve", "/a.toml"], is_root=True)
    assert text.startswith(
        "# A scheduler of this machine, kept up by systemd:\n#\n"
        "#   shunter up --systemd-unit > /etc/systemd/system/shunter.service\n"
        "#   systemctl enable --now shunter\n[Unit]\n"
    )
    assert text.endswith("WantedBy=multi-user.target\n")
    assert "--user" not in text


def test_printing_a_unit_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUNTER_HOME", str(tmp_path / "up"))
    found = CliRunner().invoke(app, ["up", "--systemd-unit"])
    assert (found.exit_code, "ExecStart=" in found.stdout) == (0, True)
    assert f"{tmp_path}/up/shunter.toml is not there yet: `shunter up` writes it" in found.stderr
    assert sorted(tmp_path.iterdir()) == []
