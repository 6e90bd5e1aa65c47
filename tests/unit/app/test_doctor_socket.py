"""What doctor says of a socket on which something else, or nothing any more, listens."""

import socket
import threading
from pathlib import Path

from shunter.addresses import UnixAddress
from shunter.app.doctor.checks import _socket


def test_socket_of_a_daemon_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(f"{tmp_path}/s")
    (finding,) = _socket(UnixAddress(f"{tmp_path}/s"))
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
        (finding,) = _socket(UnixAddress(f"{tmp_path}/s"))
        thread.join(30)
    assert (finding.state, "no daemon of Shunter's" in finding.what) == ("bad", True)
