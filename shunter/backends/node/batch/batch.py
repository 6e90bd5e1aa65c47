"""A batch job that runs one attempt: it claims it, and stays with its supervisor.

    exec python3 -I -S PROGRAM batch ROOT JOB ATTEMPT        the last line of the job's script

ROOT is on a folder that all nodes share. The supervisor is the same as everywhere. Its scheduler,
which may be on another machine, adds orders to a file that this process hands on: at SIGUSR1, or at
the next look. SIGUSR2 (from --signal=B:USR2@SECONDS) and SIGTERM mean that Slurm is about to end
the job: it is asked to save and leave. What is left of it is killed when this process is; so once
Slurm says that the job is over, nothing of the attempt runs.

It exits with what the attempt ended with, 75 if it was suspended, and 77 if it did not begin. Only
the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from shunter.backends.node.batch.claims import BEGUN, commands_after, note_leaving, take_claim
from shunter.backends.node.batch.placing import placed
from shunter.backends.node.messages.attempt_records import status_in
from shunter.backends.node.records import count_in, folder_of, get, put, tell
from shunter.backends.node.remote.accounts import at_home
from shunter.backends.node.remote.checkpoint_transfer import open_shared_checkpoints
from shunter.backends.node.supervisor import answer_of, begin

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Answer, Order

EXIT_NOT_BEGUN = 77
POLL_S = 5.0  # between looks at a file on the shared folder
RETRY_S = 0.2
_GONE: Answer = {"answer": "failed", "cause": "its order is gone"}
LEAVE_SIGNALS = (signal.SIGTERM, signal.SIGUSR2)


def batch(root: str, job: str, attempt: str) -> Answer:
    """Run an attempt to its end, unless it is somebody else's; then exit."""
    folder, inbox = folder_of(root, job, int(attempt)), _Signals()
    cause = _begun(root, folder)
    if cause:
        sys.stderr.write(f"attempt {attempt} of job {job} is not begun: {cause}\n")
        sys.exit(EXIT_NOT_BEGUN)
    _follow(root, folder, inbox)
    status = status_in(folder)
    sys.exit(EXIT_NOT_BEGUN if status is None else status["code"])


class _Signals:
    """The signals that this process gets; `leaves_by` is the first to end the job."""

    def __init__(self) -> None:
        self.leaves_by = ""
        self._reader, writer = os.pipe()
        for end in (self._reader, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        for number in LEAVE_SIGNALS:
            signal.signal(number, lambda number, _: self._leave(number))

    def wait(self, limit_s: float) -> None:
        """Wait for a signal, or so long."""
        select.select([self._reader], [], [], limit_s)
        with suppress(BlockingIOError):
            os.read(self._reader, 512)

    def _leave(self, number: int) -> None:
        self.leaves_by = self.leaves_by or signal.Signals(number).name


def _begun(root: str, folder: str) -> str:
    """Claim an attempt and start its supervisor; return why it is not begun."""
    try:
        number = os.environ.get("SLURM_JOB_ID", "")
        when = {"wall_ns": time.time_ns(), "at_ns": time.monotonic_ns()}
        if not take_claim(folder, BEGUN, slurm_job=number, **when):
            return "it has begun elsewhere, or was withdrawn"
        order = get(f"{folder}/order")
        answer = _GONE if order is None else _started(root, cast("Order", order))
    except (OSError, ValueError, KeyError) as error:
        answer = {"answer": "failed", "cause": str(error)}
    if answer["answer"] == "started":
        return ""
    cause = str(answer.get("cause") or "its supervisor did not start")
    with suppress(OSError):
        put(f"{folder}/refusal", {"cause": cause})
    return cause


def _started(root: str, order: Order) -> Answer:
    """Start the supervisor of an attempt where Slurm has put it."""
    order = placed(at_home(order), os.environ)
    # A scheduler that came after the one that asked for it goes on with what that one asked for.
    order["term"] = max(order["term"], count_in(f"{root}/term", "term"))
    order["is_bound"] = True
    open_shared_checkpoints(order["checkpoints"], order.get("user"))
    answer, reader = begin(root, order, is_new=True)
    return answer if reader < 0 else answer_of(reader)


def _follow(root: str, folder: str, inbox: _Signals) -> None:
    """Hand orders to the supervisor until it and all that it started have ended."""
    taken, was_told_to_leave = 0, False
    while not _are_all_gone():
        is_owed = False
        for line in commands_after(folder, taken):
            is_owed = not tell(f"{folder}/orders", line)
            if is_owed:
                break
            taken += len(line)
        if inbox.leaves_by and not was_told_to_leave:
            note_leaving(folder, inbox.leaves_by)
            order = {"do": "suspend", "term": count_in(f"{root}/term", "term")}
            was_told_to_leave = tell(f"{folder}/orders", json.dumps(order).encode() + b"\n")
            is_owed |= not was_told_to_leave
        inbox.wait(RETRY_S if is_owed else POLL_S)


def _are_all_gone() -> bool:
    """Bury the children that have ended; say whether none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return True
    return False
