"""A pilot: a long Slurm job that dials the daemon and lets it run attempts inside.

    exec python3 -I -S PROGRAM pilot FILE BASE          the last line of the job's script

The pilot holds the key and the TLS connection. For each connection it starts the RPC session
(session.py) as a program of its own, which reads and writes two pipes; the pilot relays the bytes.
So no supervisor is forked from a process that knows the key, and none inherits the connection.

How the GPUs of the node are wired it has noted in BASE, for the next daemon that starts.

A daemon that is away ends nothing here: the pilot dials again and again, and supervisors end their
jobs by their heartbeat's deadline, as over SSH. A pilot in which nothing runs ends when it was
refused for good, or not served for `patience_s`.

Slurm sends SIGTERM before it kills (time limit, scancel, preemption), or SIGUSR1 with
--signal=B:USR1@SECONDS, which leaves more time and reaches the pilot only. On either the pilot says
so to the daemon, which starts nothing more here, asks all supervisors to suspend their jobs, and
goes on relaying. What is left `drain_s` after SIGTERM, or `notice_s` after SIGUSR1, it kills before
Slurm does, so that the daemon reads how it ended. Attempts of other Slurm jobs are not its own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import sys
import time
from base64 import b64decode
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import end_alone, running, send
from shunter.backends.node.messages import Command
from shunter.backends.node.ownership import base_of
from shunter.backends.node.records import count_in, folder_of, kill, open_regular, signal_pipe
from shunter.backends.node.shapes import (
    Message,
    WrongMessageError,
    a_flag,
    a_list,
    a_number,
    a_text,
    a_whole,
    cleaned,
    field,
    parsed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext, SSLSocket
    from subprocess import Popen

    from shunter.backends.node.messages import Key, Known

REDIAL_S, REDIAL_S_MAX = 0.25, 10.0
SERVED_S = 10.0  # a connection that lasted so long was no failed try
DIAL_S, NOTICE_S, AGAIN_S = 10.0, 2.0, 1.0
NOTICE_PART = 0.1  # of the time that is left, for the daemon to be told first
DRAIN_POLL_S, DRAINED_S = 0.25, 2.0
SESSION_END_S = 5.0
RELAY_BYTES = 1 << 16
RELAY_BYTES_MOST = 1 << 20
DRAIN_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


def pilot(path: str, base: str) -> dict[str, object]:
    """Serve the daemon that a file names until this allocation is to end."""
    base = os.path.abspath(os.path.expanduser(base))
    said, context = read_pilot_file(path)
    found = Pilot(path, base, said, context)
    for number in DRAIN_SIGNALS:
        signal.signal(number, lambda number, _: found.drain(signal.Signals(number)))
    found.run()
    return {}


class _DrainInterrupt(Exception):  # noqa: N818  no error: it ends a try that may take long
    """A signal came while the daemon was dialled."""


class Pilot:
    """One pilot: its connection while there is one, and how far it is drained."""

    def __init__(self, path: str, base: str, said: PilotFile, context: SSLContext) -> None:
        self._path, self._base, self._said, self._context = path, base, said, context
        self._root = f"{base_of(base)}/clusters/{said.cluster}"
        self._instance = os.urandom(8).hex()
        self._told = ""
        self._failed = 0
        self._is_dialling = False
        self._served_s = time.monotonic()
        self._drained_by, self._drain_until_s = "", 0.0
        self._asked: set[Key] = set()
        self._was_announced = False
        self._announce_from_s = 0.0
        self._empty_s: float | None = None
        self._looked_s = 0.0
        self._noting: Popen[bytes] | None = None
        self._wake = signal_pipe()

    def run(self) -> None:
        """Dial and serve, again and again, until there is nothing left to do."""
        self._noting = _started("note_wiring", self._base)
        while True:
            began_s = time.monotonic()
            cause = self._serve_once()
            if time.monotonic() - began_s > SERVED_S:
                self._failed = 0
            if self._is_drained() or self._is_forsaken():
                break
            self._say(f"not connected: {cause}")
            self._pause()
            if self._is_drained():
                break
        self._say("it ends: " + (self._drained_by or "it is not wanted any more"))

    def drain(self, number: signal.Signals) -> None:
        """Let no attempt run here any longer; safe to call from a signal handler.

        SIGTERM after a notice leaves less time than was thought, and never more.
        """
        is_notice = number == signal.SIGUSR1
        left_s = self._said.notice_s if is_notice else self._said.drain_s
        until_s = time.monotonic() + left_s
        if self._drained_by:
            self._drain_until_s = min(self._drain_until_s, until_s)
            return
        self._drained_by, self._drain_until_s = number.name, until_s
        if self._is_dialling:  # which may take long, and time is short now
            raise _DrainInterrupt

    def _serve_once(self) -> str:
        """Dial, and relay a session as long as there is one; return why there is none."""
        self._reread()
        self._look()
        hello, self._is_dialling = self._hello("serve"), not self._drained_by
        limit_s = DIAL_S if self._is_dialling else NOTICE_S
        try:
            tls, answer = dial(self._said, self._context, hello, limit_s)
        except OSError as error:
            return str(error)
        except _DrainInterrupt:
            return "a signal came first"
        finally:
            self._is_dialling = False
        with tls:
            nonce = answer.nonce
            if nonce is None:
                if answer.is_over:
                    self._served_s = -self._said.patience_s  # no use in waiting longer
                return f"the daemon refuses this pilot: {answer.refused}"
            self._say("connected")
            self._was_announced = bool(hello["why"])
            session = _started_session(self._base, nonce)
            try:
                return self._relay(tls, session)
            finally:
                _end_session(session)
                self._served_s = time.monotonic()

    def _relay(self, tls: SSLSocket, session: Popen[bytes]) -> str:
        """Relay bytes both ways until one side ends; return which and why."""
        assert session.stdin is not None, "it was asked for"
        assert session.stdout is not None, "it was asked for"
        into, out = session.stdin.fileno(), session.stdout.fileno()
        for end in (into, out):
            os.set_blocking(end, False)
        inward, outward, heard_s = b"", b"", time.monotonic()
        try:
            while not self._is_drained():
                reads: list[int | SSLSocket] = [
                    self._wake,
                    *([tls] if len(inward) < RELAY_BYTES_MOST else []),
                ]
                reads += [out] if len(outward) < RELAY_BYTES_MOST else []
                writes: list[int | SSLSocket] = [
                    *([tls] if outward else []),
                    *([into] if inward else []),
                ]
                ready, open_, _ = select.select(reads, writes, [], self._patience_s(heard_s))
                if self._drained_by and not self._was_announced:
                    self._announce_drain(time.monotonic())
                self._look()
                if tls in ready:
                    read = _from_daemon(tls)
                    if read is None:
                        return "the daemon has closed the connection"
                    inward, heard_s = inward + read, time.monotonic()
                if out in ready:
                    read = os.read(out, RELAY_BYTES)
                    if not read:
                        return "the session has ended"
                    outward += read
                if into in open_:
                    inward = inward[os.write(into, inward[:RELAY_BYTES]) :]
                if tls in open_:
                    outward = outward[_to_daemon(tls, outward[:RELAY_BYTES]) :]
                if time.monotonic() - heard_s > self._said.silent_s:
                    return f"the daemon has said nothing for {self._said.silent_s:g} s"
        except OSError as error:
            return f"the connection was lost: {error}"
        with suppress(OSError):
            tls.unwrap()
        return "drained"

    def _patience_s(self, heard_s: float) -> float:
        if self._drained_by:
            return DRAIN_POLL_S
        return max(0.0, heard_s + self._said.silent_s - time.monotonic()) + 0.01

    def _look(self) -> None:
        """Do what is due of a drain."""
        if self._noting is not None:
            self._noting.poll()  # else it would be a zombie
        with suppress(BlockingIOError):
            os.read(self._wake, 512)
        now_s = time.monotonic()
        if not self._drained_by or now_s - self._looked_s < DRAIN_POLL_S:
            return
        self._looked_s = now_s
        term, found = count_in(f"{self._root}/term", "term"), self._running()
        for job, attempt in found:
            if now_s >= self._drain_until_s:
                end_alone(self._root, job, attempt, term)
            elif (job, attempt) not in self._asked:
                order = Command(do="suspend", term=term)
                if send(folder_of(self._root, job, attempt), order):
                    self._asked.add((job, attempt))
        if found:
            self._empty_s = None
        elif self._empty_s is None:
            self._empty_s = now_s

    def _announce_drain(self, now_s: float) -> None:
        """Tell the daemon, while there is a session with it, until it has heard.

        It would go on starting attempts here, each of which would have to leave at once. One that
        does not answer is not waited for so long that jobs could not save any more.
        """
        if now_s < self._announce_from_s:
            return
        limit_s = min(NOTICE_S, max(0.1, NOTICE_PART * (self._drain_until_s - now_s)))
        try:
            dial(self._said, self._context, self._hello("drain"), limit_s)[0].close()
            self._was_announced = True
        except OSError as error:
            self._say(f"the daemon was not told of {self._drained_by}: {error}")
            self._announce_from_s = time.monotonic() + AGAIN_S

    def _is_drained(self) -> bool:
        """Say whether nothing has run here for long enough to have been read of."""
        return self._empty_s is not None and time.monotonic() - self._empty_s >= DRAINED_S

    def _is_forsaken(self) -> bool:
        """Say whether no daemon has served this for long, and nothing runs."""
        away_s = time.monotonic() - self._served_s
        return away_s > self._said.patience_s and not self._drained_by and not self._running()

    def _running(self) -> list[Key]:
        found = running(self._root, []) if os.path.isdir(self._root) else []
        return [(each.job, each.attempt) for each in found if _is_of_this_job(each)]

    def _pause(self) -> None:
        """Wait before the next try, the longer the more of them failed."""
        limit_s = min(REDIAL_S * 2 ** min(self._failed, 10), REDIAL_S_MAX)
        until_s = time.monotonic() + limit_s * (1 + os.urandom(1)[0] / 255) / 2
        self._failed += 1
        while (left_s := until_s - time.monotonic()) > 0 and not self._is_drained():
            select.select([self._wake], [], [], min(left_s, self._patience_s(until_s)))
            self._look()

    def _reread(self) -> None:
        """Take in a file that was written anew; else what was read before still holds."""
        try:
            self._said, self._context = read_pilot_file(self._path)
        except (OSError, WrongMessageError) as error:
            self._say(f"its file cannot be read again: {error}")

    def _hello(self, do: str) -> dict[str, object]:
        return {
            "do": do,
            "instance": self._instance,
            "why": self._drained_by,
            "left_s": max(0.0, self._drain_until_s - time.monotonic()),
            "job": cleaned(os.environ.get("SLURM_JOB_ID", ""), 64),
            "node": cleaned(os.environ.get("SLURMD_NODENAME", ""), 256),
        }

    def _say(self, words: str) -> None:
        """Say something on stderr, which Slurm keeps, unless it was said last."""
        if words != self._told:
            self._told = words
            with suppress(OSError):
                line = f"{time.strftime('%F %T')} pilot {self._said.name}: {words}\n"
                os.write(2, line.encode("utf-8", "backslashreplace"))


def _is_of_this_job(found: Known) -> bool:
    """Say whether an attempt began within our job of Slurm, as far as is known.

    A pilot whose node had failed may end beside its successor, whose attempts are none of its own.
    """
    number, started = os.environ.get("SLURM_JOB_ID", ""), found.started
    if not number or started is None:
        return True
    try:
        with open(f"/proc/{started.pid}/environ", "rb") as file:
            given = file.read().split(b"\0")
    except OSError:
        return True
    named = [each for each in given if each.startswith(b"SLURM_JOB_ID=")]
    return not named or f"SLURM_JOB_ID={number}".encode() in named


def _started_session(base: str, nonce: str) -> Popen[bytes]:
    """Start a session with nothing of ours but two pipes."""
    from subprocess import PIPE, Popen

    return Popen(
        _command("serve", base, nonce),
        stdin=PIPE,
        stdout=PIPE,
        bufsize=0,
        preexec_fn=_ignore_end,  # noqa: PLW1509  no threads here
    )


def _started(*words: str) -> Popen[bytes]:
    """Start a verb that tells us nothing."""
    from subprocess import DEVNULL, Popen

    return Popen(_command(*words), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)


def _command(*words: str) -> list[bytes]:
    """Return the command of a verb, of the program as which this was started."""
    with open("/proc/self/cmdline", "rb") as file:
        given = file.read().rstrip(b"\0").split(b"\0")
    ours = [os.fsencode(sys.executable), *given[1 : len(given) - len(sys.argv) + 1]]
    return [*ours, *map(os.fsencode, words)]


def _ignore_end() -> None:
    """Let a session outlive the SIGTERM that Slurm sends to all of a job.

    The daemon reads through it how attempts end. Supervisors and ranks set their own handlers.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _end_session(session: Popen[bytes]) -> None:
    """End a session by the end of its input, or by force; its attempts run on."""
    assert session.stdin is not None, "it was asked for"
    assert session.stdout is not None, "it was asked for"
    session.stdin.close()
    until_s = time.monotonic() + SESSION_END_S
    with session.stdout as out:
        while (left_s := until_s - time.monotonic()) > 0:
            ready, _, _ = select.select([out], [], [], left_s)
            if ready and not out.read(RELAY_BYTES):  # what it still says is read, and dropped
                break
        else:  # on a file system that hangs, say
            kill(session.pid, signal.SIGKILL)
    session.wait()


