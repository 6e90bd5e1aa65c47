"""A daemon that goes away in the midst of an answer, played by a real socket."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shunter.client import Client
from shunter.errors import UnreachableError

ANSWER = b'{"schema_version":1,"id":"j1","ids":["j1"],"seq":3,"is_dry_run":false,"would":""}'
HEAD = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
WHOLE = HEAD % len(ANSWER) + ANSWER


def unix_socket(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.bind(str(path))
    found.listen()
    return found


@contextmanager
def answering(to: Path | socket.socket, *answers: bytes) -> Iterator[list[bytes]]:
    """Take a connection for each answer, send that, and hang up; yield what was asked."""
    asked: list[bytes] = []
    with unix_socket(to) if isinstance(to, Path) else to as listener:

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
    answers = (lost, WHOLE, WHOLE)
    with answering(tmp_path / "s", *answers) as asked, Client(f"unix:{tmp_path}/s") as client:
        assert client.submit(["true"]).id == "j1"
        assert len(set(keys(asked))) == 1
        assert len(asked) == 2
        assert client.submit(["true"]).id == "j1"
    assert len(set(keys(asked))) == 2, "each submission has a key of its own"


@pytest.mark.parametrize(
    ("ask", "times"),
    [(lambda client: client.submit(["true"]), 2), (lambda client: client.cancel("j1"), 1)],
    ids=["submission", "anything else"],
)
def test_question_without_an_answer_is_sent_so_often_at_most(
    tmp_path: Path, ask: Callable[[Client], object], times: int
) -> None:
    with answering(tmp_path / "s", *[b""] * times) as asked:
        with Client(f"unix:{tmp_path}/s") as client, pytest.raises(UnreachableError):
            ask(client)
        assert len(asked) == times
