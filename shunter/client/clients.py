"""The clients: one whose calls return answers, and one whose calls are awaited."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import aclosing, closing, contextmanager
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack, overload
from uuid import uuid4

import httpx

from shunter.client import requests, transport
from shunter.client.calls import described
from shunter.client.daemon_calls import built
from shunter.client.futures import AsyncCalls, AsyncJobHandle, JobHandle, Watch, WatchedCalls
from shunter.client.job_request import CallOptions, JobOptions
from shunter.client.requests import Answer, Ask, Followed, Lines
from shunter.client.transport import Settings, named
from shunter.errors import RefusedError, UnreachableError, UsageError

P = ParamSpec("P")
T = TypeVar("T")


class Client(WatchedCalls):
    """Talks to a daemon over its socket or TCP; use it as a context, or close it.

    Errors are those of shunter.errors: NotFoundError, RefusedError, UsageError, and
    UnreachableError where no daemon answers.

        with Client() as client:
            job = client.submit(["python", "train.py"], gpus=2)
            job.result()
    """

    on_slow: Callable[[], None] | None = None
    """Called from another thread where a daemon has not answered after some seconds."""

    def _connect(self, settings: Settings) -> None:
        transport = httpx.HTTPTransport(**settings.of_transport())
        self._http = httpx.Client(transport=transport, **settings.of_client())
        self.watch = Watch(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections; jobs go on, futures that have not ended fail."""
        self.watch.close()
        self._http.close()

    @overload
    def submit(self, command: Sequence[str], **options: Unpack[JobOptions]) -> JobHandle[int]: ...

    @overload
    def submit(
        self,
        command: Callable[..., T],
        *arguments: object,
        keywords: Mapping[str, object] | None = None,
        **options: Unpack[CallOptions],
    ) -> JobHandle[T]: ...

    def submit(
        self,
        command: Sequence[str] | Callable[..., T],
        *arguments: object,
        keywords: Mapping[str, object] | None = None,
        **options: Unpack[CallOptions],
    ) -> JobHandle[Any]:
        """Submit a command or a function; return the job as a future once it is durable.

        A submission whose answer was lost is sent once more under the same key, so it is never
        made twice.

        Args:
            command: the words of a command, or a function.
            arguments: what the function is called with.
            keywords: what it is called with by name; options are those of the job.
            options: JobOptions; of functions also `folder` and `python` (CallOptions).

        Raises:
            UsageError: it is not described well; a line for each field.
            RefusedError: it may not or can never run here.
        """
        words, said, call = described(command, arguments, keywords, options)
        try:
            made = self.submit_many(words, **said)
        except (UsageError, RefusedError):
            if call is not None:
                call.drop()
            raise
        return JobHandle(self, made["id"], call)

    def executor(self, **options: Unpack[CallOptions]) -> "JobExecutor":
        """Return an executor whose functions run as jobs with these options."""
        return JobExecutor(self, options)

    def submit_array(
        self, command: Sequence[str], **options: Unpack[JobOptions]
    ) -> list[JobHandle[int]]:
        """Submit the tasks of `array`; return each as a future."""
        made = self.submit_many(command, **options)
        return [JobHandle(self, job_id) for job_id in made["ids"]]

    def submit_many(self, command: Sequence[str], **options: Unpack[JobOptions]) -> Answer:
        """Submit a job or an array; return the daemon's answer as it is."""
        key = options.get("key") or uuid4().hex
        ask = requests.submission(command, options, key)
        try:
            return self._ask(ask)
        except UnreachableError as error:
            if not isinstance(error.__cause__, httpx.ReadError | httpx.RemoteProtocolError):
                raise
            return self._ask(ask)

    def handle(self, job_id: str) -> JobHandle[int]:
        """Return a job that was submitted before as a future."""
        return JobHandle(self, job_id)

    def _ask(self, ask: Ask) -> Answer:
        with named(self.address, changes=ask.method != "GET"), self._slowness_noted(ask):
            response = self._http.send(built(self._http, ask))
        return requests.value_of(ask, response.status_code, response.content)

    @contextmanager
    def _slowness_noted(self, ask: Ask) -> Iterator[None]:
        """Call `on_slow` if an answer takes long that need not."""
        if self.on_slow is None or ask.is_slow or "wait_s" in ask.params:
            yield
            return
        timer = threading.Timer(transport.SLOW_S, self.on_slow)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _follow(self, ask: Ask) -> Iterator[Followed]:
        lines = Lines()
        with closing(self._opened(ask)) as response, named(self.address):
            for line in response.iter_lines():
                yield from lines.take(line)

    def _read(self, ask: Ask) -> Iterator[bytes]:
        with closing(self._opened(ask)) as response, named(self.address):
            yield from response.iter_raw()

    def _opened(self, ask: Ask) -> httpx.Response:
        """Return an answer whose body is still to be read, or raise ShunterError."""
        with named(self.address):
            response = self._http.send(built(self._http, ask, waits=True), stream=True)
            if response.status_code >= 400:
                content = response.read()
                response.close()
                raise requests.error_of(response.status_code, content)
        return response


class JobExecutor(futures.Executor):
    """Runs each function as a job of its own; made by `Client.executor`."""

    def __init__(self, client: "Client", options: CallOptions) -> None:
        self._client = client
        self._options = options
        self._jobs: list[JobHandle[object]] = []
        self._is_over = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Submit a function with its arguments.

        Raises:
            UsageError: cloudpickle is not installed, or something cannot be pickled.
            RefusedError: such a job may not or can never run here.
            RuntimeError: the executor was shut down.
        """
        if self._is_over:
            raise RuntimeError("cannot submit: the executor was shut down")
        job = self._client.submit(fn, *args, keywords=kwargs, **self._options)
        self._jobs.append(job)  # type: ignore[arg-type]  # of whatever it returns
        return job

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more functions; cancel what has not ended, wait for it, or both."""
        self._is_over = True
        if cancel_futures:
            for job in self._jobs:
                job.cancel()
        if wait:
            futures.wait(self._jobs)


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
        """Return an answer whose body is still to be read, or raise ShunterError."""
        with named(self.address):
            response = await self._http.send(built(self._http, ask, waits=True), stream=True)
            if response.status_code >= 400:
                content = await response.aread()
                await response.aclose()
                raise requests.error_of(response.status_code, content)
        return response
