"""The end of a run that leaves: what `save` writes in the background, and then the process.

Orbax, torch's `async_save` and Lightning's AsyncCheckpointIO write in threads. A checkpoint counts
once they are done: futures that `save` returns are waited for, then what Orbax says of itself, then
threads that `save` began or gave work to: what was waiting for work has to wait again. Daemons that
wait for work half a minute later are left alone, since some never end. Of a pool of threads nobody
can say what it does: while there are some, the folder has to be quiet for a second.

Child processes that `save` began are waited for as daemons are, and any other for as long as it has
a file of the folder open. A process whose parent has ended (`sh -c "write &"`) is no child any
more: it is not seen. What is left when a run leaves ends with the interpreter, which waits for
threads and child processes of `multiprocessing`, as `os._exit` would not.
"""

from __future__ import annotations

import gc
import logging
import os
import stat
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from shunter.train import channel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

QUIET_S = 1.0
WAIT_S = 120.0
_DAEMON_WAIT_S = 30.0
_LOOK_EVERY_S = 0.05
_UNFINISHED = "orbax-checkpoint-tmp"  # in the name of what Orbax has not finished


class Alive(NamedTuple):
    """The threads, and whether each waits for work; and the child processes."""

    threads: Mapping[threading.Thread, bool]
    children: Collection[int]


def alive() -> Alive:
    """Return what could write in the background now."""
    return Alive({each: _waits(each) for each in threading.enumerate()}, _children())


def wait_for_writers(
    folder: Path,
    answer: object,
    before: Alive,
    *,
    may_be_empty: bool,
) -> None:
    """Wait until all that a script's `save` has begun is written.

    Args:
        folder: where it writes.
        answer: what it returned: a future, or several, of what is being written.
        before: what was alive before.
        may_be_empty: whether it may have written nothing: another rank has.

    Raises:
        OSError: it has written nothing, or is not done after two minutes.
    """
    for future in answer if isinstance(answer, (list, tuple)) else (answer,):
        result = getattr(getattr(future, "upload_completion", future), "result", None)
        if callable(result):
            result()
    for writer in _writers_of_orbax():
        writer.wait_until_finished()
    until = time.monotonic() + WAIT_S
    pools = _pool_threads()
    begun = [thread for thread in threading.enumerate() if thread not in before.threads]
    for thread in begun:
        if thread not in pools:
            thread.join(_DAEMON_WAIT_S if thread.daemon else WAIT_S)
    busy = begun + [thread for thread, was_waiting in before.threads.items() if was_waiting]
    for thread in busy:
        if thread not in pools:
            _wait_until_done(thread, until)
    are_children_left = _wait_for_children(folder, before.children)
    if begun or pools or are_children_left or _is_anything_alive():
        _wait_until_quiet(folder)
    unfinished = [path.name for path in sorted(folder.rglob("*")) if _UNFINISHED in path.name]
    if unfinished:
        raise OSError(f"{folder / unfinished[0]} is not finished: let `save` wait for its writer")
    if not may_be_empty and not any(path.is_file() for path in sorted(folder.rglob("*"))):
        raise OSError(
            f"`save` has written nothing into {folder}: let it wait for what writes in the "
            "background, or return its future"
        )


def leave_at_once() -> NoReturn:
    """Exit with 75 now: tearing an interpreter with torch down takes seconds.

    Where threads or child processes may still write, it ends as an interpreter does, after them.
    """
    if _is_anything_alive() and threading.current_thread() is threading.main_thread():
        sys.exit(channel.EXIT_SUSPENDED)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a full disk, or a stream that the script has closed
            stream.flush()
    with suppress(OSError, ValueError):
        logging.shutdown()
    os._exit(channel.EXIT_SUSPENDED)


def _is_anything_alive() -> bool:
    """Say whether threads or child processes go on that an interpreter waits for."""
    own = (threading.main_thread(), threading.current_thread())
    others = [each for each in threading.enumerate() if each not in own]
    if any(not each.daemon or each in _pool_threads() for each in others):
        return True
    return any(not each.daemon for each in _children_of_multiprocessing())


def _children_of_multiprocessing() -> Iterable[Any]:
    processes = sys.modules.get("multiprocessing.process")
    return processes.active_children() if processes is not None else ()


