"""The asynchronous client: the same as the synchronous one, to be awaited."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload
from uuid import uuid4

import httpx

from shunter.client import requests
from shunter.client.calls import described
from shunter.client.daemon_calls import built
from shunter.client.futures import AsyncCalls, AsyncJobHandle
from shunter.client.requests import Answer, Ask, CallOptions, Followed, JobOptions, Lines
from shunter.client.transport import Settings, named
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
        transport = httpx.AsyncHTTPTransport(**settings.of_transport())
        self._http = httpx.AsyncClient(transport=transport, **settings.of_client())

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
            if not isinstance(error.__cause__, httpx.ReadError | httpx.RemoteProtocolError):
                raise
            return await self._ask(ask)

    def handle(self, job_id: str) -> AsyncJobHandle[int]:
        """Return a job that was submitted before as a future."""
        return AsyncJobHandle(self, job_id)

    async def _ask(self, ask: Ask) -> Answer:
        with named(self.address, changes=ask.method != "GET"):
            response = await self._http.send(built(self._http, ask))
        return requests.value_of(ask, response.status_code, response.content)

    async def _follow(self, ask: Ask) -> AsyncIterator[Followed]:
        lines = Lines()
        async with aclosing(await self._opened(ask)) as response:
            with named(self.address):
                async for line in response.aiter_lines():
                    for followed in lines.take(line):
                        yield followed

    async def _read(self, ask: Ask) -> AsyncIterator[bytes]:
        async with aclosing(await self._opened(ask)) as response:
            with named(self.address):
                async for piece in response.aiter_raw():
                    yield piece

    async def _opened(self, ask: Ask) -> httpx.Response:
        """Return an answer whose body is still to be read.

        Raises:
            ShunterError: the daemon refused.
        """
        with named(self.address):
            response = await self._http.send(built(self._http, ask, waits=True), stream=True)
            if response.status_code >= 400:
                content = await response.aread()
                await response.aclose()
                raise requests.error_of(response.status_code, content)
        return response
