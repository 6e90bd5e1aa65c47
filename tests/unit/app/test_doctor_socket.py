"""What doctor says of sockets and ports on which something else, or nothing any more, listens."""

import socket
import threading
from pathlib import Path

import pytest

from shunter.addresses import TcpAddress, UnixAddress
from shunter.ops import Looked, sockets
from shunter.ops.doctor import _port, _socket


def test_socket_of_a_daemon_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(f"{tmp_path}/s")
    (finding,) = _socket(UnixAddress(f"{tmp_path}/s"), Looked())
    assert (finding.state, "is gone" in finding.what) == ("good", True)


def test_socket_of_another_program_is_one(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/s")
        listener.listen()

        def serve() -> None:
            was_asked = b""
            while not was_asked:  # doctor first looks whether anybody listens
                connection, _ = listener.accept()
                with connection:
                    was_asked = connection.recv(65_536)
                    if was_asked:
                        connection.sendall(b"220 mail.example ESMTP\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        (finding,) = _socket(UnixAddress(f"{tmp_path}/s"), Looked())
        thread.join(30)
    assert (finding.state, "no daemon of Shunter's" in finding.what) == ("bad", True)


def test_without_a_config_the_socket_of_up_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_HOME", str(tmp_path))
    (finding,) = sockets(Looked())
    assert finding.what == f"unix:{tmp_path}/shunter.sock is free"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(f"{tmp_path}/shunter.sock")
    (finding,) = sockets(Looked())
    assert f"{tmp_path}/shunter.sock is left from" in finding.what


def test_port_of_another_program_is_a_fault() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"220 mail.example ESMTP\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        found = _port(TcpAddress("127.0.0.1", port))
        thread.join(30)
    assert found is not None
    assert (found.state, "take another port" in found.what) == ("bad", True)
    assert _port(TcpAddress("127.0.0.1", port)) is None
