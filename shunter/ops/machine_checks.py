"""Checks of this machine: Python, SQLite, GPUs, memory limits, whom it serves, disks, clock.

A check is a function from what is looked at to findings.
"""

import os
import shutil
import sqlite3
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shunter.api import user_name
from shunter.backends.live import EXPLANATIONS, GpuFault, memory_control, use_told, why_unseen
from shunter.backends.node import means_of
from shunter.backends.node.host import read_gpus
from shunter.counting import counted

if TYPE_CHECKING:
    from shunter.config import LoadedConfig


@dataclass(frozen=True)
class Finding:
    """One fact about a machine.

    `bad` keeps a cluster from running, `poor` makes it worse than it could be; `mend` says what to
    do.
    """

    subject: str
    state: Literal["good", "poor", "bad"]
    what: str
    mend: str = ""


@dataclass(frozen=True)
class Looked:
    """What is looked at: this machine, with the config it is to run, if there is one."""

    loaded: "LoadedConfig | None" = None
    note: Callable[[str], None] = lambda text: None


Check = Callable[[Looked], Iterator[Finding]]


PYTHON = (3, 11)
SQLITE = (3, 38, 0)
"""The first with JSON functions built in, which the view `events` uses."""

DISK_LEAST_MB = 1_000
_LOG_LEAST_BYTES = 65_536
_MB = 1 << 20


