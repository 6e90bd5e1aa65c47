"""How the waiting client speaks HTTP: with a server played by a real socket."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from shunter.client import Client, transport
from shunter.errors import UnavailableError, UnreachableError, UsageError
from tests.unit.client.test_lost_answers import unix_socket

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
FINE = HEAD % 2 + b"{}"
GOES = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
PIECES = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
REFUSED = b'{"code": "too_large", "detail": "16,000,000 bytes at most"}'


@contextmanager
def served(path: Path, *connections: Callable[[socket.socket], None]) -> Iterator[Client]:
    """Let each connection in turn be served by a function; yield a client."""
    with unix_socket(path) as listener:

        def serve() -> None:
            for each in connections:
                taken, _ = listener.accept()
                with taken:
                    each(taken)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with Client(f"unix:{path}") as client:
            yield client
        thread.join(30)
        assert not thread.is_alive(), "the client left something open, or made one connection less"


def answers(*each: bytes) -> Callable[[socket.socket], None]:
    """Answer so many requests of one connection, then end it."""

    def serve(taken: socket.socket) -> None:
        for answer in each:
            assert taken.recv(65_536)
            taken.sendall(answer)

    return serve


@pytest.mark.parametrize(
    "answer",
    [
        FINE,
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + FINE,
        PIECES + b"1\r\n{\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n",
    ],
    ids=("whole", "after a hint", "in pieces"),
)
def test_connection_whose_answer_was_read_is_used_again(tmp_path: Path, answer: bytes) -> None:
    with served(tmp_path / "s", answers(answer, answer)) as client:
        assert [client.daemon(), client.daemon()] == [{}, {}]


@pytest.mark.parametrize("first", [FINE, GOES + b"{}"], ids=("ended later", "told to end"))
def test_connection_that_the_daemon_has_ended_is_made_anew(tmp_path: Path, first: bytes) -> None:
    with served(tmp_path / "s", answers(first), answers(FINE)) as client:
        assert client.daemon() == {}
        assert client.daemon() == {}


def one_answer(taken: socket.socket) -> None:
    """Answer a request, and end when the next one has come."""
    answers(FINE)(taken)
    assert taken.recv(65_536)


def test_question_is_asked_again_where_a_used_connection_ends(tmp_path: Path) -> None:
    with served(tmp_path / "s", one_answer, answers(FINE)) as client:
        assert [client.daemon(), client.daemon()] == [{}, {}]


def test_change_is_not_asked_again_where_a_used_connection_ends(tmp_path: Path) -> None:
    with served(tmp_path / "s", one_answer) as client:
        assert client.daemon() == {}
        with pytest.raises(UnavailableError, match="went away"):
            client.cancel("j1")


def test_connection_with_half_an_answer_is_not_used_again(tmp_path: Path) -> None:
    def logs(taken: socket.socket) -> None:
        taken.recv(65_536)
        taken.sendall(PIECES + b"3\r\none\r\n")
        assert not taken.recv(1), "it is closed, and nothing else is asked on it"

    with served(tmp_path / "s", logs, answers(FINE)) as client:
        output = client.logs("j1")
        assert next(iter(output)) == b"one"
        output.close()  # type: ignore[attr-defined]  # it is a generator
        assert client.daemon() == {}


def test_refusal_comes_before_a_large_request_was_read(tmp_path: Path) -> None:
    def refuse(taken: socket.socket) -> None:
        taken.recv(10)
        taken.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n" % len(REFUSED))
        taken.sendall(b"Connection: close\r\n\r\n" + REFUSED)
        taken.shutdown(socket.SHUT_RD)

    with (
        served(tmp_path / "s", refuse) as client,
        pytest.raises(UsageError, match="16,000,000 bytes at most"),
    ):
        client.submit(["true", "x" * 8_000_000], environment={})


def test_events_of_a_stream_come_in_any_pieces(tmp_path: Path) -> None:
    event = b'id: 7\nevent: JobSubmitted\r\ndata: {"name": "a"}\n\n'
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in event)
    with served(tmp_path / "s", answers(PIECES + pieces + b"0\r\n\r\n")) as client:
        (found,) = client.stream()
    assert (found.seq, found.kind, found.fields) == (7, "JobSubmitted", {"name": "a"})


def test_answer_that_is_still_read_keeps_no_other_request(tmp_path: Path) -> None:
    def logs(taken: socket.socket) -> None:
        taken.recv(65_536)
        taken.sendall(PIECES + b"3\r\none\r\n")

    with served(tmp_path / "s", logs, answers(FINE, FINE)) as client:
        output = client.logs("j1")
        assert next(iter(output)) == b"one"
        assert [client.daemon(), client.daemon()] == [{}, {}]


def test_stream_that_is_cut_says_so_after_what_came(tmp_path: Path) -> None:
    with served(tmp_path / "s", answers(PIECES + b"3\r\none\r\n")) as client:
        output = iter(client.logs("j1"))
        assert next(output) == b"one"
        with pytest.raises(UnavailableError, match="went away"):
            next(output)


@pytest.mark.parametrize(
    ("begin", "again"),
    [(b"HTTP/1.1 200 OK\r\n", b"X-More: x\r\n"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n")],
    ids=("headers", "hints"),
)
def test_answer_that_never_comes_to_its_body_is_waited_for_no_longer_than_a_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: bytes, again: bytes
) -> None:
    monkeypatch.setattr(transport, "READ_S", 0.3)

    def drips(taken: socket.socket) -> None:
        taken.recv(65_536)
        taken.sendall(begin)
        with suppress(BrokenPipeError):
            for _ in range(100):
                taken.sendall(again)
                time.sleep(0.05)

    with served(tmp_path / "s", drips) as client, pytest.raises(UnreachableError, match="in time"):
        client.daemon()