def _from_daemon(tls: SSLSocket) -> bytes | None:
    """Return what has come, perhaps nothing; None at the end."""
    import ssl

    try:
        # A whole record at a time: nothing stays behind in TLS, where select does not see it.
        return tls.recv(RELAY_BYTES) or None
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return b""


def _to_daemon(tls: SSLSocket, data: bytes) -> int:
    """Send what the connection takes now; return how much that was."""
    import ssl

    try:
        return tls.send(data)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return 0


# The connection to the daemon: TLS 1.3, where each side knows the other's key.
#
# The pilot's file, which only we may read, is read for each try: the daemon may have moved, or
# renewed the certificate. The pilot says {"version", "do", "instance", ...}; the daemon answers
# {"nonce"}, {"refused": why, "is_over": no other try helps}, or {} to a notice.

PILOT_VERSION = 1
SERVER_NAME = "daemon.shunter.invalid"  # whatever its address: the certificate stands for a role
PILOT_FILE_BYTES_MOST = 1 << 16
PILOT_LINE_BYTES_MOST = 4096
YEAR_S = 366 * 86_400.0


class PilotFile(Message):
    """What a pilot is told of its daemon: the first line of its file.

    `addresses` are names or addresses of the daemon's machine, tried one by one, and `cluster` is
    its id, below which the agent keeps attempts. A connection on which nothing came for `silent_s`
    is taken for lost; a pilot in which nothing runs ends when no daemon served it for `patience_s`.
    Jobs may take `drain_s` to save once Slurm has sent SIGTERM, less than KillWait; and `notice_s`
    after SIGUSR1, less than the lead in the pilot's --signal=B:USR1@LEAD. `trust` is the daemon's
    certificate.
    """

    version: int = field(
        a_whole(PILOT_VERSION, PILOT_VERSION), default=PILOT_VERSION, is_needed=True
    )
    name: str = field(a_text(64))
    addresses: tuple[str, ...] = field(a_list(a_text(256), 16))
    port: int = field(a_whole(1, 65535))
    cluster: str = field(a_text(64))
    silent_s: float = field(a_number(0.1, YEAR_S), default=30.0, is_needed=True)
    patience_s: float = field(a_number(0, YEAR_S), default=900.0, is_needed=True)
    drain_s: float = field(a_number(0, YEAR_S), default=25.0, is_needed=True)
    notice_s: float = field(a_number(0, YEAR_S), default=100.0, is_needed=True)
    trust: str = field(a_text(PILOT_FILE_BYTES_MOST), default="", is_needed=True)


