"""The channel between a training job and its supervisor: a folder of small files.

The supervisor makes one folder for each attempt (mode 0700) and names it in the environment of
the job. Both sides use this module, which imports the standard library only. A folder outlives
either side, needs no thread in the job, and a look costs the job one `stat` a mini-batch.

Environment of the job::

    SHUNTER_CHANNEL         the folder; unset means "not under Shunter", and the SDK does nothing
    SHUNTER_CHECKPOINTS     the job's folder of checkpoints, the same for all its attempts
    SHUNTER_ATTEMPT         the number of the attempt; fences checkpoints (highest wins)
    SHUNTER_RANK, SHUNTER_RANKS     optional; else RANK and WORLD_SIZE, else 0 of 1
    SHUNTER_SUSPEND_SIGNAL  optional, such as USR2: a signal that asks as the file does

Where `SHUNTER_CHANNEL` names a FIFO, see `shunter.train.pipe`.

Files; RANK counts from 0, and REQUEST is the number of a request, from 1::

    suspend.json                  supervisor: {request, deadline_s, at_monotonic_s}
    progress.RANK.json            job: {rank, world, pid, step, batch_s, batches, state, ...}
    acknowledged.REQUEST.RANK.json    job: seen {step}; it will stop at its next boundary
    vote.REQUEST.RANK.json        job: internal, how ranks agree on where to stop
    ended.RANK.json               job: internal, this rank comes to no further boundary
    stop.REQUEST.json             job: internal, the boundary agreed on, created exactly once
    saved.REQUEST.RANK.json       job: the checkpoint is complete {step, path, bytes, save_s}
    failed.REQUEST.RANK.json      job: it could not be saved {step, error}; the job goes on

Order: suspend.json → acknowledged of each rank → saved of each rank → the processes exit with 75.

- Every file is written whole under another name and renamed, so a reader sees the old one, the
  new one, or none. Nothing is synced: a folder of a machine that died tells nothing. Checkpoints
  are synced, before `saved` appears.
- Instants are `time.monotonic()`, which processes of one machine share and clock steps leave
  alone: every latency is a difference of two of them.
- A request is never withdrawn. After `failed`, or past its deadline, the supervisor uses the next
  stronger mode, or asks again under a higher number. A rank answers each number once.
- All `saved` files there and the processes gone is a suspension, whatever the exit code: a
  launcher between us and the ranks (torchrun) turns their 75 into its own 1. Exit 75 without all
  of them is a suspension to the last complete checkpoint. `saved` never means "gone": GPUs are
  free when the processes are.
- Progress is thinned by the job to one file each `PROGRESS_EVERY_S`; `batch_s` is the mean of the
  `batches` mini-batches since the file before, without evaluation and saving.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Document = Mapping[str, Any]

CHANNEL = "SHUNTER_CHANNEL"
CHECKPOINTS = "SHUNTER_CHECKPOINTS"
ATTEMPT = "SHUNTER_ATTEMPT"
RANK = ("SHUNTER_RANK", "RANK")
WORLD = ("SHUNTER_RANKS", "WORLD_SIZE")
SUSPEND_SIGNAL = "SHUNTER_SUSPEND_SIGNAL"
SUSPEND_FILE = "SHUNTER_SUSPEND"

EXIT_SUSPENDED = 75
PROGRESS_EVERY_S = 0.5
SUSPEND = "suspend.json"


def put(path: Path, document: Document) -> None:
    """Write a small file whole: a reader sees the old one or this one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        temporary.write_text(json.dumps(document))
        os.replace(temporary, path)  # noqa: PTH105  Path.replace is the same call, and slower
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def create(path: Path, document: Document) -> bool:
    """Write a small file whole unless it is there; say whether we were first."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    temporary.write_text(json.dumps(document))
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def get(path: Path) -> dict[str, Any] | None:
    """Return what a file says; None where it is absent or no JSON object."""
    try:
        document = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def answer_path(folder: Path, kind: str, request: int, rank: int) -> Path:
    """Return where a rank puts its answer of a kind to a request."""
    return folder / f"{kind}.{request}.{rank}.json"


def progress_path(folder: Path, rank: int) -> Path:
    """Return where a rank puts its progress."""
    return folder / f"progress.{rank}.json"


def pipe_folder(checkpoints: Path, attempt: int) -> Path:
    """Return where the files of an attempt are whose supervisor reads a FIFO."""
    return checkpoints / f"attempt-{attempt:06}" / "channel"


def ask_suspend(folder: Path, request: int, deadline_s: float) -> None:
    """Ask the job to stop at a mini-batch boundary; for the supervisor."""
    put(
        folder / SUSPEND,
        {"request": request, "deadline_s": deadline_s, "at_monotonic_s": time.monotonic()},
    )


def answers(folder: Path, kind: str, request: int) -> dict[int, Document]:
    """Return the answers of a kind to a request, by rank; for the supervisor."""
    found: dict[int, Document] = {}
    for path in sorted(folder.glob(f"{kind}.{request}.*.json")):
        document = get(path)
        rank = path.name.split(".")[2]
        if document is not None and rank.isdigit():
            found[int(rank)] = document
    return found


def progress(folder: Path) -> dict[int, Document]:
    """Return the last progress of each rank; for the supervisor."""
    found: dict[int, Document] = {}
    for path in sorted(folder.glob("progress.*.json")):
        document = get(path)
        rank = path.name.split(".")[1]
        if document is not None and rank.isdigit():
            found[int(rank)] = document
    return found


def is_saved(folder: Path, request: int) -> bool:
    """Say whether every rank has saved for a request; for the supervisor."""
    saved = answers(folder, "saved", request)
    worlds = [int(each.get("world", 1)) for each in saved.values()]
    return bool(worlds) and len(saved) >= max(worlds)


def first_number(environment: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    """Return the number in the first of some environment variables that holds one."""
    for name in names:
        text = environment.get(name, "")
        if text.isdigit():
            return int(text)
    return default


class Bell:
    """Whether the suspend signal has rung; we listen from the import of the SDK on.

    A signal that comes during the long import of torch would kill the job otherwise.
    """

    def __init__(self) -> None:
        self.rung = 0

    def listen(self, environment: Mapping[str, str]) -> None:
        """Answer the signal that the environment names, if it names one."""
        name = environment.get(SUSPEND_SIGNAL, "")
        number = getattr(signal, name if name.startswith("SIG") else f"SIG{name}", None)
        # Python takes handlers in the main thread only; imported elsewhere, the file still asks.
        is_main = threading.current_thread() is threading.main_thread()
        if number is not None and is_main and environment.get(CHANNEL):
            signal.signal(number, self._ring)

    def _ring(self, *_: object) -> None:
        self.rung += 1


BELL = Bell()
BELL.listen(os.environ)
