"""What ranks without torch.distributed tell each other: small files in a folder they share.

REQUEST counts the requests of an attempt from 1, RANK the ranks from 0::

    vote.REQUEST.RANK.json      the boundary this rank was at
    stop.REQUEST.json           the boundary agreed on, created exactly once
    saved.REQUEST.RANK.json     this rank's part of the checkpoint is written
    failed.REQUEST.RANK.json    it could not be
    ended.RANK.json             this rank comes to no further boundary

A file is written whole under another name and renamed, so that a reader sees the old one, the new
one, or none. Nothing is synced: the folder of a machine that died tells nothing.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Document = Mapping[str, object]


def folder_of(checkpoints: Path, attempt: int) -> Path:
    """Return where the ranks of an attempt meet."""
    return checkpoints / f"attempt-{attempt:06}" / "votes"


def path_of(folder: Path, kind: str, request: int, rank: int) -> Path:
    """Return where a rank puts its answer of a kind to a request."""
    return folder / f"{kind}.{request}.{rank}.json"


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


def ranks_that(folder: Path, kind: str, request: int) -> set[int]:
    """Return the ranks that have put an answer of a kind to a request."""
    names = [path.name.split(".") for path in sorted(folder.glob(f"{kind}.{request}.*.json"))]
    return {int(name[2]) for name in names if name[2].isdigit()}
