"""The synchronous client."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import closing
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack, overload
from uuid import uuid4

import httpx

from shunter.client import requests
from shunter.client.calls import described
from shunter.client.futures import JobHandle
from shunter.client.requests import Answer, Ask, CallOptions, JobOptions
from shunter.client.sse import Followed, Lines
from shunter.client.transport import WAIT_READ_S, Settings, named
from shunter.client.watching import Watch
from shunter.errors import RefusedError, UnreachableError, UsageError

__all__ = ["Client", "JobExecutor"]

P = ParamSpec("P")
T = TypeVar("T")


class Client:
    """Talks to a daemon over its socket or TCP; use it as a context, or close it.

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

    def daemon(self) -> Answer:
        """Return the cluster and the user as whom the daemon sees this client."""
        return self._ask(requests.read("/daemon"))

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

    def queue(
        self,
        *,
        user: str | None = None,
        queue: str | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> Answer:
        """Return the jobs that have not ended; `user` may be "me"."""
        return self._ask(requests.read("/jobs", user=user, queue=queue, state=state, limit=limit))

    def history(self, *, user: str | None = None, limit: int | None = None) -> Answer:
        """Return jobs that have ended, the last one first."""
        return self._ask(requests.read("/history", user=user, limit=limit))

    def job(self, job_id: str, *, wait_s: float = 0) -> Answer:
        """Return everything about a job, at its end if that comes within some seconds."""
        return self._ask(requests.read("/jobs/{}", job_id, wait_s=wait_s or None))

    def why(self, job_id: str, at: str | None = None) -> Answer:
        """Return why a job is where it is, or was at an event or instant."""
        return self._ask(requests.read("/jobs/{}/why", job_id, at=at))

    def cancel(self, job_id: str) -> Answer:
        """End a job, or keep it from starting."""
        return self._ask(requests.act("/jobs/{}/cancel", job_id))

    def suspend(self, job_id: str) -> Answer:
        """Save a job, take it off its GPUs, and hold it."""
        return self._ask(requests.act("/jobs/{}/suspend", job_id))

    def resume(self, job_id: str) -> Answer:
        """Let a held job start again."""
        return self._ask(requests.act("/jobs/{}/resume", job_id))

    def discard_checkpoint(self, job_id: str) -> Answer:
        """Let a job go on without what it saved on servers that do not answer."""
        return self._ask(requests.act("/jobs/{}/discard-checkpoint", job_id))

    def set_aside(self, job_id: str) -> Answer:
        """End a job's attempt, whatever its records say, and hold the job."""
        return self._ask(requests.act("/jobs/{}/set-aside", job_id))

    def set_priority(self, job_id: str, priority: int) -> Answer:
        """Give a job another priority; the higher goes first."""
        return self._ask(requests.act("/jobs/{}/priority", job_id, body={"priority": priority}))

    def nodes(self) -> Answer:
        """Return the servers."""
        return self._ask(requests.read("/nodes"))

    def drain(self, node: str) -> Answer:
        """Start nothing new on a server."""
        return self._ask(requests.act("/nodes/{}/drain", node))

    def restore(self, node: str) -> Answer:
        """Put a drained server back to work."""
        return self._ask(requests.act("/nodes/{}/restore", node))

    def state(self, at: str | None = None) -> Answer:
        """Return what is true, or was at an event or instant."""
        return self._ask(requests.read("/state", at=at))

    def decision(self, seq: int | str) -> Answer:
        """Return the decision that an event belongs to."""
        return self._ask(requests.read("/decisions/{}", str(seq)))

    def events(
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
        return self._ask(requests.read("/events", after=after, limit=limit, **params))

    def stream(
        self,
        *,
        after: int | None = None,
        job: str | None = None,
        node: str | None = None,
        kind: str | None = None,
    ) -> Iterator[Followed]:
        """Yield events as they become durable, until the daemon stops.

        Raises:
            UnreachableError: no daemon answers, or it went away without an end.
        """
        params = {"after": after, "job": job, "node": node, "kind": kind}
        lines = Lines()
        with (
            closing(self.open_stream(requests.read("/stream", **params))) as response,
            named(self.address),
        ):
            for line in response.iter_lines():
                yield from lines.take(line)

    def logs(
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
    ) -> Iterator[bytes]:
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
        with closing(self.open_stream(ask)) as response, named(self.address):
            yield from response.iter_raw()

    def _ask(self, ask: Ask) -> Answer:
        timeout = WAIT_READ_S if "wait_s" in ask.params else httpx.USE_CLIENT_DEFAULT
        with named(self.address):
            response = self._http.request(
                ask.method,
                ask.path,
                params=ask.params,
                headers=ask.headers,
                content=ask.body,
                timeout=timeout,
            )
        return requests.value_of(response.status_code, response.content)

    def open_stream(self, ask: Ask) -> httpx.Response:
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
            response = self._http.send(request, stream=True)
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
