"""Checkpoints on disk: whole or absent, never half, and never of an attempt that was fenced off.

    CHECKPOINTS/attempt-000002/step-000000000420/rank-0.state     what was saved
                                                 rank-0.json      {step, bytes, world}, last

A file is written under another name, synced, renamed, and its folder is synced. A checkpoint is
complete once every rank's manifest is there and its size agrees. A reader takes the highest
attempt, then the highest step: an old attempt that still writes changes nothing for its successors.
What an attempt saves at the same step again goes into a folder of its own (`...420-1`), so that the
one before stays whole until then.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.train import serialization
from shunter.train.agreement import read_document
from shunter.train.leaving import alive, wait_for_writers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEPT = 2
_FOLDER = re.compile(r"attempt-(\d+)/step-(\d+)(?:-(\d+))?$")


class Checkpoints:
    """The checkpoints of one job, as one rank of one attempt writes and reads them."""

    def __init__(self, folder: Path, *, attempt: int, rank: int, world: int) -> None:
        self.folder = folder
        self.attempt = attempt
        self._rank = rank
        self._world = world
        self._written: dict[int, int] = {}  # how often at a step: the same on all ranks

    def write(
        self,
        step: int,
        state: Mapping[str, object],
        more: Callable[[Path], object] | None = None,
        prove: Callable[[Path], object] | None = None,
    ) -> tuple[Path, int]:
        """Save this rank's state of a step durably; return its folder and bytes.

        Args:
            step: the steps done.
            state: what can be read again (see `serialization`).
            more: writes the rest into the folder itself.
            prove: raises where that could not be read again.
        """
        again = self._written.get(step, 0)
        self._written = {step: again + 1}
        name = f"step-{step:012}" + (f"-{again}" if again else "")
        folder = self.folder / f"attempt-{self.attempt:06}" / name
        folder.mkdir(parents=True, exist_ok=True)
        if more is not None:
            before = alive()
            wait_for_writers(folder, more(folder), before, may_be_empty=bool(self._rank))
            if prove is not None:
                prove(folder)
            _sync_tree(folder)
        write = partial(serialization.write, state=state)
        size = _write_synced(folder / f"rank-{self._rank}.state", write)
        manifest = json.dumps({"step": step, "bytes": size, "world": self._world})
        _write_synced(folder / f"rank-{self._rank}.json", lambda path: path.write_text(manifest))
        for each in (folder.parent, self.folder):
            _sync(each)
        return folder, size if more is None else tree_bytes(folder)

    def latest(self) -> Path | None:
        """Return the folder of the newest complete checkpoint."""
        complete = self._complete()
        return complete[-1] if complete else None

    def read(self, folder: Path, rank: int | None = None) -> Any:
        """Return the state that a rank has saved, this one by default."""
        return serialization.read(folder / f"rank-{self._rank if rank is None else rank}.state")

    def prune(self) -> None:
        """Remove all but the newest complete checkpoints; only rank 0 should."""
        complete = self._complete()
        for folder in complete[:-KEPT]:
            shutil.rmtree(folder, ignore_errors=True)

    def _complete(self) -> list[Path]:
        """Return the complete checkpoints, the newest last."""
        found = []
        for folder in sorted(self.folder.glob("attempt-*/step-*")):
            named = _FOLDER.search(folder.as_posix())
            if named and int(named[1]) <= self.attempt and _is_complete(folder):
                found.append((tuple(int(number or 0) for number in named.groups()), folder))
        return [folder for _, folder in sorted(found)]


def tree_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder and below."""
    return sum(path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file())


def _is_complete(folder: Path) -> bool:
    first = read_document(folder / "rank-0.json")
    world = first.get("world", 0) if first else 0
    return bool(world) and all(_is_whole(folder, rank) for rank in range(world))


def _is_whole(folder: Path, rank: int) -> bool:
    manifest = read_document(folder / f"rank-{rank}.json")
    try:
        size = (folder / f"rank-{rank}.state").stat().st_size
    except FileNotFoundError:
        return False
    return manifest is not None and manifest.get("bytes") == size


def _write_synced(path: Path, write: Callable[[Path], int]) -> int:
    """Have a file written whole and durable; return its bytes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        size = write(temporary)
        _sync(temporary)
        os.replace(temporary, path)  # noqa: PTH105  the same call
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)
    return size


def _sync(path: Path) -> None:
    """Make a file or the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_tree(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        _sync(path)
