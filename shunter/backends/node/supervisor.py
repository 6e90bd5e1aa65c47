"""The supervisor: one attempt of a job on one machine, run by a process that outlives the daemon.

This folder needs the standard library only, of Python 3.8 or later, so that it can be pushed to any
host (agents/zip_application.py makes one file of it). A root folder holds `jobs/JOB/ATTEMPT/` with
all that is known of an attempt:

    lock        flock held by the supervisor: free means that it is gone
    ranks.lock  the ranks and their children inherit it open: nobody has it open, so they are gone
    started     written before the first exec; with `lock` free and without it: never started
    status      written after the last process was reaped: how the attempt ended
    reserve     a file that only takes room while the attempt runs: removed where there is none left
                for its status, so that a job that has filled the disk can be seen to end
    journal     one line each time a suspension was asked for, acknowledged, saved, escalated, and
                each time the processes were stopped or went on
    sample      how far and how fast it is, and what it uses; replaced every few seconds
    suspend     there once the job is asked to save and leave with exit code 75
    orders, channel     FIFOs: from the daemon, and from the job, to the supervisor
    stdout.N, stderr.N  what rank N printed, up to a bound (see output/files.py)
    stdout-times.N, …   how long that was when (see output/times.py)

Records are written, synced and renamed. Starting and fencing an attempt exclude each other by a
lock, so that a fenced attempt has either been seen or will never start. Every rank has a session of
its own. A process that forks away is still found: the supervisor adopts orphans (a subreaper), and
after its own death the kernel kills the ranks, and its reaper the rest (processes/reaper.py). If
that was killed too, `sweep` does so later with what carries the attempt's mark in its environment
(processes/marks.py) or is in its control group. Only what clears its environment, where there are
no groups, outlives both; `ranks.lock` tells of it as long as it keeps its files open. A folder that
is removed meanwhile its supervisor makes anew (processes/traces.py).
Times are nanoseconds of the monotonic clock of this boot.
"""

# Importing pathlib would cost more than all the rest of the start, so paths are strings here.
# ruff: noqa: PTH103

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.failpoints import failpoint
from shunter.backends.node.processes.attempt_files import AttemptFiles
from shunter.backends.node.processes.marks import alive_below, seal
from shunter.backends.node.processes.reaper import go_on_below_reaper
from shunter.backends.node.ranks import adopt_orphans, make_outputs, spawn
from shunter.backends.node.records import (
    LINE_BYTES_MAX,
    boot_id,
    count_in,
    create_private,
    folder_of,
    get,
    hold,
    own_folder,
    put,
)
from shunter.backends.node.shares.cgroups import open_group
from shunter.backends.node.supervision import Supervision

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Answer, Order, User

LOCK_TRIES = 20
RESERVE_BYTES = 4096  # and as many as an exit code needs for each rank
EXIT_CODE_BYTES = 8


def start(root: str, order: Order) -> Answer:
    """Start the supervisor of an attempt, once; return what came of it."""
    answer, reader = begin(root, order)
    return answer if reader < 0 else answer_of(reader)


def begin(root: str, order: Order, *, is_new: bool = False) -> tuple[Answer, int]:
    """Begin to start the supervisor of an attempt, once.

    Args:
        root: the folder of the cluster.
        order: what to run.
        is_new: it is known that the attempt has never run, so that no process needs to be looked
            for whose folder was removed: that takes a look at every process of the machine.

    Returns:
        what came of it; and a file to read that once the supervisor tells (`answer_of`), or -1.
    """
    try:
        return _begin(root, order, is_new=is_new)
    except OSError as error:  # a full disk, say: nothing was begun
        return {"answer": "failed", "cause": f"its supervisor cannot work: {error}"}, -1


def answer_of(reader: int) -> Answer:
    """Return what a supervisor tells of its start, and close the file."""
    try:
        said = os.read(reader, LINE_BYTES_MAX)
    finally:
        os.close(reader)
    return json.loads(said) if said else {"answer": "unknown"}


