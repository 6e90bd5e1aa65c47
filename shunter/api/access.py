"""Who may call, and as whom; which requests are refused unread, and which connections are cut.

Nothing a request says of its sender counts: a caller is the peer of the socket as the kernel knows
it, or the user of a token. Read `Callers` and `HostGuard` first.
"""

import asyncio
import hmac
import os
import pwd
import re
import secrets
import socket
import stat
import struct
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import h11
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from shunter.addresses import SOCKET_HOST
from shunter.api.problems import problem
from shunter.daemon import Caller
from shunter.errors import BackendError, ConfigError, NotFoundError, RefusedError

# The file of tokens, read once at the start: a line `TOKEN USER` for each user who calls over TCP.
# Others must not be able to read it, so its mode is checked.

TOKEN_BYTES = 32
TOKEN_CHARACTERS_LEAST = 32
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


class Tokens:
    """Whose token is which; looking one up takes equally long for all wrong ones."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = [(token.encode(), user) for token, user in users.items()]

    @property
    def users(self) -> tuple[str, ...]:
        """Everybody who has one."""
        return tuple(dict.fromkeys(user for _, user in self._users))

    def user_of(self, token: str) -> str | None:
        """Return whose token it is; None: nobody's."""
        given, found = token.encode("utf-8", "replace"), None
        for known, user in self._users:
            if hmac.compare_digest(known, given):
                found = user
        return found


def read_tokens(path: str) -> Tokens:
    """Read a file of tokens.

    Raises:
        NotFoundError: there is none.
        ConfigError: others can read it, or a line is wrong; no message holds a token.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            lines = file.read().split("\n")
    except FileNotFoundError as error:
        raise NotFoundError(
            f"there is no token file {path}; `shunter serve --make-token` makes one"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the tokens cannot be read: {error}") from error
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"{path}: others may read the tokens (mode {stat.S_IMODE(found.st_mode):04o}): "
            f"chmod 600 {path}, and make new ones"
        )
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{path}: it belongs to uid {found.st_uid}: expected the daemon's own")
    users: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or not _USER.fullmatch(words[1]):
            raise ConfigError(f"{path}:{number}: expected TOKEN USER")
        if len(words[0]) < TOKEN_CHARACTERS_LEAST:
            raise ConfigError(
                f"{path}:{number}: the token of {words[1]} is short: "
                f"expected {TOKEN_CHARACTERS_LEAST} characters or more"
            )
        if words[0] in users:
            raise ConfigError(f"{path}:{number}: the token of {words[1]} stands there twice")
        users[words[0]] = words[1]
    if not users:
        raise ConfigError(f"{path}: it holds no token; expected a line TOKEN USER")
    return Tokens(users)


def make_tokens(path: str, user: str) -> bool:
    """Make a file with a token for a user, if there is none; say whether it was made.

    Raises:
        ConfigError: it cannot be written.
    """
    text = f"# made by shunter serve --make-token\n{secrets.token_urlsafe(TOKEN_BYTES)} {user}\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(f"{path}: the token cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return True


# A reader of a long answer who takes nothing for a while holds memory here, and may be gone. Its
# connection is cut; a reader that lives asks again and goes on where it was.

CUT = "shunter.cut"
"""The extension of a request's scope that cuts its connection."""

SLOW_S = 30.0


