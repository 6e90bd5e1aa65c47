"""Jobs as futures: what `submit` returns, one of `concurrent.futures` or one to be awaited."""

import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent import futures
from concurrent.futures import CancelledError, Future
from typing import Any, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

from shunter.client.absence import PAUSE_S, Absence
from shunter.client.calls import Call
from shunter.client.daemon_calls import Calls
from shunter.client.job_request import CallOptions
from shunter.client.requests import Answer, Followed
from shunter.client.watch import WatchedCalls
from shunter.errors import JobFailedError, RefusedError, UnreachableError

P = ParamSpec("P")
T = TypeVar("T")

AsyncCalls: TypeAlias = Calls[
    Coroutine[Any, Any, Answer], AsyncIterator[Followed], AsyncIterator[bytes]
]

WAIT_S = 30.0


class End(NamedTuple, Generic[T]):
    """What became of a job: a value, an error, or that it was cancelled."""

    value: T | None = None
    error: Exception | None = None
    cancelled: str = ""

    def worth(self) -> T:
        """Return the value; raise the error, or CancelledError."""
        if self.cancelled:
            raise CancelledError(self.cancelled)
        if self.error is not None:
            raise self.error
        return cast("T", self.value)


def end_of(document: Answer, call: Call[T] | None) -> End[T]:
    """Return what became of a job that has ended.

    A command's value is its exit code, 0, its error a JobFailedError; a function's are what it
    returned or raised.
    """
    state, cause, code = document["state"], document["cause"], document["exit_code"]
    if state == "cancelled":
        return End(cancelled=f"job {document['id']} was cancelled: {cause or 'asked to end'}")
    if state == "finished":
        try:
            return End(cast("T", 0) if call is None else call.value())
        except JobFailedError as error:
            return End(error=error)
    said = f"{cause}, exit code {code}" if code is not None else cause
    if document.get("killed_by"):
        said = f"killed by {document['killed_by']}"
    failed = JobFailedError(f"job {document['id']} {state}: {said}", exit_status=code)
    return End(error=failed if call is None else call.error(failed))


def wait_s(deadline: float | None) -> float:
    """Return how long one request may wait for an end.

    Raises:
        TimeoutError: the deadline is over.
    """
    if deadline is None:
        return WAIT_S
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the job has not ended in time")
    return min(WAIT_S, left)


