"""What is refused before anything is read: strange hosts, pages of other sites, long bodies.

A browser lets any page send requests to a loopback address. Such a page gives itself away by its
Origin, and one whose name was made to point here (DNS rebinding) by the Host it asked for. That
holds for the socket too, since `ssh -L` brings it to a port of somebody's own machine.
"""

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shunter.addresses import SOCKET_HOST
from shunter.api.numbers import whole_number
from shunter.api.problems import problem

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
