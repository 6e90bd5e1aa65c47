"""CPU and memory of an attempt's processes, from /proc: this process's descendants.

Those in sessions of their own count too, since the supervisor adopts orphans. A process id alone
names nobody: it counts together with its start time. Only the standard library of Python 3.8 or
later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH110, PTH123, PTH208

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from shunter.backends.node.messages.attempt_records import PIDS_MOST
from shunter.backends.node.records import processes
from shunter.backends.node.shares.cgroups import MB

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Use

TICKS_S = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """What /proc says of a process."""

    started: int
    ticks: int
    pages: int


class Usage:
    """Reads the descendants of one process again and again."""

    def __init__(self, root: int, proc: str = "/proc") -> None:
        self._root = root
        self._proc = proc
        self._before: dict[tuple[int, int], int] = {}
        self._read_s: float | None = None

    def read(self, now_s: float) -> Use:
        """Return pids, memory_mb, and cpus: the mean of busy ones since the last time.

        Whoever ended in between counts for nothing; at the first reading `cpus` is None.
        """
        found = {pid: process for pid in self._below() if (process := self._process(pid))}
        ticks = {(pid, each.started): each.ticks for pid, each in found.items()}
        before, read_s = self._before, self._read_s
        self._before, self._read_s = ticks, now_s
        cpus = None
        if read_s is not None and now_s > read_s:
            spent = sum(count - before.get(who, 0) for who, count in ticks.items())
            cpus = round(max(spent, 0) / TICKS_S / (now_s - read_s), 3)
        pages = sum(each.pages for each in found.values())
        return {"pids": sorted(found)[:PIDS_MOST], "memory_mb": pages * PAGE // MB, "cpus": cpus}

    def _below(self) -> list[int]:
        """Return the descendants of the root, looking at nobody else if we can."""
        parents: dict[int, int] | None = None
        if not os.path.exists(f"{self._proc}/{self._root}/task/{self._root}/children"):
            parents = processes(self._proc)
        found: list[int] = []
        todo = [self._root]
        while todo:
            children = self._children(todo.pop(), parents)
            found += children
            todo += children
        return found

    def _children(self, pid: int, parents: dict[int, int] | None) -> list[int]:
        if parents is not None:
            return [child for child, parent in parents.items() if parent == pid]
        children: list[int] = []
        try:
            for thread in sorted(os.listdir(f"{self._proc}/{pid}/task")):
                with open(f"{self._proc}/{pid}/task/{thread}/children", "rb") as file:
                    children += [int(child) for child in file.read().split()]
        except OSError:
            return children  # it ended meanwhile
        return children

    def _process(self, pid: int) -> Process | None:
        """Return a process; None if it is gone, or dead and not yet reaped."""
        try:
            with open(f"{self._proc}/{pid}/stat", "rb") as file:
                # The name in parentheses may itself hold blanks and parentheses.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return None
        if len(fields) < 22 or fields[0] in (b"Z", b"X"):
            return None
        return Process(int(fields[19]), int(fields[11]) + int(fields[12]), int(fields[21]))
