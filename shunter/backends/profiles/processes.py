"""CPU and memory of a job's processes, from /proc.

A job's processes are a root and all its descendants, those in sessions of their own too, as long
as somebody between them is alive (the supervisor is a subreaper, so nobody escapes to init).
A process id alone names nobody: it counts together with its start time.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessUse", "Processes"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What a job used since the reading before; `cpus` is None at the first one."""

    pids: tuple[int, ...]
    memory_mb: int
    cpus: float | None


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    started: int
    ticks: int
    pages: int


class Processes:
    """Reads one job's processes again and again."""

    def __init__(self, root: int, proc: Path = Path("/proc")) -> None:
        self._root = root
        self._proc = proc
        self._ticks_s: int = os.sysconf("SC_CLK_TCK")
        self._page: int = os.sysconf("SC_PAGE_SIZE")
        self._started: int | None = None
        self._before: Mapping[tuple[int, int], int] = {}
        self._read_s: float | None = None

    def read(self, now_s: float) -> ProcessUse | None:
        """Return what the job uses at a monotonic instant; None if its root is gone."""
        everyone = self._everyone()
        root = everyone.get(self._root)
        if root is None or (self._started is not None and root.started != self._started):
            return None
        self._started = root.started
        pids = _tree(self._root, everyone)
        ticks = {(pid, everyone[pid].started): everyone[pid].ticks for pid in pids}
        pages = sum(everyone[pid].pages for pid in pids)
        return ProcessUse(
            pids=pids, memory_mb=pages * self._page // _MIB, cpus=self._cpus(ticks, now_s)
        )

    def _cpus(self, ticks: Mapping[tuple[int, int], int], now_s: float) -> float | None:
        """Return the mean of busy CPUs; who ended in between counts for nothing."""
        before, read_s = self._before, self._read_s
        self._before, self._read_s = ticks, now_s
        if read_s is None or now_s <= read_s:
            return None
        spent = sum(count - before.get(who, 0) for who, count in ticks.items())
        return round(max(spent, 0) / self._ticks_s / (now_s - read_s), 3)

    def _everyone(self) -> dict[int, _Process]:
        names = sorted(path.name for path in self._proc.iterdir() if path.name.isdigit())
        found = {int(name): self._process(name) for name in names}
        return {pid: process for pid, process in found.items() if process is not None}

    def _process(self, name: str) -> _Process | None:
        """Return a process; None if it is gone, or dead and not yet reaped."""
        try:
            text = (self._proc / name / "stat").read_text()
        except OSError:
            return None
        # The name in parentheses may itself hold blanks and parentheses.
        fields = text.rpartition(")")[2].split()
        if len(fields) < 22 or fields[0] in "ZX":
            return None
        return _Process(
            parent=int(fields[1]),
            started=int(fields[19]),
            ticks=int(fields[11]) + int(fields[12]),
            pages=int(fields[21]),
        )


def _tree(root: int, everyone: Mapping[int, _Process]) -> tuple[int, ...]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in everyone.items():
        children.setdefault(process.parent, []).append(pid)
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return tuple(sorted(found))
