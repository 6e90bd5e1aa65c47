"""Connections of the client that waits for its answers: HTTP/1.1 by h11, over sockets.

The client whose calls are awaited has httpx for that. Its import, with what it brings, was a third
of the CPU of `shunter queue`, and a daemon needs little of it.
"""

import select
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from urllib.parse import urlencode

import h11

from shunter.addresses import UnixAddress
from shunter.client.requests import Ask
from shunter.client.transport import (
    CONNECT_S,
    ConnectTimeoutError,
    CutError,
    NoAnswerError,
    NotConnectedError,
    NotHttpError,
    Settings,
)

RECEIVED_MOST = 65_536
"""So many bytes are taken from a socket at once."""

HEADERS_MOST = 100 * 1024
"""An answer with longer headers is not read: a daemon has short ones, proxies add some."""


class Connections:
    """Sends requests, each over a connection of its own until it is answered.

    Any thread may send one. A connection whose answer was read whole takes the next request.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tls = settings.tls()
        self._idle: list[_Connection] = []
        self._is_closed = False

    def send(self, ask: Ask, read_s: float | None) -> "Response":
        """Send a request; return the answer, whose body is still to be read.

        Args:
            ask: what is asked.
            read_s: for how long the daemon may be silent; None: for ever.
        Raises:
            LinkError: there is no connection, or no answer on it.
            RuntimeError: the client is closed.
        """
        if self._is_closed:
            raise RuntimeError("the client is closed")
        used = self._unused()
        if used is not None:
            try:
                return self._answered(used, ask, read_s)
            except CutError:  # the other end may have closed it just before
                if ask.method != "GET":
                    raise  # or it may have done what was asked
        return self._answered(_Connection(self._connected()), ask, read_s)

    def _answered(self, connection: "_Connection", ask: Ask, read_s: float | None) -> "Response":
        with ExitStack() as at_faults:
            at_faults.callback(connection.close)
            connection.send(ask, self._settings.headers, read_s)
            response = Response(self, connection, connection.status())
            at_faults.pop_all()
        return response

    def take_back(self, connection: "_Connection") -> None:
        """Keep a connection for the next request, or close it."""
        if not self._is_closed and connection.is_renewed():
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close the connections; one whose answer is being read once that is done."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def _unused(self) -> "_Connection | None":
        """Return a connection that waits for a request; None: there is none."""
        while True:
            try:
                connection = self._idle.pop()  # in one step: other threads do that too
            except IndexError:
                return None
            if not connection.is_over():
                return connection
            connection.close()

    def _connected(self) -> socket.socket:
        try:
            return self._opened()
        except TimeoutError as error:
            raise ConnectTimeoutError(str(error)) from error
        except OSError as error:
            raise NotConnectedError(str(error)) from error

    def _opened(self) -> socket.socket:
        address = self._settings.address
        with ExitStack() as at_faults:
            if isinstance(address, UnixAddress):
                opened = at_faults.enter_context(socket.socket(socket.AF_UNIX))
                opened.settimeout(CONNECT_S)
                opened.connect(address.path)
            else:
                where = (address.host, address.port)
                opened = at_faults.enter_context(socket.create_connection(where, CONNECT_S))
                for option in self._settings.socket_options():
                    opened.setsockopt(*option)
                if self._tls is not None:
                    opened = self._tls.wrap_socket(opened, server_hostname=address.host)
            at_faults.pop_all()
        return opened


class Response:
    """An answer: its status, and its body as it comes. Close it, or read it whole."""

    def __init__(self, connections: Connections, connection: "_Connection", status: int) -> None:
        self.status = status
        self._connections = connections
        self._connection: _Connection | None = connection

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces, as they come.

        Raises:
            LinkError: the connection ended before it.
        """
        while self._connection is not None and (piece := self._connection.piece()) is not None:
            yield piece
        self.close()

    def read(self) -> bytes:
        """Return the whole body; errors are those of `pieces`."""
        try:
            return b"".join(self.pieces())
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.take_back(connection)


class _Connection:
    """A socket, and where HTTP is on it."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._http = h11.Connection(h11.CLIENT, HEADERS_MOST)
        self._is_cut = False
        self._read_s: float | None = None

    def send(self, ask: Ask, headers: Mapping[str, str], read_s: float | None) -> None:
        """Send a request; `read_s` is how long the other end may be silent from here on."""
        self._read_s = read_s
        self._socket.settimeout(read_s)
        target = f"{ask.path}?{urlencode(ask.params)}" if ask.params else ask.path
        own = {"Accept": "*/*", **headers, **ask.headers}
        if ask.body is not None or ask.method != "GET":
            own["Content-Length"] = str(len(ask.body or b""))
        try:
            request = h11.Request(method=ask.method, target=target, headers=list(own.items()))
        except h11.LocalProtocolError as error:  # such as a token with a line feed in it
            raise NotHttpError(str(error)) from error
        sent = self._http.send(request) or b""
        if ask.body:
            sent += self._http.send(h11.Data(ask.body)) or b""
        sent += self._http.send(h11.EndOfMessage()) or b""
        try:
            self._send_all(sent)
        except TimeoutError as error:
            raise NoAnswerError(str(error)) from error
        except OSError:
            pass  # it may have refused the request before it had read all of it

    def status(self) -> int:
        """Return the status of the answer once it comes.

        All of the headers, and all that comes before them, have the time of one silence: who sends
        them without an end is no daemon.
        """
        until_s = None if self._read_s is None else time.monotonic() + self._read_s
        while True:
            event = self._next(until_s)
            if isinstance(event, h11.Response):
                self._socket.settimeout(self._read_s)
                return event.status_code

    def piece(self) -> bytes | None:
        """Return the next piece of the body; None: that was all."""
        event = self._next()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def is_renewed(self) -> bool:
        """Begin anew if the answer was read whole; say whether.

        Else no other request may follow.
        """
        if (self._http.our_state, self._http.their_state) != (h11.DONE, h11.DONE):
            return False
        self._http.start_next_cycle()
        return True

    def is_over(self) -> bool:
        """Say whether the other end has closed a connection that nobody uses."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _send_all(self, sent: bytes) -> None:
        """Send bytes; each part may take as long as the socket allows."""
        left = memoryview(sent)
        while left:
            left = left[self._socket.send(left) :]

    def _wait_until(self, until_s: float) -> None:
        """Let the next read end at a moment; raise TimeoutError if it has come."""
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left_s)

    def _next(self, until_s: float | None = None) -> h11.Event | type[h11.PAUSED]:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                if until_s is not None:
                    self._wait_until(until_s)
                received = self._socket.recv(RECEIVED_MOST)
                self._is_cut = not received
                self._http.receive_data(received)
        except TimeoutError as error:
            raise NoAnswerError(str(error)) from error
        except OSError as error:
            raise CutError(str(error)) from error
        except h11.RemoteProtocolError as error:
            raise (CutError if self._is_cut else NotHttpError)(str(error)) from error
        if isinstance(event, h11.ConnectionClosed):
            raise CutError("it was closed without an answer")
        return event  # type: ignore[return-value]  # NEED_DATA is not left
