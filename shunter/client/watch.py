"""The jobs of a client that somebody waits for, and the thread that learns how they end."""

import threading
import time
from collections.abc import Iterator
from typing import Protocol
from weakref import WeakSet

from shunter.client.absence import Absence
from shunter.client.daemon_calls import Calls
from shunter.client.requests import Answer, Followed
from shunter.errors import NotFoundError, ShunterError, UnreachableError, UsageError

# `concurrent.futures.wait` and `as_completed` only look at futures. So one thread for each client
# asks for the queue, or for the jobs where they are few, at a pace that costs a daemon a hundredth
# of its time; it ends with the last job that somebody still holds.

JOIN_S = 5.0
FEW = 4
LOOK_S, LOOK_S_MOST = 0.2, 5.0
COST_MOST = 0.01


class Watched(Protocol):
    """A job that somebody waits for."""

    id: str

    def is_settled(self) -> bool:
        """Say whether its end is known, or that nobody will learn of it."""

    def settle(self, document: Answer) -> None:
        """Take in what is known of the job; once it has ended, that it has."""

    def fail(self, error: Exception) -> None:
        """Tell who waits that the end will not be learnt of."""


class Watch:
    """The jobs of a client that have not ended, as far as somebody holds them."""

    def __init__(self, client: Calls[Answer, Iterator[Followed], Iterator[bytes]]) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._open: WeakSet[Watched] = WeakSet()
        self._kept: set[Watched] = set()
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def add(self, job: Watched) -> None:
        """Watch a job while somebody holds it."""
        with self._lock:
            self._open.add(job)
            if self._thread is None and not self._over.is_set():
                self._thread = threading.Thread(target=self._run, name="shunter-watch", daemon=True)
                self._thread.start()

    def keep(self, job: Watched) -> None:
        """Watch a job although nobody may hold it: a callback waits for it."""
        with self._lock:
            self._kept.add(job)

    def close(self) -> None:
        """Stop; who still waits is told."""
        self._over.set()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_S)  # it may be in the midst of a request, whose connection goes next
        for job in self._waiting():
            job.fail(UsageError(f"the client of job {job.id} is closed: wait before you close it"))

    def _run(self) -> None:
        pause_s, absence = LOOK_S, Absence()
        while not self._over.wait(pause_s):
            if self._is_done():
                return
            began = time.monotonic()
            try:
                self._look()
                absence.end()
            except UnreachableError as error:
                if not absence.left_s():
                    for job in self._waiting():
                        job.fail(error)
            except (ShunterError, RuntimeError) as error:
                if self._over.is_set():  # closed in mid-request
                    return
                for job in self._waiting():
                    job.fail(error)
            took_s = time.monotonic() - began
            pause_s = min(LOOK_S_MOST, max(LOOK_S, took_s / COST_MOST))

    def _is_done(self) -> bool:
        """Say whether nobody waits any more; then the next job begins a new thread."""
        with self._lock:
            waiting = [job for job in sorted(self._open, key=_by_id) if not job.is_settled()]
            self._open = WeakSet(waiting)
            self._kept.intersection_update(waiting)
            if not waiting:
                self._thread = None
            return not waiting

    def _waiting(self) -> list[Watched]:
        with self._lock:
            return [job for job in sorted(self._open, key=_by_id) if not job.is_settled()]

    def _look(self) -> None:
        """Settle the jobs that have ended."""
        waiting = self._waiting()
        if len(waiting) > FEW:
            queued = {row["id"] for row in self._client.queue()["jobs"]}
            waiting = [job for job in waiting if job.id not in queued]
        for job in waiting:
            try:
                job.settle(self._client.job(job.id))
            except NotFoundError as error:
                job.fail(error)


def _by_id(job: Watched) -> str:
    return job.id


class WatchedCalls(Calls[Answer, Iterator[Followed], Iterator[bytes]]):
    """The calls of a client whose jobs are watched while somebody holds them."""

    watch: Watch
