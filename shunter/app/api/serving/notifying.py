"""Telling systemd that the daemon is ready, or about to stop (units of `Type=notify`)."""

import os
import socket
from contextlib import suppress

__all__ = ["notify"]


def notify(state: str) -> None:
    """Send `READY=1`, `STOPPING=1` or the like to whoever started us, if he listens."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path[:1] not in ("/", "@"):
        return
    # An abstract name begins with a zero byte, which a variable cannot hold.
    address = "\0" + path[1:] if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.sendto(state.encode(), address)
