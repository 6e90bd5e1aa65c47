"""Checkpoints on disk: whole or absent, never half, and never of an attempt that was fenced off.

    CHECKPOINTS/attempt-000002/step-000000000420/rank-0.state     what was saved
                                                 rank-0.json      {step, bytes, world, files}, last

A file is written under another name, synced, renamed, and its folder is synced. A checkpoint is
complete once every rank's manifest is there and the sizes agree: that of the state, and in a run of
one rank those of the files that the script's `save` wrote (of several, nobody knows which of them
are finished). A reader takes the highest attempt, then the highest step: an old attempt that still
writes changes nothing for its successors. What an attempt saves at the same step again goes into a
folder of its own (`...420-1`), so that the one before stays whole until then.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.train import serialization
from shunter.train.agreement import read_document
from shunter.train.faults import lack_of_space
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
        self._failed: Path | None = None
        self._written: dict[int, int] = {}  # how often at a step: the same on all ranks

    def write(
        self,
        step: int,
        state: Mapping[str, object],
        more: Callable[[Path], object] | None = None,
        prove: Callable[[Path], object] | None = None,
    ) -> tuple[Path, int]:
        """Save this rank's state of a step durably; return its folder and bytes.

        What is written of a checkpoint that fails is removed: it may have filled the disk.

        Args:
            step: the steps done.
            state: what can be read again (see `serialization`).
            more: writes the rest into the folder itself.
            prove: raises where that could not be read again.

        Raises:
            OSError: it does not fit on the disk, say.
        """
        again = self._written.get(step, 0)
        self._written = {step: again + 1}
        name = f"step-{step:012}" + (f"-{again}" if again else "")
        folder = self.folder / f"attempt-{self.attempt:06}" / name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            size = self._write_into(folder, step, state, more, prove)
        except serialization.ERRORS as error:
            lack = lack_of_space(folder, error)
            self._discard(folder)
            self._failed = folder
            if lack is not None:
                raise OSError(lack) from error
            raise
        return folder, size if more is None else tree_bytes(folder)

    def _write_into(
        self,
        folder: Path,
        step: int,
        state: Mapping[str, object],
        more: Callable[[Path], object] | None,
        prove: Callable[[Path], object] | None,
    ) -> int:
        files: dict[str, int] = {}
        if more is not None:
            before = alive()
            wait_for_writers(folder, more(folder), before, may_be_empty=bool(self._rank))
            if prove is not None:
                prove(folder)
            _sync_tree(folder)
            files = _sizes(folder) if self._world == 1 else files
        size = _write_synced(
            folder / f"rank-{self._rank}.state", lambda path: serialization.put(path, state)
        )
        manifest = {"step": step, "bytes": size, "world": self._world, "files": files}
        text = json.dumps(manifest)
        _write_synced(folder / f"rank-{self._rank}.json", lambda path: _put_text(path, text))
        for each in (folder.parent, self.folder):
            _sync(each)
        return size

    def give_up(self, folder: Path | None = None) -> None:
        """Remove a checkpoint that not all ranks could save, once they know.

        What `save` has written of it may have filled the disk. Rank 0 removes all of it: where
        others are still at it, they fail, too.

        Args:
            folder: it; by default the one that this rank could not save. Nothing is done to what is
                no checkpoint of ours.
        """
        folder, self._failed = folder or self._failed, None
        if folder is None or not _FOLDER.search(folder.as_posix()):
            return
        if folder.absolute().parents[1] != self.folder.absolute():
            return
        if self._rank:
            self._discard(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def _discard(self, folder: Path) -> None:
        """Remove what this rank has written of a checkpoint that is none."""
        if self._world == 1:
            shutil.rmtree(folder, ignore_errors=True)
            return
        for path in sorted(folder.glob(f"rank-{self._rank}.*")):
            path.unlink(missing_ok=True)

    def latest(self) -> Path | None:
        """Return the folder of the newest complete checkpoint."""
        return next(iter(self.complete()), None)

    def complete(self) -> list[Path]:
        """Return the folders of the complete checkpoints, the newest first."""
        return [folder for folder in self._all() if lack(folder) is None]

    def read(self, folder: Path, rank: int | None = None) -> Any:
        """Return the state that a rank has saved, this one by default.

        Raises:
            ValueError: it is another rank's, or of another step.
        """
        rank = self._rank if rank is None else rank
        saved = serialization.read(folder / f"rank-{rank}.state")
        check_place(folder, rank, saved)
        return saved

    def size(self, folder: Path, *, is_all: bool) -> int:
        """Return the bytes of this rank's state, or of all that a folder holds."""
        if is_all:
            return tree_bytes(folder)
        try:
            return (folder / f"rank-{self._rank}.state").stat().st_size
        except FileNotFoundError:  # there were fewer ranks
            return 0

    def lacking(self) -> dict[Path, str]:
        """Return what those lack that are newer than the newest complete one."""
        found = {}
        for folder in self._all():
            lacks = lack(folder)
            if lacks is None:
                break
            found[folder] = lacks
        return found

    def prune(self) -> None:
        """Remove what is older than the newest complete ones; only rank 0 should."""
        kept = self.complete()[:KEPT]
        found = self._all()
        for folder in found[found.index(kept[-1]) + 1 :] if len(kept) == KEPT else ():
            shutil.rmtree(folder, ignore_errors=True)

    def _all(self) -> list[Path]:
        """Return the folders of checkpoints, complete or not, the newest first.

        Raises:
            PermissionError: nobody can say what is there.
        """
        for folder in (self.folder, *sorted(self.folder.glob("attempt-*"))):
            if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
                raise PermissionError(
                    f"{folder} cannot be read, so nobody knows whether the run has checkpoints: "
                    "let its user read it, or name another folder of checkpoints"
                )
        found = []
        for folder in sorted(self.folder.glob("attempt-*/step-*")):
            named = _FOLDER.search(folder.as_posix())
            if named and int(named[1]) <= self.attempt:
                found.append((tuple(int(number or 0) for number in named.groups()), folder))
        return [folder for _, folder in sorted(found, reverse=True)]


