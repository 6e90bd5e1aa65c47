from pathlib import Path

import pytest

from shunter.addresses import (
    SYSTEM_SOCKET,
    TcpAddress,
    UnixAddress,
    find_address,
    parse_address,
    usual_socket,
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
    ["", "8711", "ftp://a:1", "http://a", "http://:1", "http://a:1/b", "tcp:a:b", "unix:a.sock"],
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
    assert "shunter serve" in str(caught.value)
