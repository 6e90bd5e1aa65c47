import os
import socket
import time
from pathlib import Path

import pytest

from shunter.addresses import (
    LATELY_S,
    SYSTEM_SOCKET,
    TcpAddress,
    UnixAddress,
    find_address,
    home_of_up,
    lock_of,
    parse_address,
    socket_of_up,
    usual_socket,
    was_there_lately,
)
from shunter.errors import UnreachableError, UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unix:/run/a.sock", UnixAddress("/run/a.sock")),
        ("tcp:127.0.0.1:8711", TcpAddress("127.0.0.1", 8711)),
        ("http://localhost:8711/", TcpAddress("localhost", 8711)),
        ("https://[::1]:8711", TcpAddress("::1", 8711, has_tls=True)),
    ],
)
def test_an_address_is_read(text: str, expected: UnixAddress | TcpAddress) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "8711", "ftp://a:1", "http://a", "http://:1", "http://a:1/b", "tcp:a:b"),
        *("unix:a.sock", "http://a..b:1", "http://..:1", f"http://{'a' * 64}:1", "http://[::1:1"),
    ],
)
def test_what_is_no_address_says_how_one_is_written(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert "unix:" in str(caught.value)


def test_addresses_of_ipv6_stand_in_brackets() -> None:
    assert TcpAddress("::1", 8711).url == "http://[::1]:8711"


def test_root_listens_where_everybody_looks() -> None:
    assert usual_socket({"XDG_RUNTIME_DIR": "/run/user/7"}, uid=0) == SYSTEM_SOCKET
    assert usual_socket({"XDG_RUNTIME_DIR": "/run/user/7"}, uid=7) == "/run/user/7/shunter.sock"


def test_user_without_a_home_reads_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(kind: type[Path]) -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", classmethod(nowhere))
    with pytest.raises(UsageError, match="set HOME"):
        home_of_up({}, uid=7)
    with pytest.raises(UsageError, match="set HOME"):
        usual_socket({}, uid=7)
    assert home_of_up({"SHUNTER_HOME": "/a"}, uid=7) == Path("/a")


def test_what_is_given_comes_before_the_environment() -> None:
    environ = {"SHUNTER_URL": "tcp:localhost:2"}
    assert find_address("tcp:localhost:1", environ) == TcpAddress("localhost", 1)
    assert find_address(None, environ) == TcpAddress("localhost", 2)


def test_nothing_to_talk_to_says_what_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shunter.addresses.SYSTEM_SOCKET", str(tmp_path / "none.sock"))
    with pytest.raises(UnreachableError) as caught:
        find_address(None, {"XDG_RUNTIME_DIR": str(tmp_path)})
    assert "`shunter up` starts one" in str(caught.value)


def used(path: Path, ago_s: float = 0.0) -> UnixAddress:
    """Make what a daemon leaves of a socket; return its address."""
    lock = Path(lock_of(str(path)))
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    at_s = time.time() - ago_s
    os.utime(lock, (at_s, at_s))
    return UnixAddress(str(path))


def test_daemon_was_there_lately_while_its_lock_is_fresh(tmp_path: Path) -> None:
    assert was_there_lately(used(tmp_path / "fresh", LATELY_S - 60))
    assert not was_there_lately(used(tmp_path / "old", LATELY_S + 60))
    assert not was_there_lately(used(tmp_path / "clock-was-set-back", -3600))
    assert not was_there_lately(UnixAddress(str(tmp_path / "never")))
    assert was_there_lately(TcpAddress("gpu1", 8711))


def test_daemon_that_answers_comes_before_what_others_have_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shunter.addresses.SYSTEM_SOCKET", str(tmp_path / "system.sock"))
    monkeypatch.setattr("os.getuid", lambda: 7)
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "run")}
    monkeypatch.setenv("HOME", str(tmp_path))
    left = used(tmp_path / "run" / "shunter.sock", LATELY_S + 60)
    assert find_address(None, environ) == left
    restarting = used(Path(socket_of_up(environ)))
    assert find_address(None, environ) == restarting
    answering = used(tmp_path / "system.sock", LATELY_S + 60)
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(answering.path)
        assert find_address(None, environ) == restarting  # it takes no connections yet
        daemon.listen()
        assert find_address(None, environ) == answering


@pytest.mark.parametrize("uid", [0, 7])
def test_home_that_is_named_means_its_daemon_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int
) -> None:
    monkeypatch.setattr("shunter.addresses.SYSTEM_SOCKET", str(tmp_path / "system.sock"))
    monkeypatch.setattr("os.getuid", lambda: uid)
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "SHUNTER_HOME": str(tmp_path / "up")}
    used(tmp_path / "run" / "shunter.sock")
    used(tmp_path / "system.sock")
    named = UnixAddress(str(tmp_path / "up" / "shunter.sock"))
    assert find_address(None, environ) == named
    assert find_address(None, environ, own_only=True) == named


def test_what_ends_a_daemon_leaves_that_of_the_machine_where_there_was_an_own_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shunter.addresses.SYSTEM_SOCKET", str(tmp_path / "system.sock"))
    monkeypatch.setattr("os.getuid", lambda: 7)
    monkeypatch.setenv("HOME", str(tmp_path))
    system = used(tmp_path / "system.sock")
    assert find_address(None, {}, own_only=True) == system
    own = used(Path(socket_of_up({})), LATELY_S + 60)
    assert find_address(None, {}) == system
    assert find_address(None, {}, own_only=True) == own
    monkeypatch.setattr("os.getuid", lambda: 0)
    assert find_address(None, {}, own_only=True) == system


def test_each_machine_has_a_folder_of_its_own_in_a_home_that_they_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/srv/ana")
    monkeypatch.setattr("socket.gethostname", lambda: "gpu 1.lab.example")
    assert home_of_up({}, uid=7) == Path("/srv/ana/.shunter/gpu-1")
    assert socket_of_up({}, uid=7) == "/srv/ana/.shunter/gpu-1/shunter.sock"
    assert home_of_up({}, uid=0) == Path("/var/lib/shunter/gpu-1")
    assert socket_of_up({}, uid=0) == SYSTEM_SOCKET
    assert home_of_up({"SHUNTER_HOME": "/scratch/ana"}, uid=0) == Path("/scratch/ana")