class JobHandle(Future[T]):
    """A job of a cluster, as a `concurrent.futures.Future`.

    Of a command the result is its exit code, 0; of a function what that returns. `wait` and
    `as_completed` of `concurrent.futures` work on it, as do callbacks, which run in the thread that
    learns of the end.
    """

    def __init__(self, client: WatchedCalls, job_id: str, call: Call[T] | None = None) -> None:
        super().__init__()
        self._client = client
        self._call = call
        self._settling = threading.RLock()  # a callback may look at it again
        self._cancelled = ""
        self.id = job_id
        if job_id:  # a dry run has made none
            client.watch.add(self)

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    def describe(self) -> Answer:
        """Return everything about the job."""
        document = self._client.job(self.id)
        self.settle(document)
        return document

    def state(self) -> str:
        """Return where it is: waiting, running, suspended, finished, failed, …"""
        found: str = self.describe()["state"]
        return found

    def done(self) -> bool:
        """Say whether it has ended, in whatever way."""
        return self.is_settled() or bool(self.describe()["is_over"])

    def running(self) -> bool:
        """Say whether it holds GPUs now."""
        row = None if self.is_settled() else self.describe()["row"]
        return row is not None and bool(row["where"])

    def cancelled(self) -> bool:
        """Say whether it was cancelled."""
        return self.done() and super().cancelled()

    def cancel(self) -> bool:
        """Ask for its end; False if it has ended already.

        One that runs is cancelled once its processes are gone: wait for that.
        """
        if self.is_settled():
            return False
        try:
            self._client.cancel(self.id)
        except RefusedError:
            if self.done():
                return False
            raise
        self.done()
        return True

    def wait(self, timeout: float | None = None) -> Answer:
        """Return everything about it once it has ended, whatever daemon sees that.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            UnreachableError: no daemon answered for two minutes.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        absence = Absence()
        while True:
            try:
                document = self._client.job(self.id, wait_s=wait_s(deadline))
                absence.end()
            except UnreachableError:
                if not absence.pause(wait_s(deadline)):
                    raise
                continue
            if document["is_over"]:
                self.settle(document)
                return document

    def result(self, timeout: float | None = None) -> T:
        """Return its value once it has ended well: 0, or what a function returns.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            CancelledError: it was cancelled.
            JobFailedError: it failed; carries the exit code. What a function raised is raised.
        """
        if not self.is_settled():
            self.wait(timeout)
        try:
            return super().result(0)
        except CancelledError:
            raise CancelledError(self._cancelled) from None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return how it failed, None if it ended well.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            CancelledError: it was cancelled.
        """
        if not self.is_settled():
            self.wait(timeout)
        try:
            return super().exception(0)
        except CancelledError:
            raise CancelledError(self._cancelled) from None

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call a function with it once it has ended, also if nobody holds it until then."""
        self._client.watch.keep(self)
        super().add_done_callback(fn)

    def logs(
        self, *, follow: bool = False, rank: int = 0, stream: str = "stdout"
    ) -> Iterator[bytes]:
        """Yield what it printed, or prints."""
        return self._client.logs(self.id, follow=follow, rank=rank, stream=stream)

    def is_settled(self) -> bool:
        """Say whether its end is known here; nobody is asked."""
        return super().done()

    def settle(self, document: Answer) -> None:
        """Take in how it ended, if it has; tell those who wait by `concurrent.futures`."""
        if document["is_over"]:
            with self._settling:
                if not self.is_settled():
                    self._end(end_of(document, self._call))

    def fail(self, error: Exception) -> None:
        """Give up: nobody will learn how it ended."""
        with self._settling:
            if not self.is_settled():
                self._end(End(error=error))

    def _end(self, end: End[T]) -> None:
        if end.cancelled:
            self._cancelled = end.cancelled
            super().cancel()
            self.set_running_or_notify_cancel()
        elif end.error is not None:
            self.set_exception(end.error)
        else:
            self.set_result(cast("T", end.value))


class AsyncJobHandle(Generic[T]):
    """A job of a cluster, as a future to be awaited."""

    def __init__(self, client: AsyncCalls, job_id: str, call: Call[T] | None = None) -> None:
        self._client = client
        self._call = call
        self._end: End[T] | None = None
        self.id = job_id

    def __repr__(self) -> str:
        return f"AsyncJobHandle({self.id!r})"

    async def describe(self) -> Answer:
        """Return everything about the job."""
        return await self._client.job(self.id)

    async def state(self) -> str:
        """Return where it is: waiting, running, suspended, finished, failed, …"""
        found: str = (await self.describe())["state"]
        return found

    async def done(self) -> bool:
        """Say whether it has ended, in whatever way."""
        over: bool = (await self.describe())["is_over"]
        return over

    async def cancel(self) -> bool:
        """Ask for its end; False if it has ended already."""
        try:
            await self._client.cancel(self.id)
        except RefusedError:
            if await self.done():
                return False
            raise
        return True

    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 as futures have it
    ) -> Answer:
        """Return all about it once it has ended; errors are those of `JobHandle`."""
        import anyio

        deadline = None if timeout is None else time.monotonic() + timeout
        absence = Absence()
        while True:
            try:
                document = await self._client.job(self.id, wait_s=wait_s(deadline))
                absence.end()
            except UnreachableError:
                left_s = absence.left_s()
                if not left_s:
                    raise
                await anyio.sleep(min(PAUSE_S, left_s, wait_s(deadline)))
                continue
            if document["is_over"]:
                return document

    async def result(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 as futures have it
    ) -> T:
        """Return its value once it has ended well; errors are those of `JobHandle`."""
        return (await self._ended(timeout)).worth()

    async def exception(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 as futures have it
    ) -> Exception | None:
        """Return how it failed, None if it ended well; errors are those of `JobHandle`."""
        end = await self._ended(timeout)
        if end.cancelled:
            end.worth()
        return end.error

    async def running(self) -> bool:
        """Say whether it holds GPUs now."""
        row = (await self.describe())["row"]
        return row is not None and bool(row["where"])

    async def cancelled(self) -> bool:
        """Say whether it was cancelled."""
        return await self.state() == "cancelled"

    def logs(
        self, *, follow: bool = False, rank: int = 0, stream: str = "stdout"
    ) -> AsyncIterator[bytes]:
        """Yield what it printed, or prints."""
        return self._client.logs(self.id, follow=follow, rank=rank, stream=stream)

    async def _ended(self, timeout: float | None) -> End[T]:  # noqa: ASYNC109 as futures have it
        import anyio

        document = await self.wait(timeout)
        if self._end is None:  # reading a result may wait for a file system
            self._end = await anyio.to_thread.run_sync(end_of, document, self._call)
        return self._end


class JobExecutor(futures.Executor):
    """Runs each function as a job of its own; made by `Client.executor`."""

    def __init__(self, submit: Callable[..., JobHandle[Any]], options: CallOptions) -> None:
        self._submit = submit
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
        job = self._submit(fn, *args, keywords=kwargs, **self._options)
        self._jobs.append(job)
        return job

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more functions; cancel what has not ended, wait for it, or both."""
        self._is_over = True
        if cancel_futures:
            for job in self._jobs:
                job.cancel()
        if wait:
            futures.wait(self._jobs)
