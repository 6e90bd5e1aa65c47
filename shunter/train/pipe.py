"""The way to a supervisor that reads lines: a FIFO instead of a folder in `SHUNTER_CHANNEL`.

`SHUNTER_SUSPEND` then names the file whose presence is the request (number 1, if it is empty), and
rank 0 alone tells `acknowledged`, and `saved` once *every* rank has saved. What ranks tell each
other, and progress, stays in files, below the checkpoints (see `channel.pipe_folder`).
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any

LINE_BYTES_MAX = 4096  # what a FIFO takes in one piece


class Pipe:
    """The job's end of a FIFO."""

    def __init__(self, path: str) -> None:
        self._path = path

    def tell(self, what: str, **said: Any) -> None:
        """Write one line; where nobody reads, or the FIFO is full, it is lost."""
        line = json.dumps({"what": what, **said}).encode() + b"\n"
        if len(line) > LINE_BYTES_MAX:
            line = json.dumps({"what": what}).encode() + b"\n"
        try:
            writer = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(writer, line)
            finally:
                os.close(writer)
        except OSError:
            return


def is_pipe(path: str) -> bool:
    """Say whether a path names a FIFO."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)  # noqa: PTH116  as quick as a start can be
    except OSError:
        return False
