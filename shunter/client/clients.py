"""The client whose calls return their answers."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload
from uuid import uuid4

from shunter.client import requests, transport
from shunter.client.connections import Connections, Response
from shunter.client.daemon_calls import silence_s
from shunter.client.requests import Answer, Ask, Followed, Lines
from shunter.client.transport import CutError, NotHttpError, Settings, named
from shunter.client.watch import Watch, WatchedCalls
from shunter.errors import RefusedError, UnreachableError, UsageError

if TYPE_CHECKING:
    from shunter.client.futures import JobExecutor, JobHandle
    from shunter.client.job_request import CallOptions, JobOptions

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
        self._http = Connections(settings)
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
    def submit(
        self, command: Sequence[str], **options: "Unpack[JobOptions]"
    ) -> "JobHandle[int]": ...

    @overload
    def submit(
        self,
        command: Callable[..., T],
        *arguments: object,
        keywords: Mapping[str, object] | None = None,
        **options: "Unpack[CallOptions]",
    ) -> "JobHandle[T]": ...

    def submit(
        self,
        command: Sequence[str] | Callable[..., T],
        *arguments: object,
        keywords: Mapping[str, object] | None = None,
        **options: "Unpack[CallOptions]",
    ) -> "JobHandle[Any]":
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
        from shunter.client.calls import described
        from shunter.client.futures import JobHandle

        words, said, call = described(command, arguments, keywords, options)
        try:
            made = self.submit_many(words, **said)
        except (UsageError, RefusedError):
            if call is not None:
                call.drop()
            raise
        return JobHandle(self, made["id"], call)

    def executor(self, **options: "Unpack[CallOptions]") -> "JobExecutor":
        """Return an executor whose functions run as jobs with these options."""
        from shunter.client.futures import JobExecutor

        return JobExecutor(self.submit, options)

    def submit_array(
        self, command: Sequence[str], **options: "Unpack[JobOptions]"
    ) -> "list[JobHandle[int]]":
        """Submit the tasks of `array`; return each as a future."""
        from shunter.client.futures import JobHandle

        made = self.submit_many(command, **options)
        return [JobHandle(self, job_id) for job_id in made["ids"]]

    def submit_many(self, command: Sequence[str], **options: "Unpack[JobOptions]") -> Answer:
        """Submit a job or an array; return the daemon's answer as it is."""
        key = options.get("key") or uuid4().hex
        ask = requests.submission(command, options, key)
        try:
            return self._ask(ask)
        except UnreachableError as error:
            if not isinstance(error.__cause__, CutError | NotHttpError):
                raise
            return self._ask(ask)

    def handle(self, job_id: str) -> "JobHandle[int]":
        """Return a job that was submitted before as a future."""
        from shunter.client.futures import JobHandle

        return JobHandle(self, job_id)

    def _ask(self, ask: Ask) -> Answer:
        with named(self.address, changes=ask.method != "GET"), self._slowness_noted(ask):
            response = self._http.send(ask, silence_s(ask))
            content = response.read()
        return requests.value_of(ask, response.status, content)

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
            for piece in response.pieces():
                yield from lines.take(piece)

    def _read(self, ask: Ask) -> Iterator[bytes]:
        with closing(self._opened(ask)) as response, named(self.address):
            yield from response.pieces()

    def _opened(self, ask: Ask) -> Response:
        """Return an answer whose body is still to be read, or raise ShunterError."""
        with named(self.address):
            response = self._http.send(ask, silence_s(ask, waits=True))
            if response.status >= 400:
                raise requests.error_of(response.status, response.read())
        return response
