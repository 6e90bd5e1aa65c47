"""Utilisation and memory of a host's GPUs, by nvidia-smi, which every driver brings.

It takes long to answer, so it is asked in the background, and its answer is had at a later poll.
Only the standard library of Python 3.8 or later.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import Any

EVERY_S = 15.0
READ_QUERY = "index,uuid,utilization.gpu,memory.used,memory.total"


class Readings:
    """Asks nvidia-smi from time to time."""

    def __init__(self) -> None:
        self._program = shutil.which("nvidia-smi")
        self._asked: subprocess.Popen[str] | None = None
        self._next_s = 0.0

    def poll(self) -> list[dict[str, Any]] | None:
        """Return a reading of each GPU, once for each time that one was taken; else None."""
        if self._program is None:
            return None
        if self._asked is None:
            if time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + EVERY_S
                self._asked = _asked(self._program)
            return None
        if self._asked.poll() is None:
            return None
        said, self._asked = self._asked.communicate()[0], None
        lines = [[part.strip() for part in line.split(",")] for line in said.splitlines()]
        return [_reading(parts) for parts in lines if len(parts) == 5 and parts[0].isdigit()]


def _asked(program: str) -> subprocess.Popen[str] | None:
    try:
        return subprocess.Popen(
            [program, f"--query-gpu={READ_QUERY}", "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError:
        return None


def _reading(parts: list[str]) -> dict[str, Any]:
    index, uuid, busy, used, total = parts
    return {
        "index": int(index),
        "uuid": uuid,
        "utilisation": int(busy) / 100 if busy.isdigit() else None,
        "memory_mb": int(used) if used.isdigit() else None,
        "memory_total_mb": int(total) if total.isdigit() else None,
    }
