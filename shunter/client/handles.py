"""Jobs as futures: what `submit` returns, with the feel of `concurrent.futures`."""

import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

from shunter.client.asks import Answer
from shunter.errors import JobFailedError, RefusedError, UnreachableError

if TYPE_CHECKING:
    from shunter.client.asynchronous import AsyncClient
    from shunter.client.synchronous import Client

__all__ = ["PATIENCE_S", "AsyncJobHandle", "JobHandle", "wait_s", "worth_of"]

WAIT_S = 30.0
PAUSE_S = 0.5
PATIENCE_S = 120.0
"""How long a daemon may be away while somebody waits: it may be starting anew."""


def worth_of(document: Answer) -> int:
    """Return the exit code of a job that has ended well.

    Raises:
        CancelledError: it was cancelled.
        JobFailedError: it failed, ran out of time, or was rejected.
    """
    state, cause, code = document["state"], document["cause"], document["exit_code"]
    if state == "finished":
        return 0
    if state == "cancelled":
        raise CancelledError(f"job {document['id']} was cancelled: {cause or 'asked to end'}")
    said = f"{cause}, exit code {code}" if code is not None else cause
    raise JobFailedError(f"job {document['id']} {state}: {said}", exit_status=code)


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


class JobHandle:
    """A job of a cluster, as a future."""

    def __init__(self, client: "Client", job_id: str) -> None:
        self._client = client
        self.id = job_id

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    def describe(self) -> Answer:
        """Return everything about the job."""
        return self._client.job(self.id)

    def state(self) -> str:
        """Return where it is: waiting, running, suspended, finished, failed, …"""
        found: str = self.describe()["state"]
        return found

    def done(self) -> bool:
        """Say whether it has ended, in whatever way."""
        over: bool = self.describe()["is_over"]
        return over

    def running(self) -> bool:
        """Say whether it holds GPUs now."""
        row = self.describe()["row"]
        return row is not None and bool(row["where"])

    def cancelled(self) -> bool:
        """Say whether it was cancelled."""
        return self.state() == "cancelled"

    def cancel(self) -> bool:
        """Ask for its end; False if it has ended already."""
        try:
            self._client.cancel(self.id)
        except RefusedError:
            if self.done():
                return False
            raise
        return True

    def wait(self, timeout: float | None = None) -> Answer:
        """Return everything about it once it has ended, whatever daemon sees that.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            UnreachableError: no daemon answered for two minutes.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        away_since: float | None = None
        while True:
            try:
                document = self._client.job(self.id, wait_s=wait_s(deadline))
                away_since = None
            except UnreachableError:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > PATIENCE_S:
                    raise
                time.sleep(min(PAUSE_S, wait_s(deadline)))
                continue
            if document["is_over"]:
                return document

    def result(self, timeout: float | None = None) -> int:
        """Return its exit code, 0, once it has ended well.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            CancelledError: it was cancelled.
            JobFailedError: it failed; carries the exit code.
        """
        return worth_of(self.wait(timeout))

    def exception(self, timeout: float | None = None) -> JobFailedError | None:
        """Return how it failed, None if it ended well.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            CancelledError: it was cancelled.
        """
        try:
            self.result(timeout)
        except JobFailedError as error:
            return error
        return None

    def logs(self, *, follow: bool = False, rank: int = 0) -> Iterator[bytes]:
        """Yield what it printed, or prints."""
        return self._client.logs(self.id, follow=follow, rank=rank)


class AsyncJobHandle:
    """A job of a cluster, as a future to be awaited."""

    def __init__(self, client: "AsyncClient", job_id: str) -> None:
        self._client = client
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
        """Return everything about it once it has ended, whatever daemon sees that.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            UnreachableError: no daemon answered for two minutes.
        """
        import anyio

        deadline = None if timeout is None else time.monotonic() + timeout
        away_since: float | None = None
        while True:
            try:
                document = await self._client.job(self.id, wait_s=wait_s(deadline))
                away_since = None
            except UnreachableError:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > PATIENCE_S:
                    raise
                await anyio.sleep(min(PAUSE_S, wait_s(deadline)))
                continue
            if document["is_over"]:
                return document

    async def result(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 as futures have it
    ) -> int:
        """Return its exit code, 0, once it has ended well.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            CancelledError: it was cancelled.
            JobFailedError: it failed; carries the exit code.
        """
        return worth_of(await self.wait(timeout))

    async def exception(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 as futures have it
    ) -> JobFailedError | None:
        """Return how it failed, None if it ended well.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            CancelledError: it was cancelled.
        """
        try:
            await self.result(timeout)
        except JobFailedError as error:
            return error
        return None
