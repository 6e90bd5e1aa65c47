"""Samples of an attempt: how far and how fast it is, and what CPU and memory it uses.

The newest one lies in the file `sample`, replaced each time and never synced; whoever wants them
all reads it often enough. The first come soon, so that a short job has one too.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH105

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from shunter.backends.node.output.files import printed_speed
from shunter.backends.node.records import create_private
from shunter.backends.node.usage import Usage

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Message

FIRST_S = 2.0
RANKS_MOST = 1024


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

    def take(self, said: Message) -> None:
        """Keep the newest progress of a rank."""
        rank, batch_s = said["rank"], said["batch_s"]
        before = self._told.get(rank)
        if before is None and len(self._told) == RANKS_MOST:
            return
        if batch_s is None and before is not None:
            batch_s = before[1]
        self._told[rank] = said["step"] or 0, batch_s

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
        path = f"{self._folder}/sample"
        try:
            with create_private(f"{path}.new") as file:
                json.dump(sample, file)
            os.replace(f"{path}.new", path)
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