class TimelyResponse(StreamingResponse):
    """Sends what a generator yields, as long as the reader takes each piece in time."""

    def __init__(
        self,
        content: AsyncGenerator[bytes, None],
        media_type: str,
        *,
        headers: Mapping[str, str] | None = None,
        slow_s: float = SLOW_S,
        was_slow: Callable[[], None] = lambda: None,
    ) -> None:
        sent = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})}
        super().__init__(content, headers=sent, media_type=media_type)
        self._content = content
        self._slow_s = slow_s
        self._was_slow = was_slow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it; cut the connection of a reader who is too slow."""
        cut = scope.get("extensions", {}).get(CUT)

        async def timely(message: Message) -> None:
            with anyio.move_on_after(self._slow_s) as sending:
                await send(message)
            if sending.cancelled_caught:
                self._was_slow()
                if cut is not None:
                    cut()

        # The generator is closed here and now: whoever leaves it to the collector leaks what it
        # holds, since a reader may leave while a piece is on its way.
        async with aclosing(self._content):
            try:
                await super().__call__(scope, receive, timely)
            except BackendError:  # a server does not answer any more, or the daemon ends
                if cut is None:
                    raise
                cut()


# uvicorn hides a connection's socket from the application, so a protocol class of ours asks the
# kernel once for each connection and hands the answer on in the request's scope.

PEER = "shunter.peer"
HEAD_S = 20.0
"""Within so many seconds a connection has said what it wants, its body within twice that."""

SHARE = 4
"""One user has at most so great a part, one in so many, of the connections there may be."""

_FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a unix socket, as it was when it connected."""

    pid: int
    uid: int
    gid: int


class PeerProtocol(H11Protocol):
    """HTTP/1.1 that tells the application who is at the other end of a unix socket."""

    _timer: asyncio.TimerHandle | None = None
    _unfinished: object = ""
    peer: Peer | None = None

    def connection_made(self, transport: Any) -> None:
        """Ask the kernel, once for all requests of the connection."""
        super().connection_made(transport)
        self._unfinished = self._being_told()
        self._timer = self.loop.call_later(HEAD_S, self._end_if_slow)
        added: dict[str, object] = {CUT: transport.abort}
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            size = _CREDENTIALS.size
            found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            added[PEER] = self.peer = Peer(*_CREDENTIALS.unpack(found))
            self._end_if_many(self.peer)
        app = self.app

        async def with_connection(scope: Scope, receive: Receive, send: Send) -> None:
            extensions = {**scope.get("extensions", {}), **added}
            await app({**scope, "extensions": extensions}, receive, send)

        self.app = with_connection

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; a connection that speaks no HTTP is cut."""
        try:
            super().data_received(data)
        except (h11.ProtocolError, ValueError):  # a target that is no ASCII, say
            self.transport.abort()

    def _end_if_slow(self) -> None:
        """End a connection that still tells what it told a while ago; look again later."""
        now = self._being_told()
        if now is not None and now == self._unfinished:
            self.transport.abort()
            return
        self._unfinished = now
        self._timer = self.loop.call_later(HEAD_S, self._end_if_slow)

    def _being_told(self) -> tuple[int, str] | None:
        """Return which head or body is still to come; None: all that is due came."""
        cycle = getattr(self, "cycle", None)  # typed as if there always were one
        if self.flow.read_paused:
            return None
        if self.conn.their_state is h11.SEND_BODY:
            return id(cycle), "body"
        is_begun = cycle is None or bool(self.conn.trailing_data[0])
        return (id(cycle), "head") if self.conn.their_state is h11.IDLE and is_begun else None

    def _end_if_many(self, peer: Peer) -> None:
        """End a connection of a user who has a great part of all there may be."""
        if self.limit_concurrency is None or peer.uid in (0, os.geteuid()):
            return
        others = [one.peer for one in self.connections if isinstance(one, PeerProtocol)]
        if sum(one is not None and one.uid == peer.uid for one in others) > max(
            1, self.limit_concurrency // SHARE
        ):
            self.transport.write(_FULL)
            self.transport.close()


def user_name(uid: int) -> str:
    """Return the name of a user, the number where this machine has no name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Callers:
    """Turns connections and tokens into callers."""

    def __init__(
        self,
        admins: Collection[str],
        tokens: Tokens | None,
        uid: int | None = None,
        proposers: Collection[str] = (),
    ):
        self._admins = frozenset(admins)
        self._proposers = frozenset(proposers)
        self._tokens = tokens
        self._own_uid = os.geteuid() if uid is None else uid

    @property
    def serves(self) -> str:
        """Whose jobs are started here."""
        return "everybody" if self._own_uid == 0 else user_name(self._own_uid)

    def caller(self, scope: Scope, headers: Mapping[str, str]) -> Caller:
        """Return who calls.

        Raises:
            HTTPException: 401, where a token is missing or nobody's.
            RefusedError: a daemon of somebody else, who is not root, serves him only.
        """
        peer = scope.get("extensions", {}).get(PEER)
        if isinstance(peer, Peer):
            return self._of_uid(peer.uid)
        return self._of_token(headers.get("authorization", ""))

    def _of_uid(self, uid: int) -> Caller:
        own = self._own_uid
        if own not in (0, uid) and uid != 0:
            raise RefusedError(
                f"this daemon is {user_name(own)}'s (uid {own}) and serves nobody else, as it can "
                f"start no jobs of uid {uid}; one run as root serves everybody"
            )
        name = user_name(uid)
        return self._with_roles(name, uid, is_admin=uid in (0, own))

    def _of_token(self, authorization: str) -> Caller:
        scheme, _, token = authorization.partition(" ")
        if not token or scheme.lower() != "bearer":
            raise HTTPException(
                401, "over TCP, expected the header 'Authorization: Bearer TOKEN' (SHUNTER_TOKEN)"
            )
        user = None if self._tokens is None else self._tokens.user_of(token.strip())
        if user is None:
            raise HTTPException(401, "nobody here has this token; see the daemon's token_file")
        try:
            uid: int | None = pwd.getpwnam(user).pw_uid
        except KeyError:
            uid = None
        own = user_name(self._own_uid)
        return self._with_roles(user, uid, is_admin=user in ("root", own))

    def _with_roles(self, user: str, uid: int | None, *, is_admin: bool) -> Caller:
        """Return a caller with the roles that the config gives."""
        return Caller(user, uid, is_admin or user in self._admins, user in self._proposers)


