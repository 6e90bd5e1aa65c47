"""The connection of a pilot to its daemon: TLS 1.3, where each side knows the other's key.

The pilot's file (`shunter.backends.slurm.pilot_channel` writes it) holds a line of JSON, its
private key and its certificate. It must be ours and nobody else's to read, or its key is no secret.
It is read anew for each try, since the daemon may have moved, or renewed the certificate.

The pilot says one line, {"version", "do", "instance", ...}, and the daemon answers one: {"nonce"}
of the RPC session that follows, {"refused": why, "is_over": no use in another try}, or {} to a
notice. Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.

from __future__ import annotations

import json
import os
import stat
import time
from base64 import b64decode
from contextlib import ExitStack
from typing import TYPE_CHECKING

from shunter.backends.node.messages.shapes import (
    WrongMessageError,
    a_flag,
    a_list,
    a_number,
    a_record,
    a_text,
    a_whole,
    parsed,
)
from shunter.backends.node.records import open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext, SSLSocket

    from shunter.backends.node.messages.wire import PilotAnswer, PilotFile, Shape

PILOT_VERSION = 1
SERVER_NAME = "daemon.shunter.invalid"  # whatever its address: the certificate stands for a role
PILOT_FILE_BYTES_MOST = 1 << 16
PILOT_LINE_BYTES_MOST = 4096
YEAR_S = 366 * 86_400.0
PILOT_FILE: Shape[PilotFile] = a_record(
    {
        "version": a_whole(PILOT_VERSION, PILOT_VERSION),
        "name": a_text(64),
        "addresses": a_list(a_text(256), 16),
        "port": a_whole(1, 65535),
        "cluster": a_text(64),
        "silent_s": a_number(0.1, YEAR_S),
        "patience_s": a_number(0, YEAR_S),
        "drain_s": a_number(0, YEAR_S),
        "notice_s": a_number(0, YEAR_S),
        "trust": a_text(PILOT_FILE_BYTES_MOST),
    }
)
PILOT_ANSWER: Shape[PilotAnswer] = a_record(
    {}, {"nonce": a_text(64), "refused": a_text(PILOT_LINE_BYTES_MOST), "is_over": a_flag}
)


class UnsafePilotFileError(OSError):
    """The file of a pilot is not one that only we can read."""


def read_pilot_file(path: str) -> tuple[PilotFile, SSLContext]:
    """Return what a pilot's file says, and the keys to dial with.

    Raises:
        UnsafePilotFileError: others could know its key, or have put it there.
        WrongMessageError: it is no such file.
        OSError: it cannot be read, or TLS 1.3 cannot be spoken here.
    """
    file = open_regular(path)
    try:
        _check_pilot_file(path, file)
        head = os.read(file, PILOT_FILE_BYTES_MOST).partition(b"\n")[0]
        said = PILOT_FILE(parsed(head))
        try:
            return said, _context_of(file, said["trust"])
        except ValueError as error:
            raise WrongMessageError(f"holds no keys of a pilot: {error}", path) from None
    finally:
        os.close(file)


def dial(
    said: PilotFile, context: SSLContext, hello: Mapping[str, object], limit_s: float
) -> tuple[SSLSocket, PilotAnswer]:
    """Reach the daemon and say who is there; return the connection and its answer.

    Args:
        said: where it is.
        context: the keys.
        hello: what to say.
        limit_s: how long each step may take at each address.
    Raises:
        OSError: at none of its addresses is anybody who proves to be it, and what was found there.
    """
    causes = []
    for address in said["addresses"]:
        try:
            return _dialled((address, said["port"]), context, hello, limit_s)
        except (OSError, WrongMessageError) as error:
            causes.append(f"{address} port {said['port']}: {error}")
    raise OSError("; ".join(causes) or "the pilot's file names no address")


def _check_pilot_file(path: str, file: int) -> None:
    found = os.fstat(file)
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        raise UnsafePilotFileError(
            f"{path} belongs to user {found.st_uid}, expected {os.geteuid()}, who runs this pilot: "
            "start the daemon as the user whose jobs it is to run"
        )
    if mode & 0o077:
        raise UnsafePilotFileError(
            f"{path} has mode {mode:04o}, expected 0600: others may know its key, so cancel this "
            "pilot, and the daemon submits another"
        )


def _context_of(file: int, trust: str) -> SSLContext:
    """Return the keys of a pilot: its own, and that of the only daemon it trusts."""
    try:
        import ssl  # only here: it takes milliseconds and megabytes that no job is to pay
    except ImportError as error:
        raise OSError(f"this Python has no TLS ({error}): name another one for the node") from None
    if not ssl.HAS_TLSv1_3:
        raise OSError(f"{ssl.OPENSSL_VERSION} has no TLS 1.3: name another Python for the node")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=b64decode(trust))
    context.load_cert_chain(f"/proc/self/fd/{file}")  # the very file that was looked at
    return context


def _dialled(
    address: tuple[str, int], context: SSLContext, hello: Mapping[str, object], limit_s: float
) -> tuple[SSLSocket, PilotAnswer]:
    import socket

    with ExitStack() as opened:  # closed by whatever is raised, a signal's exception too
        plain = opened.enter_context(socket.create_connection(address, limit_s))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        tls = opened.enter_context(context.wrap_socket(plain, server_hostname=SERVER_NAME))
        tls.sendall(json.dumps({"version": PILOT_VERSION, **hello}).encode() + b"\n")
        answer = PILOT_ANSWER(parsed(_answer_line(tls, limit_s)))
        tls.setblocking(False)  # noqa: FBT003  the socket takes it by position only
        opened.pop_all()
        return tls, answer


def _answer_line(tls: SSLSocket, limit_s: float) -> bytes:
    """Return the first line that the daemon says; it says no more before we do."""
    line, until_s = b"", time.monotonic() + limit_s
    while not line.endswith(b"\n"):
        read = tls.recv(PILOT_LINE_BYTES_MOST - len(line))
        line += read
        if not read or len(line) >= PILOT_LINE_BYTES_MOST or time.monotonic() > until_s:
            raise OSError("the connection was closed without an answer: see the daemon's log")
    return line