def _children() -> Collection[int]:
    """Return the child processes that have not ended, where Linux lists them."""
    found = []
    for listed in sorted(Path("/proc/self/task").glob("*/children")):
        with suppress(OSError):  # the thread has ended
            found += [int(pid) for pid in listed.read_text().split()]
    return [pid for pid in found if not _has_ended(pid)]


def _has_ended(child: int) -> bool:
    """Say whether a child process has ended; how, is left for the script to read."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _writers_of_orbax() -> list[Any]:
    """Return the checkpointers of Orbax that write in the background."""
    kind = getattr(sys.modules.get("orbax.checkpoint"), "AsyncCheckpointer", None)
    if kind is None:
        return []
    # `isinstance` would ask proxies for what they stand for: they load it, or raise.
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]


def _pool_threads() -> Collection[threading.Thread]:
    """Return the threads of all pools, which end with them."""
    pools = sys.modules.get("concurrent.futures.thread")
    return list(getattr(pools, "_threads_queues", ()))


def _wait_until_done(thread: threading.Thread, until: float) -> None:
    """Wait until a thread has ended, or waits for work."""
    while thread.is_alive() and not _waits(thread):
        if time.monotonic() > until:
            raise OSError(
                f"thread {thread.name!r}, which `save` began or gave work to, is still at work "
                f"after {WAIT_S:g} s: let `save` wait for it, or begin it before train.start"
            )
        thread.join(_LOOK_EVERY_S)


def _waits(thread: threading.Thread) -> bool:
    """Say whether a thread waits for an event, at a queue or a selector."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  there is no other way
    if frame is None:
        return False
    if frame.f_code is threading.Condition.wait.__code__:
        waiter = frame.f_locals.get("waiter")  # it is unlocked by who gives it work
        return waiter is not None and waiter.locked()
    return frame.f_code.co_name == "select" and frame.f_globals.get("__name__") == "selectors"


def _wait_for_children(folder: Path, before: Collection[int]) -> bool:
    """Wait for child processes; say whether any that `save` began is left."""
    since = time.monotonic()
    begun = [pid for pid in _children() if pid not in before]
    while True:
        writers = [pid for pid in _children() if _has_open(pid, folder.resolve())]
        begun = [pid for pid in begun if not _has_ended(pid)]
        took_s = time.monotonic() - since
        if not writers and (took_s > _DAEMON_WAIT_S or not set(begun).difference(_daemons())):
            return bool(begun)
        if took_s > WAIT_S:
            raise OSError(
                f"process {writers[0]} still has a file of {folder} open after {WAIT_S:g} s: "
                "let `save` wait for it"
            )
        time.sleep(_LOOK_EVERY_S)


def _daemons() -> Collection[int]:
    """Return the child processes of `multiprocessing` that end with this one only."""
    found = [each.pid for each in _children_of_multiprocessing() if each.daemon]
    for module, server, pid in (
        ("resource_tracker", "_resource_tracker", "_pid"),
        ("forkserver", "_forkserver", "_forkserver_pid"),
    ):
        known = sys.modules.get(f"multiprocessing.{module}")
        found.append(getattr(getattr(known, server, None), pid, None))
    return [pid for pid in found if pid is not None]


def _has_open(child: int, folder: Path) -> bool:
    """Say whether a process has a file in a folder open for writing."""
    try:
        descriptors = sorted(Path(f"/proc/{child}/fd").iterdir())
    except OSError:  # it has ended
        return False
    for link in descriptors:
        with suppress(OSError):  # it is closed again
            is_for_writing = link.lstat().st_mode & stat.S_IWUSR
            if is_for_writing and folder in Path(os.readlink(link)).parents:
                return True
    return False


def _wait_until_quiet(folder: Path) -> None:
    until = time.monotonic() + WAIT_S
    seen, since = _seen(folder), time.monotonic()
    while time.monotonic() - since < QUIET_S:
        time.sleep(_LOOK_EVERY_S)
        now = _seen(folder)
        if now != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() > until:
            raise OSError(
                f"{folder} still grows after {WAIT_S:g} s: let `save` wait for its writer"
            )


def _seen(folder: Path) -> list[tuple[str, int, int]]:
    """Return names, sizes and times of what a folder holds."""
    found = []
    for path in sorted(folder.rglob("*")):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # it got its last name meanwhile
        found.append((str(path), status.st_size, status.st_mtime_ns))
    return found