# A browser lets any page send requests to a loopback address. Such a page gives itself away by its
# Origin, and one whose name was made to point here (DNS rebinding) by the Host it asked for. The
# socket is checked too, since `ssh -L` brings it to a port of somebody's own machine.

DIGITS_MOST = 18
"""More than any count has; the interpreter refuses to read thousands of them."""


def whole_number(text: str, most: int | None = None) -> int | None:
    """Return the number that digits write; None: it is none, or above `most`."""
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MOST):
        return None
    number = int(text)
    return None if most is not None and number > most else number


_HOST = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]+)|\[(?P<v6>[0-9A-Fa-f:.]+)\])(?::[0-9]{1,5})?")
"""uri-host and port of RFC 9110, section 7.2: no user before it, no path behind it."""

_TOLD_MOST = 200
KNOWN_HOSTS = (SOCKET_HOST, "localhost", "127.0.0.1", "::1")
_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]


class HostGuard:
    """Lets a request in, or answers it."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], body_bytes_most: int) -> None:
        self._app = app
        self._hosts = frozenset((*KNOWN_HOSTS, *hosts))
        self._most = body_bytes_most
        self._too_long = f"expected a body of {body_bytes_most:,} bytes at most"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the head of a request, and its body as it comes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        answer = self._refusal(scope, headers)
        if answer is not None:
            await answer(scope, receive, send)
            return
        read = 0

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise HTTPException(413, self._too_long)
            return message

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_SAFE]}
            await send(message)

        await self._app(scope, bounded, safe)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        length = headers.get("content-length", "0")
        if whole_number(length, self._most) is None:
            return problem("too_large", self._too_long)
        host = _host_of(headers.get("host", ""))
        server = scope.get("server") or ("", 0)
        if host is None or host not in {*self._hosts, server[0]}:
            return problem(
                "refused",
                f"host {(host or 'none')[:_TOLD_MOST]!r} is not one of this daemon; "
                "see server.hosts",
            )
        origin = headers.get("origin")
        if origin is not None and _page_host(origin) != headers.get("host"):
            return problem("refused", f"pages of {origin[:_TOLD_MOST]!r} may not ask this daemon")
        return None


def _host_of(header: str) -> str | None:
    """Return the name in a Host header, without its port; None if it is none."""
    found = _HOST.fullmatch(header)
    return None if found is None else (found["v6"] or found["name"]).lower()


def _page_host(origin: str) -> str | None:
    """Return the host and port of an Origin; None if it has none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
