"""The channel between a training job and its supervisor: a file that asks, a FIFO that answers.

Both lie in the folder of the attempt. Asking costs the job one `stat` a mini-batch, answering 5 µs
a line, and the supervisor, which sleeps on the FIFO, reads it within a millisecond; files that it
had to look for were 100 µs each and a look late. A script in any language can speak here.

Environment of the job (docs/reference/environment.md has all of it)::

    SHUNTER_CHANNEL         the FIFO; unset means "not under Shunter", and the SDK does nothing
    SHUNTER_SUSPEND         the file whose presence asks the job to save and leave with 75
    SHUNTER_CHECKPOINT_DIR  the job's folder of checkpoints, the same for all its attempts
    SHUNTER_ATTEMPT         the number of the attempt; fences checkpoints (highest wins)
    RANK, WORLD_SIZE        which of how many processes this is; else 0 of 1
    SHUNTER_SUSPEND_SIGNAL  optional, such as USR2: a signal that asks as the file does

A line is a JSON object of at most 4096 bytes, which a FIFO takes in one piece::

    {"what": "acknowledged", "step"}         the request was seen; we stop at the next boundary
    {"what": "saved", "checkpoint", "step", "bytes"}     complete, on every rank
    {"what": "failed", "error", "step"}      it could not be saved, and the job goes on
    {"what": "warned", "text", "step"}       a resume will not be exact, and why; once each
    {"what": "progress", "rank", "step", "batch_s", "batches", "state"}     each rank, once a second
    {"what": "turns", "rank", "ranks", "moves"}     each rank stands still where a turn ends
    {"what": "standing", "rank", "turn"}     each rank, once it does, for the order of that number

Rank 0 alone tells the first four. Order: the file, acknowledged, saved, the processes exit with
75. `saved` never means "gone": GPUs are free when the processes are. After `failed`, or past its
deadline, the supervisor uses the next stronger mode. `batch_s` is the mean of the `batches`
mini-batches since the line before, without evaluation and saving. `state` is training, evaluating
or saving; completed at the end of the last epoch; done where the script says so as its last line
(`run.finish()`); finished when no boundary comes any more. By these three it is known whether an
attempt that ends with 0 after it was asked to leave has finished its work.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANNEL = "SHUNTER_CHANNEL"
SUSPEND = "SHUNTER_SUSPEND"
CHECKPOINTS = "SHUNTER_CHECKPOINT_DIR"
ATTEMPT = "SHUNTER_ATTEMPT"
RANK = "RANK"
WORLD = "WORLD_SIZE"
SUSPEND_SIGNAL = "SHUNTER_SUSPEND_SIGNAL"

EXIT_SUSPENDED = 75
PROGRESS_EVERY_S = 1.0
LINE_BYTES_MAX = 4096
WARNING_CHARACTERS = 500


class Channel:
    """The job's end of the FIFO."""

    def __init__(self, path: str) -> None:
        self._path = path

    def tell(self, what: str, **said: object) -> None:
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


def number_of(name: str) -> int | None:
    """Return the number of a signal such as `SIGUSR1` or `USR1`, if there is one."""
    number = getattr(signal, name if name.startswith("SIG") else f"SIG{name}", None)
    return None if number is None or not name else int(number)


def number_in(environment: Mapping[str, str], name: str, default: int) -> int:
    """Return the number an environment variable holds, or a default."""
    text = environment.get(name, "")
    return int(text) if text.isdigit() else default


class Bell:
    """Whether the suspend signal has rung; we listen from the import of the SDK on.

    A signal that comes during the long import of torch would kill the job otherwise.
    """

    def __init__(self) -> None:
        self.rung = 0

    def listen(self, environment: Mapping[str, str]) -> None:
        """Answer the signal that the environment names, if it names one."""
        number = number_of(environment.get(SUSPEND_SIGNAL, ""))
        # Python takes handlers in the main thread only; imported elsewhere, the file still asks.
        is_main = threading.current_thread() is threading.main_thread()
        if number is not None and is_main and environment.get(CHANNEL):
            signal.signal(number, self.ring)

    def ring(self, *_: object) -> None:
        """Note that the signal has come."""
        self.rung += 1


BELL = Bell()
BELL.listen(os.environ)


class Requests:
    """Which request of the supervisor is open; they count from 1.

    Each file that appears, and each signal, is one more request, unless one is open already. Every
    rank counts the same ones, since all of them close a request together.
    """

    def __init__(self, path: str) -> None:
        self._path = os.fsencode(path)
        self._seen: tuple[int, int] | None = None
        self._asked = 0
        self._closed = 0
        self._acknowledged = 0
        self._rung = 0

    def open_number(self) -> int:
        """Return the number of the request that is not yet answered, or 0."""
        # `stat` costs twice as much where there is no file: it raises.
        if os.access(self._path, os.F_OK):
            self._look()
        if BELL.rung != self._rung:
            self._rung = BELL.rung
            self._asked = self._closed + 1
        return self._asked if self._asked > self._closed else 0

    def _look(self) -> None:
        """Count a request more if the file is another one than before."""
        try:
            found = os.stat(self._path)  # noqa: PTH116  half the price, and once a mini-batch
        except OSError:
            return
        if self._seen != (found.st_ino, found.st_mtime_ns):
            self._seen = (found.st_ino, found.st_mtime_ns)
            self._asked = self._closed + 1

    def is_new(self, number: int) -> bool:
        """Say once for each request that it was not acknowledged before."""
        is_new = number > self._acknowledged
        self._acknowledged = max(self._acknowledged, number)
        return is_new

    def close(self, number: int) -> None:
        """Count a request as answered: its checkpoint failed, and the run goes on."""
        self._closed = max(self._closed, number)
