"""The client whose calls are awaited; httpx sends its requests."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload
from uuid import uuid4

import httpx

from shunter.addresses import TcpAddress, UnixAddress
from shunter.client import requests
from shunter.client.calls import described
from shunter.client.daemon_calls import silence_s
from shunter.client.futures import AsyncCalls, AsyncJobHandle
from shunter.client.job_request import CallOptions, JobOptions
from shunter.client.requests import Answer, Ask, Followed, Lines
from shunter.client.transport import (
    CONNECT_S,
    ConnectTimeoutError,
    CutError,
    LinkError,
    NoAnswerError,
    NotConnectedError,
    NotHttpError,
    Settings,
    named,
)
from shunter.errors import RefusedError, UnreachableError, UsageError

T = TypeVar("T")


class AsyncClient(AsyncCalls):
    """Talks to a daemon over its socket or TCP; an async context.

    Errors are those of shunter.errors: NotFoundError, RefusedError, UsageError, and
    UnreachableError where no daemon answers.

        async with AsyncClient() as client:
            job = await client.submit(["python", "train.py"], gpus=2)
            await job.result()
    """

    def _connect(self, settings: Settings) -> None:
        address, tls = settings.address, settings.tls()
        is_unix = isinstance(address, UnixAddress)
        self._http = httpx.AsyncClient(
            base_url=address.url,
            headers=settings.headers,
            trust_env=False,  # proxies are for the world, not for this machine
            transport=httpx.AsyncHTTPTransport(
                verify=False if tls is None else tls,
                uds=address.path if isinstance(address, UnixAddress) else None,
                socket_options=None if is_unix else settings.socket_options(),
            ),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of all connections."""
        await self._http.aclose()

    @overload
    async def submit(
        self, command: Sequence[str], **options: Unpack[JobOptions]
    ) -> AsyncJobHandle[int]: ...

    @overload
    async def submit(
        self,
        command: Callable[..., T],
        *arguments: object,
        keywords: Mapping[str, object] | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncJobHandle[T]: ...

    async def submit(
        self,
        command: Sequence[str] | Callable[..., T],
        *arguments: object,
        keywords: Mapping[str, object] | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncJobHandle[Any]:
        """Submit a command or a function; return the job as a future once it is durable.

        Arguments and errors are those of `Client.submit`.
        """
        words, said, call = described(command, arguments, keywords, options)
        try:
            made = await self.submit_many(words, **said)
        except (UsageError, RefusedError):
            if call is not None:
                call.drop()
            raise
        return AsyncJobHandle(self, made["id"], call)

    async def submit_array(
        self, command: Sequence[str], **options: Unpack[JobOptions]
    ) -> list[AsyncJobHandle[int]]:
        """Submit the tasks of `array`; return each as a future."""
        made = await self.submit_many(command, **options)
        return [AsyncJobHandle(self, job_id) for job_id in made["ids"]]

    async def submit_many(self, command: Sequence[str], **options: Unpack[JobOptions]) -> Answer:
        """Submit a job or an array; return the daemon's answer as it is."""
        key = options.get("key") or uuid4().hex
        ask = requests.submission(command, options, key)
        try:
            return await self._ask(ask)
        except UnreachableError as error:
            if not isinstance(error.__cause__, CutError | NotHttpError):
                raise
            return await self._ask(ask)

    def handle(self, job_id: str) -> AsyncJobHandle[int]:
        """Return a job that was submitted before as a future."""
        return AsyncJobHandle(self, job_id)

    async def _ask(self, ask: Ask) -> Answer:
        with _named(self.address, changes=ask.method != "GET"):
            response = await self._http.send(self._built(ask, silence_s(ask)))
        return requests.value_of(ask, response.status_code, response.content)

    async def _follow(self, ask: Ask) -> AsyncIterator[Followed]:
        lines = Lines()
        async with aclosing(await self._opened(ask)) as response:
            with _named(self.address):
                async for piece in response.aiter_bytes():
                    for followed in lines.take(piece):
                        yield followed

    async def _read(self, ask: Ask) -> AsyncIterator[bytes]:
        async with aclosing(await self._opened(ask)) as response:
            with _named(self.address):
                async for piece in response.aiter_raw():
                    yield piece

    async def _opened(self, ask: Ask) -> httpx.Response:
        """Return an answer whose body is still to be read, or raise ShunterError."""
        with _named(self.address):
            request = self._built(ask, silence_s(ask, waits=True))
            response = await self._http.send(request, stream=True)
            if response.status_code >= 400:
                content = await response.aread()
                await response.aclose()
                raise requests.error_of(response.status_code, content)
        return response

    def _built(self, ask: Ask, read_s: float | None) -> httpx.Request:
        return self._http.build_request(
            ask.method,
            ask.path,
            params=ask.params,
            headers=ask.headers,
            content=ask.body,
            timeout=httpx.Timeout(read_s, connect=CONNECT_S),
        )


_CUT = ("disconnected without", "peer closed connection")
"""How httpx says that a connection ended in the middle of an answer."""


@contextmanager
def _named(address: UnixAddress | TcpAddress, *, changes: bool = False) -> Iterator[None]:
    """Raise what `named` raises for failures of httpx."""
    with named(address, changes=changes):
        try:
            yield
        except httpx.TransportError as error:
            raise link_error(error) from error


def link_error(error: httpx.TransportError) -> LinkError:
    """Return what a failure of httpx is called here."""
    what = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        return ConnectTimeoutError(what)
    if isinstance(error, httpx.TimeoutException):
        return NoAnswerError(what)
    if isinstance(error, httpx.ConnectError):
        return NotConnectedError(what)
    is_cut = isinstance(error, httpx.RemoteProtocolError) and any(each in what for each in _CUT)
    if is_cut or isinstance(error, httpx.NetworkError):
        return CutError(what)
    return NotHttpError(what)
