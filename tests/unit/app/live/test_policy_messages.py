"""What passes between a daemon and the process of its policy, when one of them dies."""

import socket
import struct

from shunter.app.live.policy.messages import HEADER, receive


def test_daemon_that_goes_in_mid_message_is_gone() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(HEADER.pack(100) + b"half of it")
        theirs.close()
        assert receive(ours) is None


def test_daemon_that_was_killed_before_it_had_read_all_is_gone() -> None:
    """Its end of the connection is reset then, which is no less of an end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        assert receive(ours) is None
