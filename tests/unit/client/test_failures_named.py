"""What a connection that fails is told as: "no daemon answers" only where none does."""

import os
import re
import socket
import threading
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from shunter.addresses import find_address, lock_of
from shunter.cli import app
from shunter.client import Client, async_client, named
from shunter.errors import ShunterError, UnavailableError, UnreachableError
from tests.unit.client.test_lost_answers import answering, unix_socket

NONE = "no daemon answers"


def failure(url: str) -> ShunterError:
    with Client(url) as client, pytest.raises(ShunterError) as caught:
        client.daemon()
    return caught.value


def test_nobody_was_ever_there(tmp_path: Path) -> None:
    error = failure(f"unix:{tmp_path}/s")
    assert (type(error), NONE in str(error)) == (UnreachableError, True)


@pytest.mark.parametrize("left", ["s", "s.lock"])
def test_daemon_gone_may_come_again(tmp_path: Path, left: str) -> None:
    if left == "s":
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(f"{tmp_path}/s")
    else:
        (tmp_path / left).touch()
    error = failure(f"unix:{tmp_path}/s")
    assert (type(error), NONE in str(error)) == (UnavailableError, True)


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (b"", UnavailableError, "went away"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", UnavailableError, "went away"),
        (b"220 mail.example ESMTP\r\n\r\n", UnreachableError, "no daemon of Shunter's"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", UnreachableError, "no daemon of"),
    ],
    ids=("silent", "cut", "mail", "words"),
)
def test_bad_answer_is_told_as_such(
    tmp_path: Path, said: bytes, kind: type[ShunterError], words: str
) -> None:
    with answering(tmp_path / "s", said):
        error = failure(f"unix:{tmp_path}/s")
    assert type(error) is kind
    assert words in str(error)
    assert NONE not in str(error)


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        (httpx.ConnectTimeout("timed out"), "took no connection"),
        (httpx.ReadTimeout("timed out"), "did not answer in time"),
        (httpx.PoolTimeout(""), "did not answer in time"),
        (httpx.WriteTimeout(""), "did not answer in time"),
    ],
)
def test_time_that_ran_out_is_no_absence(failed: httpx.TransportError, words: str) -> None:
    with (
        pytest.raises(UnreachableError, match=words) as caught,
        named(find_address("tcp:localhost:1")),
    ):
        raise async_client.link_error(failed)
    assert type(caught.value) is UnreachableError
    assert NONE not in str(caught.value)


def test_silent_daemon_is_named_with_how_to_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shunter.client.transport.READ_S", 0.1)
    with unix_socket(tmp_path / "s"):
        error = failure(f"unix:{tmp_path}/s")
        assert f"`kill -9 {os.getpid()}` ends it and no job, then `shunter up`" in str(error)
        assert "may have done" not in str(error)
        with Client(f"unix:{tmp_path}/s") as client, pytest.raises(UnreachableError) as caught:
            client.cancel("j1")
    assert "it may have done what was asked" in str(caught.value)


def test_it_is_said_while_a_daemon_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shunter.client.transport.SLOW_S", 0.0)
    said = threading.Event()
    with unix_socket(tmp_path / "s"), Client(f"unix:{tmp_path}/s") as client:
        client.on_slow = said.set
        asking = threading.Thread(target=_fail, args=(client,), daemon=True)
        monkeypatch.setattr("shunter.client.transport.READ_S", 30.0)
        asking.start()
        assert said.wait(30)
    asking.join(60)


def _fail(client: Client) -> None:
    with suppress(ShunterError, RuntimeError):
        client.daemon()


def test_submission_that_may_have_happened_says_how_it_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shunter.client.transport.READ_S", 0.1)
    words = ["submit", "--url", f"unix:{tmp_path}/s", "--export", "none"]
    with unix_socket(tmp_path / "s"):
        found = CliRunner().invoke(app, [*words, "--", "true"])
        named_key = CliRunner().invoke(app, [*words, "--dedupe-key", "k", "--", "true"])
    assert re.search(r"submit again with --dedupe-key [0-9a-f]{32}", found.stderr)
    assert "submit again" not in named_key.stderr


def test_host_that_nobody_knows_is_named() -> None:
    error = failure("http://no-such-host.invalid:1")
    assert type(error) is UnreachableError
    assert "knows the host" in str(error)


def test_certificate_that_nobody_trusts_is_told_as_such() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with answering(listener, b"HTTP/1.1 400 Bad Request\r\n\r\n"):
        error = failure(f"https://127.0.0.1:{port}")
    assert type(error) is UnreachableError
    assert "SHUNTER_CA_FILE" in str(error)


def test_usual_daemon_that_starts_anew_is_found_by_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{tmp_path}/shunter.sock"
    monkeypatch.setattr("shunter.addresses.SYSTEM_SOCKET", path)
    Path(lock_of(path)).touch()
    assert str(find_address(None, {"XDG_RUNTIME_DIR": str(tmp_path)})) == f"unix:{path}"