class PilotAnswer(Message):
    """What the daemon answers a pilot that has dialled: a nonce, or why not."""

    nonce: str | None = field(a_text(64), default=None)
    refused: str | None = field(a_text(PILOT_LINE_BYTES_MOST), default=None)
    is_over: bool | None = field(a_flag, default=None)


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
        said = PilotFile.decoded(parsed(head))
        try:
            return said, _context_of(file, said.trust)
        except ValueError as error:
            raise WrongMessageError(f"holds no keys of a pilot: {error}", path) from None
    finally:
        os.close(file)


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
    for address in said.addresses:
        try:
            return _dialled((address, said.port), context, hello, limit_s)
        except (OSError, WrongMessageError) as error:
            causes.append(f"{address} port {said.port}: {error}")
    raise OSError("; ".join(causes) or "the pilot's file names no address")


def _dialled(
    address: Key, context: SSLContext, hello: Mapping[str, object], limit_s: float
) -> tuple[SSLSocket, PilotAnswer]:
    import socket

    with ExitStack() as opened:  # closed by whatever is raised, a signal's exception too
        plain = opened.enter_context(socket.create_connection(address, limit_s))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        tls = opened.enter_context(context.wrap_socket(plain, server_hostname=SERVER_NAME))
        tls.sendall(json.dumps({"version": PILOT_VERSION, **hello}).encode() + b"\n")
        answer = PilotAnswer.decoded(parsed(_answer_line(tls, limit_s)))
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
