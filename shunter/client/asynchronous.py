"""The asynchronous client: the same as the synchronous one, to be awaited."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload
from uuid import uuid4

import httpx

from shunter.client import requests
from shunter.client.calls import described
from shunter.client.futures import AsyncJobHandle
from shunter.client.requests import Answer, Ask, CallOptions, JobOptions
from shunter.client.sse import Followed, Lines
from shunter.client.transport import WAIT_READ_S, Settings, named
from shunter.errors import RefusedError, UnreachableError, UsageError

__all__ = ["AsyncClient"]

T = TypeVar("T")


class AsyncClient:
    """Talks to a daemon over its socket or TCP; an async context.

    Errors are those of shunter.errors: NotFoundError, RefusedError, UsageError, and
    UnreachableError where no daemon answers.

        with Client() as client:
            job = client.submit(["python", "train.py"], gpus=2)
            job.result()
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None, ca_file: str | None = None
    ) -> None:
        """Name the daemon; nothing is sent yet.

        Args:
            url: unix:PATH or http(s)://HOST:PORT; None: SHUNTER_URL, else the usual socket.
            token: over TCP; None: SHUNTER_TOKEN, else the file SHUNTER_TOKEN_FILE.
            ca_file: certificates to trust; None: SHUNTER_CA_FILE, else those of the system.
        """
        settings = Settings(url, token, ca_file)
        self.address = settings.address
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

    async def daemon(self) -> Answer:
        """Return the cluster and the user as whom the daemon sees this client."""
        return await self._ask(requests.read("/daemon"))

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

    async def queue(
        self,
        *,
        user: str | None = None,
        queue: str | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> Answer:
        """Return the jobs that have not ended; `user` may be "me"."""
        return await self._ask(
            requests.read("/jobs", user=user, queue=queue, state=state, limit=limit)
        )

    async def history(self, *, user: str | None = None, limit: int | None = None) -> Answer:
        """Return jobs that have ended, the last one first."""
        return await self._ask(requests.read("/history", user=user, limit=limit))

    async def job(self, job_id: str, *, wait_s: float = 0) -> Answer:
        """Return everything about a job, at its end if that comes within some seconds."""
        return await self._ask(requests.read("/jobs/{}", job_id, wait_s=wait_s or None))

    async def why(self, job_id: str, at: str | None = None) -> Answer:
        """Return why a job is where it is, or was at an event or instant."""
        return await self._ask(requests.read("/jobs/{}/why", job_id, at=at))

    async def cancel(self, job_id: str) -> Answer:
        """End a job, or keep it from starting."""
        return await self._ask(requests.act("/jobs/{}/cancel", job_id))

    async def suspend(self, job_id: str) -> Answer:
        """Save a job, take it off its GPUs, and hold it."""
        return await self._ask(requests.act("/jobs/{}/suspend", job_id))

    async def resume(self, job_id: str) -> Answer:
        """Let a held job start again."""
        return await self._ask(requests.act("/jobs/{}/resume", job_id))

    async def discard_checkpoint(self, job_id: str) -> Answer:
        """Let a job go on without what it saved on servers that do not answer."""
        return await self._ask(requests.act("/jobs/{}/discard-checkpoint", job_id))

    async def set_aside(self, job_id: str) -> Answer:
        """End a job's attempt, whatever its records say, and hold the job."""
        return await self._ask(requests.act("/jobs/{}/set-aside", job_id))

    async def set_priority(self, job_id: str, priority: int) -> Answer:
        """Give a job another priority; the higher goes first."""
        return await self._ask(
            requests.act("/jobs/{}/priority", job_id, body={"priority": priority})
        )

    async def nodes(self) -> Answer:
        """Return the servers."""
        return await self._ask(requests.read("/nodes"))

    async def drain(self, node: str) -> Answer:
        """Start nothing new on a server."""
        return await self._ask(requests.act("/nodes/{}/drain", node))

    async def restore(self, node: str) -> Answer:
        """Put a drained server back to work."""
        return await self._ask(requests.act("/nodes/{}/restore", node))

    async def state(self, at: str | None = None) -> Answer:
        """Return what is true, or was at an event or instant."""
        return await self._ask(requests.read("/state", at=at))

    async def decision(self, seq: int | str) -> Answer:
        """Return the decision that an event belongs to."""
        return await self._ask(requests.read("/decisions/{}", str(seq)))

    async def events(
        self,
        *,
        after: int = 0,
        limit: int | None = None,
        job: str | None = None,
        node: str | None = None,
        kind: str | None = None,
    ) -> Answer:
        """Return a page of events, and where the next one begins."""
        params: dict[str, object] = {"job": job, "node": node, "kind": kind}
        return await self._ask(requests.read("/events", after=after, limit=limit, **params))

    async def stream(
        self,
        *,
        after: int | None = None,
        job: str | None = None,
        node: str | None = None,
        kind: str | None = None,
    ) -> AsyncIterator[Followed]:
        """Yield events as they become durable, until the daemon stops.

        Raises:
            UnreachableError: no daemon answers, or it went away without an end.
        """
        params = {"after": after, "job": job, "node": node, "kind": kind}
        lines = Lines()
        response = await self.open_stream(requests.read("/stream", **params))
        async with aclosing(response):
            with named(self.address):
                async for line in response.aiter_lines():
                    for followed in lines.take(line):
                        yield followed

    async def logs(
        self,
        job_id: str,
        *,
        rank: int = 0,
        attempt: int | None = None,
        stream: str = "stdout",
        since: str | None = None,
        follow: bool = False,
        skip: int | None = None,
        tail: int | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield what a rank of a job printed; with `follow` until the job has ended.

        `tail` asks for the last so many bytes of one stream of an attempt only.
        """
        ask = requests.read(
            "/jobs/{}/logs",
            job_id,
            rank=rank,
            attempt=attempt,
            stream=stream,
            since=since,
            follow=follow,
            skip=skip,
            tail=tail,
        )
        response = await self.open_stream(ask)
        async with aclosing(response):
            with named(self.address):
                async for piece in response.aiter_raw():
                    yield piece

    async def _ask(self, ask: Ask) -> Answer:
        timeout = WAIT_READ_S if "wait_s" in ask.params else httpx.USE_CLIENT_DEFAULT
        with named(self.address):
            response = await self._http.request(
                ask.method,
                ask.path,
                params=ask.params,
                headers=ask.headers,
                content=ask.body,
                timeout=timeout,
            )
        return requests.value_of(response.status_code, response.content)

    async def open_stream(self, ask: Ask) -> httpx.Response:
        """Return an answer whose body is still to be read.

        Raises:
            ShunterError: the daemon refused.
        """
        with named(self.address):
            request = self._http.build_request(
                ask.method,
                ask.path,
                params=ask.params,
                headers=ask.headers,
                timeout=WAIT_READ_S,
            )
            response = await self._http.send(request, stream=True)
            if response.status_code >= 400:
                content = await response.aread()
                await response.aclose()
                raise requests.error_of(response.status_code, content)
        return response