def tree_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder and below."""
    return sum(_sizes(folder).values())


def _sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of each file in a folder and below, by its path there."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}


def check_place(folder: Path, rank: int, saved: Mapping[str, Any]) -> None:
    """Refuse a state that is another rank's, or of another step than its folder.

    Raises:
        ValueError: files of the checkpoint were exchanged.
    """
    named = _FOLDER.search(folder.as_posix())
    step = saved.get("step")
    if saved.get("rank", rank) != rank or (named and step not in (None, int(named[2]))):
        raise ValueError(
            f"{folder}/rank-{rank}.state is of rank {saved.get('rank', rank)} and step "
            f"{step}: files of this checkpoint were exchanged; without its folder a run "
            "goes on from the one before"
        )


def lack(folder: Path) -> str | None:
    """Return what a checkpoint lacks, in words; None: it is complete."""
    if not folder.is_dir():
        return "it is no folder"
    try:
        return _lack(folder)
    except PermissionError as error:
        return f"{error.filename} cannot be read: permission denied"


def _lack(folder: Path) -> str | None:
    first = read_document(folder / "rank-0.json")
    if first is None or not first.get("world"):
        return "rank-0.json is missing or cut: it was not written to its end"
    found = (_lack_of(folder, rank) for rank in range(first["world"]))
    return next((each for each in found if each is not None), None)


def _lack_of(folder: Path, rank: int) -> str | None:
    manifest = read_document(folder / f"rank-{rank}.json")
    if manifest is None:
        return f"rank-{rank}.json is missing or cut"
    has, expected = _size_of(folder / f"rank-{rank}.state"), manifest.get("bytes")
    if has != expected:
        return _short(f"rank-{rank}.state", has, expected)
    for name, size in (manifest.get("files") or {}).items():
        has = _size_of(folder / name)
        if has is None or has < size:  # a log that `save` has begun may have grown since
            return _short(name, has, size)
    return None


def _short(name: str, has: int | None, expected: object) -> str:
    return f"{name} is missing" if has is None else f"{name} has {has} bytes, not {expected}"


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _put_text(path: Path, text: str) -> Callable[[], None]:
    path.write_text(text)
    return lambda: None


def _write_synced(path: Path, put: Callable[[Path], Callable[[], None]]) -> int:
    """Have a file written whole, proven and durable; return its bytes.

    Args:
        path: the file.
        put: writes it, and returns what proves it; that is called while the disk is at work.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        prove = put(temporary)
        _sync_during(temporary, prove)
        size = temporary.stat().st_size
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


def _sync_during(path: Path, prove: Callable[[], None]) -> None:
    """Make a file durable while something else is done.

    Raises:
        OSError: it cannot be made durable.
    """
    failed: list[OSError] = []

    def sync() -> None:
        try:
            _sync(path)
        except OSError as error:
            failed.append(error)

    syncing = threading.Thread(target=sync)
    syncing.start()
    try:
        prove()
    finally:
        syncing.join()
    if failed:
        raise failed[0]


def _sync_tree(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        _sync(path)
