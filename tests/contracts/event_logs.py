"""The stores of the event log as the contract suite sees them, and a story to keep in them."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shunter.events import (
    Allocation,
    AllocationChanged,
    Because,
    Event,
    JobFinished,
    JobId,
    JobSpec,
    JobSubmitted,
    NodeName,
    RoundPlanned,
    Share,
)
from shunter.events.log import LogReader, Snapshot


@dataclass(frozen=True, slots=True)
class StoreKind:
    """One kind of store: how to address it, and whether its events can be read again."""

    name: str
    url: Callable[[Path], str]
    readable: bool = True


MEMORY = StoreKind("memory", lambda _folder: "memory:")
NONE = StoreKind("none", lambda _folder: "none:", readable=False)
SQLITE = StoreKind("sqlite", lambda folder: f"sqlite+aiosqlite:///{folder}/run.db")
STORE_KINDS = (MEMORY, NONE, SQLITE)


def story(events: int) -> list[Event]:
    """Return so many events of jobs that come, run and finish, one a second."""
    kinds = (_submitted, _planned, _allocated, _finished)
    return [kinds[i % 4](i * 1_000_000, JobId(f"j{i // 4}")) for i in range(events)]


def snapshot(seq: int) -> Snapshot:
    """Return a snapshot after the event `seq` of a story."""
    return Snapshot.of(seq, (seq - 1) * 1_000_000, b'["state"]', b'["memory"]')


async def events_of(reader: LogReader, after: int = 0, to: int | None = None) -> list[Event]:
    """Return the events after `after` up to `to`."""
    return [event async for event in reader.events(after, to)]


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Run one statement on a database as any tool would, and return its rows."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            return connection.execute(sql).fetchall()
    finally:
        connection.close()


def files_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder, sorted."""
    return [path.name for path in sorted(folder.iterdir())]


def content(path: Path) -> bytes:
    """Return the bytes of a file."""
    return path.read_bytes()


def put(path: Path, data: bytes) -> None:
    """Make the file hold these bytes."""
    path.write_bytes(data)


def remove(path: Path) -> None:
    """Remove the file."""
    path.unlink()


def set_mode(path: Path, mode: int) -> None:
    """Set the permissions of a file or folder."""
    path.chmod(mode)


def _submitted(at_us: int, job_id: JobId) -> Event:
    return JobSubmitted(at_us, job_id, JobSpec(gpus=2, name="tränñg"), duration_us=5)


def _planned(at_us: int, _job_id: JobId) -> Event:
    return RoundPlanned(at_us, at_us // 4_000_000, skipped=0, seen=1)


def _allocated(at_us: int, job_id: JobId) -> Event:
    share = Share(NodeName("gpu001"), gpu_mask=3)
    return AllocationChanged(at_us, job_id, Allocation((share,)), Because("order", (1, 0.5)))


def _finished(at_us: int, job_id: JobId) -> Event:
    return JobFinished(at_us, job_id)
