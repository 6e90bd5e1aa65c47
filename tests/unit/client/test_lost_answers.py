"""A daemon that goes away in the midst of an answer, played by a real socket."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shunter.client import Client
from shunter.errors import UnreachableError

ANSWER = b'{"schema_version":1,"id":"j1","ids":["j1"],"seq":3,"is_dry_run":false,"would":""}'
HEAD = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
WHOLE = HEAD % len(ANSWER) + ANSWER


@contextmanager
def answering(path: Path, *answers: bytes) -> Iterator[list[bytes]]:
    """Take a connection for each answer, send that, and hang up; yield what was asked."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    asked.append(connection.recv(65_536))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield asked
        thread.join(30)


def keys(asked: list[bytes]) -> list[bytes]:
    return [re.findall(rb"(?i)idempotency-key: (\S+)", request)[0] for request in asked]


@pytest.mark.parametrize("lost", [b"", WHOLE[:40], WHOLE[:-5]])
def test_submission_whose_answer_is_lost_is_sent_again_under_its_key(
    tmp_path: Path, lost: bytes
) -> None:
    with answering(tmp_path / "s", lost, WHOLE) as asked, Client(f"unix:{tmp_path}/s") as client:
        assert client.submit(["true"]).id == "j1"
    assert len(set(keys(asked))) == 1
    assert len(asked) == 2


def test_submission_is_sent_twice_at_most(tmp_path: Path) -> None:
    with (
        answering(tmp_path / "s", b"", b"") as asked,
        Client(f"unix:{tmp_path}/s") as client,
        pytest.raises(UnreachableError),
    ):
        client.submit(["true"])
    assert len(asked) == 2


def test_each_submission_has_a_key_of_its_own(tmp_path: Path) -> None:
    with answering(tmp_path / "s", WHOLE, WHOLE) as asked:
        for _ in range(2):
            with Client(f"unix:{tmp_path}/s") as client:
                client.submit(["true"])
    assert len(set(keys(asked))) == 2


def test_what_changes_something_else_is_not_repeated(tmp_path: Path) -> None:
    with (
        answering(tmp_path / "s", b"") as asked,
        Client(f"unix:{tmp_path}/s") as client,
        pytest.raises(UnreachableError),
    ):
        client.cancel("j1")
    assert len(asked) == 1
