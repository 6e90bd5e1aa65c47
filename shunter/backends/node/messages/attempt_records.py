"""The records of an attempt, held to their shapes wherever they are read.

They lie in a folder that a job of the same user can write to, and come from hosts that may be
anybody's by now. A record that has not its shape counts as one that is not there. Only the standard
library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shunter.backends.node.messages.channel import BATCH_S_MOST, STEP
from shunter.backends.node.messages.shapes import (
    CLOCK_MOST,
    WrongMessageError,
    a_choice,
    a_flag,
    a_list,
    a_number,
    a_record,
    a_row,
    a_text,
    a_whole,
    checked,
    or_none,
    shown,
)
from shunter.backends.node.records import get

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Sample, Shape, Started, Status

JOB_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
ATTEMPT_DIGITS_MOST = 9
NUMBER = a_whole(1, 10**9)
PATH = a_text(4096)
NANOSECONDS = a_whole(0, CLOCK_MOST)
CODE = a_whole(0, 255)
CPUS = a_list(a_whole(0, 1 << 16), 1 << 13)
GPU_MASK = a_whole(0, 2**1024 - 1)
PORT = a_whole(0, 65535)
SIGNAL_MOST = 127
PIDS_MOST = 4096


def a_job(value: object) -> str:
    """Hold a value to be the name of a job, which names a folder too."""
    name = a_text(128)(value)
    if not name or name.startswith(".") or not JOB_CHARACTERS.issuperset(name):
        raise WrongMessageError(f"is {shown(name)}, expected letters, digits, . _ -")
    return name


def number_of(name: str) -> int | None:
    """Return the number of the attempt that a folder is named by, if it is."""
    is_number = name.isascii() and name.isdigit() and len(name) <= ATTEMPT_DIGITS_MOST
    return int(name) if is_number and name != "0" else None


STARTED: Shape[Started] = a_record(
    {
        "boot": a_text(64),
        "started_ns": NANOSECONDS,
        "pid": a_whole(1, 2**31 - 1),
        "placement": a_list(a_row(a_text(256), GPU_MASK), 4096),
        "ranks": a_list(a_record({"cpus": CPUS}, {"pinned": a_flag}), 4096),
        "port": or_none(PORT),
        "gpus": a_list(a_text(128), 4096),
    },
    {
        "cgroup": PATH,
        "job": a_job,
        "attempt": NUMBER,
        "term": a_whole(),
        "uid": a_whole(0, 2**32 - 1),
        "since": a_whole(),
    },
)
STATUS: Shape[Status] = a_record(
    {
        "code": CODE,
        "suspended": a_flag,
        "why": a_choice("", "suspend", "terminate", "fence", "heartbeat", "rank"),
        "saved": a_flag,
        "ended_ns": NANOSECONDS,
    },
    {
        "codes": a_list(or_none(CODE), 4096),
        "stragglers": a_whole(),
        "memory_kills": a_whole(),
        "output_dropped_bytes": a_whole(),
        "saved_ns": NANOSECONDS,
        "signal": or_none(a_whole(1, SIGNAL_MOST)),
    },
)
SAMPLE: Shape[Sample] = a_record(
    {"at_ns": NANOSECONDS, "pids": a_list(a_whole(0, 2**31 - 1), PIDS_MOST)},
    {
        "step": STEP,
        "batch_s": a_number(0, BATCH_S_MOST),
        "printed": a_flag,
        "cpus": a_number(0, 1 << 16),
        "memory_mb": a_whole(),
    },
)


def started_in(folder: str) -> Started | None:
    """Return the record that says that an attempt started; None if there is none."""
    return checked(get(f"{folder}/started"), STARTED)


def status_in(folder: str) -> Status | None:
    """Return the record that says how an attempt ended; None if there is none."""
    return checked(get(f"{folder}/status"), STATUS)


def sample_in(folder: str) -> Sample | None:
    """Return the newest sample of an attempt; None if there is none."""
    return checked(get(f"{folder}/sample"), SAMPLE)