def _begin(root: str, order: Order, *, is_new: bool) -> tuple[Answer, int]:
    folder = folder_of(root, order["job"], order["attempt"])
    for each in (root, f"{root}/jobs", f"{root}/jobs/{order['job']}", folder):
        own_folder(each)
    lock = None
    for _ in range(LOCK_TRIES):  # who only probes holds it for microseconds
        lock = hold(f"{folder}/lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is not None:
            break
        time.sleep(0.002)
    if lock is None:
        return {"answer": "known"}, -1
    if get(f"{folder}/started") is not None or (not is_new and is_alive(root, order)):
        os.close(lock)  # or its supervisor, which is gone, would seem to live as long as we do
        return {"answer": "known"}, -1
    failpoint("attempt locked")
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        try:
            _become_supervisor(root, folder, order, (writer, lock))
        finally:
            os._exit(0)
    os.close(writer)
    os.close(lock)  # only this copy: the supervisor holds the lock on
    return {}, reader


def _become_supervisor(root: str, folder: str, order: Order, given: tuple[int, int]) -> None:
    """Leave the daemon's world, pass the fences, start the ranks, and stay with them."""
    answer, held_lock = given
    os.setsid()
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):  # or the caller's pipe would stay open as long as the job runs
        os.dup2(null, number)
    for ignored in (signal.SIGHUP, signal.SIGINT):
        signal.signal(ignored, signal.SIG_IGN)
    try:
        go_on_below_reaper(order.get("cgroup"), is_bound=order.get("is_bound", False))
        adopt_orphans()
        fences = [hold(f"{root}/term.lock", fcntl.LOCK_SH)]
        fences.append(hold(f"{root}/jobs/{order['job']}/fence.lock", fcntl.LOCK_EX))
        cause = _refusal(root, order)
        if cause:
            _reply(answer, {"answer": "refused", "cause": cause})
            return
        failpoint("attempt let in")
        user = order.get("user")
        order["seal"] = seal(root, folder, user["uid"] if user else os.geteuid())
        supervision, lock = _prepare(root, folder, order, held_lock)
    except OSError as error:  # a full disk, say: nothing was begun
        _reply(answer, {"answer": "failed", "cause": f"its supervisor cannot work: {error}"})
        return
    for number in range(len(order["ranks"])):
        supervision.living[spawn(folder, order, number, lock, supervision.gate)] = number
    failpoint("attempt spawned")
    os.close(lock)
    _let_none_follow(root, order)
    for held in fences:
        if held is not None:
            os.close(held)
    _reply(answer, {"answer": "started"})
    os.close(answer)
    failpoint("attempt replied")
    supervision.announce()
    supervision.run()


def _prepare(root: str, folder: str, order: Order, held_lock: int) -> tuple[Supervision, int]:
    """Make all that the ranks need, and last the record that says they started."""
    _open_checkpoints(f"{root}/jobs/{order['job']}/checkpoints", order.get("user"))
    group = order.get("cgroup")
    if group:
        shares = order.get("shares")
        open_group(group, shares["cpus_milli"] if shares else 0, order["memory_mb"])
    make_outputs(folder, order)
    _reserve(folder, RESERVE_BYTES + EXIT_CODE_BYTES * len(order["ranks"]))
    supervision = Supervision(root, folder, order)
    os.close(os.open(f"{folder}/ranks.lock", os.O_RDWR | os.O_CREAT, 0o600))
    user = order.get("user")
    if user:  # whose ranks they are, also once the folder has been removed
        os.chown(f"{folder}/ranks.lock", user["uid"], -1)
    lock = os.open(f"{folder}/ranks.lock", os.O_PATH)  # to be held open, and for nothing else
    started = {
        "job": order["job"],
        "attempt": order["attempt"],
        "term": order["term"],
        "placement": order["placement"],
        # Values are secrets, also those that stand in the command by now.
        "ranks": [{**rank, "env": {}, "argv": []} for rank in order["ranks"]],
        "port": order.get("port"),
        "gpus": order.get("gpus", []),
        "cgroup": group,
        "pid": os.getpid(),
        "boot": boot_id(),
        "started_ns": time.monotonic_ns(),
    }
    put(f"{folder}/started", started)
    supervision.traces = AttemptFiles(folder, held_lock, started)
    failpoint("attempt started")
    return supervision, lock


def _reserve(folder: str, count: int) -> None:
    """Keep room for the status of an attempt, in bytes, whatever its job writes."""
    with create_private(f"{folder}/reserve") as file:
        file.write(" " * count)
        file.flush()
        os.fsync(file.fileno())


def _let_none_follow(root: str, order: Order) -> None:
    """Fence what has begun: without its folder nothing else would tell.

    Both fences are held. A disk that is full now leaves the folder as the only witness.
    """
    with suppress(OSError):
        put(f"{root}/jobs/{order['job']}/fence", {"attempt": order["attempt"]})


def is_alive(root: str, order: Order) -> bool:
    """Say whether an attempt runs whose folder was removed."""
    alive = alive_below(root).get((order["job"], order["attempt"]))
    return alive is not None and bool(alive.marked or len(alive.supervisors))


def _reply(answer: int, record: Answer) -> None:
    try:
        os.write(answer, json.dumps(record).encode())
    except OSError:
        return  # who asked has died meanwhile: the attempt runs on without it


def _open_checkpoints(path: str, user: User | None) -> None:
    """Make the folder that all attempts of a job share, and give it to its user."""
    os.makedirs(path, 0o700, exist_ok=True)
    if user is not None:
        os.chown(path, user["uid"], user["gid"])


def _refusal(root: str, order: Order) -> str:
    """Return which fence stands before an order; both fences are held meanwhile."""
    term = count_in(f"{root}/term", "term")
    fence = count_in(f"{root}/jobs/{order['job']}/fence", "attempt")
    if order["term"] < term:
        return f"term {order['term']} has been replaced by {term}"
    if order["attempt"] <= fence:
        return f"attempt {order['attempt']} has begun or is fenced, as is all up to {fence}"
    return ""
