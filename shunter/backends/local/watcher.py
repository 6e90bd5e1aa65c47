"""Watching attempts: at once where a supervisor says so or ends, and once a period otherwise.

A notice through a FIFO names the attempt, and a supervisor's end is awaited by its pidfd, so that
fifty quiet jobs cost nothing. A notice may be lost (a full FIFO, a daemon that was away): so now
and then all are asked, by two `stat` each, whether there is anything new to read.
"""

import os
import time
from collections.abc import Collection, Sequence
from functools import partial

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from shunter.backends.inbox import Inbox
from shunter.backends.node import attempts
from shunter.backends.node.failpoints import failpoint
from shunter.backends.node.messages.wire import Look
from shunter.backends.supervised.watch import NEVER, Watch
from shunter.events.values.ids import JobId

__all__ = ["Watcher"]

SWEEP_S = 0.05


class Watcher:
    """The attempts that may run, and what tells that one of them has news."""

    def __init__(
        self, root: str, term: int, inbox: Inbox, tasks: TaskGroup, every_s: float
    ) -> None:
        self.watches: dict[JobId, Watch] = {}
        self._root = root
        self._term = term
        self._inbox = inbox
        self._tasks = tasks
        self._every_s = every_s
        self._named: set[JobId] = set()
        self._noticed = anyio.Event()

    def add(self, watch: Watch) -> None:
        """Watch an attempt from now on, instead of an earlier one of the same job."""
        self.watches[watch.job_id] = watch
        self.notice(watch.job_id)

    def notice(self, job_id: JobId) -> None:
        """Look at a job's attempt as soon as possible."""
        self._named.add(job_id)
        self._noticed.set()

    async def run(self) -> None:
        """Look for ever."""
        round_s = time.monotonic()
        while True:
            left_s = round_s + self._every_s - time.monotonic()
            with anyio.move_on_after(max(0.0, left_s)):
                await self._noticed.wait()
            self._noticed = anyio.Event()
            named, self._named = self._named, set()
            is_round = time.monotonic() >= round_s + self._every_s
            if is_round:
                round_s = time.monotonic()
                watches = list(self.watches.values())
            else:
                watches = [self.watches[job] for job in sorted(named) if job in self.watches]
            looks = await to_thread.run_sync(_look_at, self._root, self._term, watches, named)
            for watch, known in looks:
                self._take_in(watch, known)

    async def listen(self, notices: int) -> None:
        """Receive the notices of supervisors, for ever."""
        while True:
            await anyio.wait_readable(notices)
            for line in os.read(notices, 1 << 16).decode("ascii", "replace").splitlines():
                self.notice(JobId(line.partition("/")[0]))

    def _take_in(self, watch: Watch, known: Look) -> None:
        reading = watch.reading
        notes = reading.take(known) if watch.accepts(known) else []
        self._inbox.put_all(watch.tell(known, notes, self._inbox, reading.facts or 0))
        if notes:
            self._inbox.once_durable(partial(reading.note_durable, reading.read))
        failpoint(f"seen {known['state']}")
        if watch.is_over:
            if self.watches.get(watch.job_id) is watch:
                del self.watches[watch.job_id]
        elif known["state"] == "ended" and not known["is_all"]:  # there is more of its journal
            self._tasks.start_soon(self._look_again, watch.job_id)
        elif not watch.is_awaited and known["state"] == "running":
            end = watch.open_end()
            if end is not None:
                watch.is_awaited = True
                self._tasks.start_soon(self._await_end, watch, end)
            elif watch.seen == NEVER:  # its supervisor is gone, and what it left is being swept
                self._tasks.start_soon(self._look_again, watch.job_id)

    async def _look_again(self, job_id: JobId) -> None:
        await anyio.sleep(SWEEP_S)
        self.notice(job_id)

    async def _await_end(self, watch: Watch, end: int) -> None:
        try:
            await anyio.wait_readable(end)
        finally:
            os.close(end)
        watch.is_awaited = False  # from here on a round looks whatever has changed
        self.notice(watch.job_id)


def _look_at(
    root: str, term: int, watches: Sequence[Watch], named: Collection[JobId]
) -> list[tuple[Watch, Look]]:
    """Read the records of those that were named or may have news; runs in a thread."""
    looks = []
    for watch in watches:
        if watch.job_id in named or watch.may_have_news():
            try:
                looks.append((watch, _look(root, term, watch)))
            except OSError:  # a full disk, or too many open files: the next round looks again
                watch.seen = NEVER
    return looks


def _look(root: str, term: int, watch: Watch) -> Look:
    watch.acknowledge(term)
    order = watch.order
    if order is not None and attempts.send(watch.folder, order) and watch.order is order:
        watch.order = None  # unless a newer one has come that nobody took yet
    known = watch.look()
    if known["state"] == "absent":  # it never began, and never will once it is fenced
        attempts.raise_fence(root, watch.job_id, watch.attempt)
        known = watch.look()
    return known
