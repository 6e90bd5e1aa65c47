"""Samples of an attempt: how far and how fast it is, and what CPU and memory it uses.

The newest one is in the file `sample`, replaced each time and never synced. The first come soon, so
that a short job has one too. If a job sends no messages, what it prints, such as a progress bar,
counts instead.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from shunter.backends.node.cgroups import MB
from shunter.backends.node.messages import BATCH_S_MOST, PIDS_MOST
from shunter.backends.node.records import (
    below,
    listed_below,
    open_regular,
    processes,
    put_unsynced,
    stat_of,
)

if TYPE_CHECKING:
    from shunter.backends.node.messages import JobMessage

FIRST_S = 2.0
RANKS_MOST = 1024
TICKS_S = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_BYTES = 4096
STEP_DIGITS_MOST = 15
_BAR = re.compile(rb"(?:(\d+)/\d+ \[[^\]\r\n]*?)?\b(\d+(?:\.\d+)?)(it/s|s/it)\b")


class Sampling:
    """What an attempt told of its progress, and when to take the next sample."""

    def __init__(self, folder: str, ranks: int, every_s: float) -> None:
        self._folder = folder
        self._ranks = ranks
        self._every_s = every_s
        self._usage = Usage(os.getpid())
        self._told: dict[int, tuple[int, float | None]] = {}  # the step and seconds a batch
        self._next_s = time.monotonic() + min(FIRST_S, every_s)
        self._wait_s = min(FIRST_S, every_s)
        self._usage.read(time.monotonic())  # what CPUs are counted from

    def take(self, said: JobMessage) -> None:
        """Keep the newest progress of a rank."""
        rank, batch_s = said.rank or 0, said.batch_s
        before = self._told.get(rank)
        if before is None and len(self._told) == RANKS_MOST:
            return
        if batch_s is None and before is not None:
            batch_s = before[1]
        self._told[rank] = said.step or 0, batch_s

    def look(self, now_s: float) -> None:
        """Take a sample if it is time; each waits twice as long as the last one."""
        if not self._every_s or now_s < self._next_s:
            return
        self._wait_s = min(2 * self._wait_s, self._every_s)
        self._next_s = now_s + self._wait_s
        step, batch_s, printed = self._speed()
        sample = {
            "at_ns": time.monotonic_ns(),
            "step": step,
            "batch_s": batch_s,
            "printed": printed,
            **self._usage.read(now_s),
        }
        try:
            put_unsynced(f"{self._folder}/sample", sample)
        except OSError:
            return  # a full disk costs the sample, never the job

    def _speed(self) -> tuple[int | None, float | None, bool]:
        """Return the step of the last rank, the slowest batch, and if it is a guess."""
        if not self._told:
            for name in ("stderr.0", "stdout.0"):
                step, batch_s = printed_speed(f"{self._folder}/{name}")
                if batch_s is not None:
                    return step, batch_s, True
            return None, None, False
        steps = [step for step, _ in self._told.values()]
        batches = [batch_s for _, batch_s in self._told.values() if batch_s is not None]
        return min(steps), max(batches, default=None), False


class Process(NamedTuple):
    """What /proc says of a process."""

    started: int
    ticks: int
    pages: int


class Usage:
    """Reads what the descendants of one process use, again and again.

    Those in sessions of their own count too, since the supervisor adopts orphans. A process id
    alone names nobody: it counts together with its start time.
    """

    def __init__(self, root: int, proc: str = "/proc") -> None:
        self._root = root
        self._proc = proc
        self._before: dict[tuple[int, int], int] = {}
        self._read_s: float | None = None

    def read(self, now_s: float) -> dict[str, object]:
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
        if os.path.exists(f"{self._proc}/{self._root}/task/{self._root}/children"):
            return listed_below(self._root, self._proc)
        return below(self._root, processes(self._proc))

    def _process(self, pid: int) -> Process | None:
        """Return a process; None if it is gone, or dead and not yet reaped."""
        fields = stat_of(pid, self._proc)
        if len(fields) < 22 or fields[0] in (b"Z", b"X"):
            return None
        return Process(int(fields[19]), int(fields[11]) + int(fields[12]), int(fields[21]))


def printed_speed(path: str) -> tuple[int | None, float | None]:
    """Return the last step and mini-batch seconds that a progress bar shows.

    None stands for what is absent. Read is what tqdm and its like print, such as
    `450/1000 [00:10<00:12, 43.2it/s]`, or `2.31s/it` where a step takes longer than a second. Bars
    are drawn over themselves, so the last one counts. It is a guess: a bar over files or an
    evaluation looks the same.
    """
    found = list(_BAR.finditer(_end(path)))
    if not found:
        return None, None
    step, number, unit = found[-1].groups()
    rate = float(number)
    batch_s = rate if unit == b"s/it" or not rate else 1 / rate
    if not 0 < batch_s <= BATCH_S_MOST:
        return None, None
    is_step = step is not None and len(step) <= STEP_DIGITS_MOST
    return int(step) if is_step else None, round(batch_s, 9)


def _end(path: str) -> bytes:
    """Return the end of a file, whatever its length; empty where it cannot be read."""
    try:
        with open(open_regular(path), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOOK_BYTES))
            return file.read()
    except OSError:
        return b""