def python(looked: Looked) -> Iterator[Finding]:
    """Check the interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON:
        yield Finding("python", "bad", f"Python {version}", "install Python 3.11 or later")
    else:
        yield Finding("python", "good", f"Python {version}")


def sqlite(looked: Looked) -> Iterator[Finding]:
    """Check the library, and that logs can be kept where they are to be."""
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < SQLITE:
        mend = "use a Python that was built with SQLite 3.38 or later"
        yield Finding("sqlite", "bad", f"SQLite {version}", mend)
        return
    folder = _log_folder(looked)
    if folder is None:
        yield Finding("sqlite", "good", f"SQLite {version}")
        return
    try:
        mode = _journal_mode(folder)
    except (OSError, sqlite3.Error) as error:
        mend = "let the daemon's user write there, or set log.url to another folder"
        if shutil.disk_usage(_nearest(folder)).free < _LOG_LEAST_BYTES:
            mend = f"make room: the disk of {folder} is full"
        yield Finding("sqlite", "bad", f"no log can be kept in {folder}: {error}", mend)
        return
    if mode == "wal":
        yield Finding("sqlite", "good", f"SQLite {version}, with a write-ahead log in {folder}")
    else:
        mend = "put the log on a local disk: network file systems have no shared memory"
        yield Finding("sqlite", "bad", f"no write-ahead log in {folder} (mode {mode})", mend)


def gpus(looked: Looked) -> Iterator[Finding]:
    """Check what the driver tells, and whether it is what the config says."""
    if _is_elsewhere(looked):
        return
    configured = None if looked.loaded is None else looked.loaded.config.cluster.gpus
    seen = read_gpus()
    found = list(map(use_told, seen["gpus"]))
    if not found:
        mend = "install the NVIDIA driver, if there are GPUs"
        if configured:
            mend = f"the config's GPUs, {configured:,}, are given out unseen; {mend}"
        why = why_unseen(seen["code"], seen.get("said", ""))
        yield Finding("gpus", "poor", f"no GPU is seen ({why})", mend)
        return
    lost = [str(gpu.index) for gpu in found if gpu.is_lost]
    if lost:
        yield Finding(
            *("gpus", "bad", f"GPU {', '.join(lost)} is lost"),
            EXPLANATIONS[GpuFault.lost],
        )
    told = counted(len(found), "GPU")
    if configured is not None and configured > len(found):
        yield Finding(
            *("gpus", "bad", f"{told} in the machine, {configured} in the config"),
            "correct cluster.nodes",
        )
    elif not lost:
        yield Finding("gpus", "good", f"{told}, read by {seen['by']}")


def sizes(looked: Looked) -> Iterator[Finding]:
    """Check that servers of the config have no more than this machine."""
    if looked.loaded is None or looked.loaded.config.backend.kind != "local":
        return
    cpus = len(os.sched_getaffinity(0))
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1_000_000
    for name, server in looked.loaded.config.cluster.servers():
        for what, configured, there in (
            ("CPUs", server.cpus_milli // 1000, cpus),
            ("MB of memory", server.memory_mb, memory_mb),
        ):
            if configured > there:
                told = f"{name} has {configured:,} {what} in the config, this machine {there:,}"
                mend = "correct cluster.nodes: jobs that fill it share what is there"
                yield Finding("sizes", "poor", told, mend)


def memory(looked: Looked) -> Iterator[Finding]:
    """Check whether the memory of jobs can be limited."""
    if _is_elsewhere(looked) or _are_sized(looked):
        return
    control = memory_control(prepare=False)
    if control.group:
        yield Finding("memory", "good", f"jobs are held to their memory below {control.group}")
    else:
        yield Finding("memory", "poor", "jobs are not held to their memory", control.why_not)


def held_shares(looked: Looked) -> Iterator[Finding]:
    """Say by what jobs are held to their shares, where they are sized."""
    if _are_sized(looked) and not _is_elsewhere(looked):
        group = memory_control(prepare=False).group
        yield shares("shares", means_of(group, is_divided=False).words)


def shares(name: str, means: str) -> Finding:
    """Return how well something holds jobs to their shares."""
    if "affinity" not in means and "not held" not in means:
        return Finding(name, "good", means)
    mend = "under systemd, run the agent in a unit with Delegate=yes, for cpu and memory"
    return Finding(name, "poor", means, mend)


def users(looked: Looked) -> Iterator[Finding]:
    """Check whose jobs a daemon of ours can start."""
    if looked.loaded is not None and looked.loaded.config.backend.kind == "slurm":
        return  # Slurm starts them, as who asks it to
    uid = os.geteuid()
    if uid == 0 and (closed := _closed(looked)):
        what = f"jobs run as who submitted them, and other users cannot pass through {closed}"
        mend = f"chmod o+x {closed}, or set backend.local.root to a folder that all may enter"
        yield Finding("users", "bad", what, f"{mend}, such as /var/lib/shunter")
        return
    if uid == 0:
        what = "a daemon run as root starts everybody's jobs, each as who submitted it"
        yield Finding("users", "good", what)
        return
    yield Finding(
        *("users", "poor", f"a daemon of {user_name(uid)} (uid {uid}) serves nobody else"),
        "run `shunter serve` as root to serve others; for yourself all is well",
    )


def disks(looked: Looked) -> Iterator[Finding]:
    """Check that there is room for logs and output, and that folders can be written."""
    places = {_nearest(folder): name for name, folder in _folders(looked)}
    for there, name in places.items():
        if not os.access(there, os.W_OK | os.X_OK):
            mend = f"let {user_name(os.geteuid())} write there, or change {name}"
            yield Finding("disk", "bad", f"{there} cannot be written", mend)
            continue
        free_mb = shutil.disk_usage(there).free // _MB
        if free_mb < DISK_LEAST_MB:
            mend = "make room: a scheduler whose disk is full stops"
            yield Finding("disk", "poor", f"{free_mb:,} MiB free in {there}", mend)
        else:
            yield Finding("disk", "good", f"{free_mb:,} MiB free in {there}")


def boot(looked: Looked) -> Iterator[Finding]:
    """Check what tells one boot of the machine from the next, and its clock."""
    if not Path("/proc/sys/kernel/random/boot_id").exists():
        mend = "run on Linux with /proc: attempts of an earlier boot could not be told"
        yield Finding("boot", "bad", "this kernel names no boot", mend)
        return
    year = time.gmtime().tm_year
    if year < 2024:
        yield Finding("clock", "poor", f"the clock says {year}", "set it; dates are shown by it")
    yield Finding("boot", "good", "boots can be told apart")


def _closed(looked: Looked) -> Path | None:
    """Return what keeps the users of jobs from the folder of attempts here."""
    local = None if looked.loaded is None else looked.loaded.config.backend.local
    if local is None:
        return None
    there = _nearest(Path(local.root).absolute()).resolve()
    above = [one for one in (there, *there.parents) if not one.stat().st_mode & stat.S_IXOTH]
    return above[-1] if above else None


def _is_elsewhere(looked: Looked) -> bool:
    """Say whether jobs run on other machines, of which checks of their own tell."""
    return looked.loaded is not None and looked.loaded.config.backend.kind in {"ssh", "slurm"}


def _are_sized(looked: Looked) -> bool:
    """Say whether jobs are given CPUs and memory, of which a check of its own tells."""
    return looked.loaded is not None and looked.loaded.config.policy.sizing is not None


def _journal_mode(folder: Path) -> str:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".shunter-doctor-") as made:
        connection = sqlite3.connect(Path(made) / "probe.db")
        try:
            found = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        finally:
            connection.close()
    return str(found[0])


def _log_folder(looked: Looked) -> Path | None:
    if looked.loaded is None or not looked.loaded.config.backend.is_live:
        return None
    from shunter.events.log import path_of

    return path_of(looked.loaded.config.log.url).absolute().parent


def _folders(looked: Looked) -> Iterator[tuple[str, Path]]:
    log = _log_folder(looked)
    if looked.loaded is None or log is None:
        yield "the folder", Path.cwd()
        return
    yield "log.url", log
    local = looked.loaded.config.backend.local
    if local is not None:
        yield "backend.local.root", Path(local.root).absolute()


def _nearest(folder: Path) -> Path:
    """Return a folder, or the nearest above it that is there and may be looked at."""
    return next(one for one in (folder, *folder.parents) if _is_seen(one))


def _is_seen(folder: Path) -> bool:
    try:
        return folder.exists()
    except PermissionError:
        return False
