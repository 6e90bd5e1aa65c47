"""An executor of `concurrent.futures` whose functions run as jobs of a cluster."""

from collections.abc import Callable
from concurrent import futures
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from shunter.client.futures import JobHandle
from shunter.client.requests import CallOptions

if TYPE_CHECKING:
    from shunter.client.synchronous import Client

__all__ = ["JobExecutor"]

P = ParamSpec("P")
T = TypeVar("T")


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
