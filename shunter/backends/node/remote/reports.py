"""What a session tells of attempts: what is new of each, and when a supervisor is gone.

Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import json
import os
import select
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import running
from shunter.backends.node.processes.attempt_watch import Watched
from shunter.backends.node.records import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from shunter.backends.node.messages.wire import Known, Probe, SampleOf

    Key = tuple[str, int]

NEWS_BYTES = 1 << 20


class Reports:
    """The attempts of which a session tells, by job and number.

    `again` are those to be looked at soon, since what they left is still being swept; `ends` says
    by file whose supervisor's end it tells; `ports` are those that running attempts were given.
    """

    def __init__(self, poll: select.poll, make: Callable[[str], Watched] = Watched) -> None:
        self.again: set[Key] = set()
        self.ends: dict[int, Key] = {}
        self.ports: dict[Key, int | None] = {}
        self._root = ""
        self._poll = poll
        self._make = make
        self._attempts: dict[Key, Watched] = {}
        self._begun: set[Key] = set()

    def begin(self, root: str) -> None:
        """Tell of attempts below a root from now on."""
        self._root = root
        for each in running(root, []):
            self._note_port(each["job"], each["attempt"], each)
            self._begun.add((each["job"], each["attempt"]))

    def is_new(self, job: str, attempt: int) -> bool:
        """Say whether an attempt that is to start has never been seen here before.

        What ran when this session began was seen, and all that starts later starts through it.
        """
        key = job, attempt
        if key in self._begun:
            return False
        self._begun.add(key)
        return True

    def of(self, job: str, attempt: int) -> Watched:
        """Return what is known of an attempt."""
        key = job, attempt
        if key not in self._attempts:
            self._attempts[key] = self._make(folder_of(self._root, job, attempt))
        return self._attempts[key]

    def forget_all_but(self, kept: Collection[Key]) -> None:
        """Tell nothing more of attempts but for some."""
        for gone in sorted(self._attempts.keys() - set(kept)):
            self._end_wait(self._attempts.pop(gone).end)
            self.again.discard(gone)
            self._begun.discard(gone)  # if it is over, the fence of its job tells

    def ended(self, file: int) -> Key:
        """Note that a supervisor is gone; return whose."""
        key = self.ends[file]
        self._end_wait(file)
        self._attempts[key].end = -1
        return key

    def news(self, attempts: Iterable[Key]) -> list[Known]:
        """Return what has changed, where a glance says that something may have."""
        return self.changed([key for key in attempts if self.of(*key).may_have_news()])

    def changed(self, attempts: Iterable[Key]) -> list[Known]:
        """Return what has changed of attempts since it was told."""
        found, size = [], 0
        for job, attempt in attempts:
            before = self.of(job, attempt).told
            known = self.known(job, attempt, with_notes=size < NEWS_BYTES)
            if known["notes"] or before != self.of(job, attempt).told:
                found.append(known)
                size += len(json.dumps(known["notes"]))
        return found

    def samples(self, attempts: Iterable[Key]) -> list[SampleOf]:
        """Return the samples of attempts that have not been told yet."""
        found: list[SampleOf] = []
        for job, attempt in attempts:
            sample = self.of(job, attempt).sample()
            if sample is not None:
                found.append({"job": job, "attempt": attempt, **sample})
        return found

    def known(self, job: str, attempt: int, *, with_notes: bool = True) -> Known:
        """Return all that is known of an attempt, and note that it is told.

        Of its journal that is what was not read; more than a piece is told a piece at a time.
        """
        watched, key = self.of(job, attempt), (job, attempt)
        known, is_settled = watched.look()
        if is_settled:
            self.again.discard(key)
        else:
            self.again.add(key)
        if watched.end >= 0 and watched.end not in self.ends:
            self.ends[watched.end] = key
            self._poll.register(watched.end, select.POLLIN)
        self._note_port(job, attempt, known)
        return {"job": job, "attempt": attempt, **known, **watched.journal(with_notes=with_notes)}

    def _end_wait(self, file: int) -> None:
        """Wait no more for the end of a supervisor."""
        if self.ends.pop(file, None) is not None:
            self._poll.unregister(file)
            os.close(file)

    def _note_port(self, job: str, attempt: int, known: Probe) -> None:
        started = known["started"]
        if started is None or known["state"] in ("ended", "lost"):
            self.ports.pop((job, attempt), None)
        else:
            self.ports[(job, attempt)] = started["port"]
