import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shunter.api import take_lock


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def test_daemon_is_not_kept_out_by_who_looks_whether_one_is_there(tmp_path: Path) -> None:
    path, is_over, looks = tmp_path / "lock", threading.Event(), threading.Semaphore(0)

    def look() -> None:
        while not is_over.is_set():
            with opened(path) as descriptor:
                with suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                looks.release()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(500):
            looks.acquire()  # it is at it
            with opened(path) as descriptor:
                assert take_lock(descriptor)
    finally:
        is_over.set()
        looking.join()


def test_lock_of_another_daemon_is_not_taken(tmp_path: Path) -> None:
    with opened(tmp_path / "lock") as first, opened(tmp_path / "lock") as second:
        assert take_lock(first)
        assert not take_lock(second)
