"""What jobs that ended long ago leave on this machine, removed: output and records of attempts.

Checkpoints stay, for they are what training is for; a job's folder goes with the last thing in it.
Nothing is removed of an attempt of which anything may still run.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from shunter.backends.node import attempts

__all__ = ["over_since", "remove"]

GONE = ".gone"
_LEFT = ("fence", "fence.lock", "environment.json", "environment.new")


def over_since(root: str, before_s: float) -> list[str]:
    """Return the jobs of which nothing has changed since an instant.

    Args:
        root: the folder of attempts.
        before_s: seconds since 1970, by the wall clock.
    """
    jobs = Path(root, "jobs")
    folders = sorted(jobs.iterdir()) if jobs.is_dir() else []
    return [folder.name for folder in folders if _newest_s(folder) < before_s]


def remove(root: str, jobs: Iterable[str]) -> int:
    """Remove the attempts of jobs that have ended; return how many there were.

    Raises:
        OSError: something cannot be removed.
    """
    count = 0
    for job in jobs:
        folder = Path(root, "jobs", job)
        for attempt in _attempts(folder):
            if _may_run(attempt):
                break
            # Under a name that is no number it is no attempt any more, whoever dies meanwhile.
            gone = attempt.with_name(attempt.name + GONE)
            if not attempt.name.endswith(GONE):
                attempt = attempt.rename(gone)
                count += 1
            shutil.rmtree(attempt)
        else:
            _tidy(folder)
    return count


def _attempts(folder: Path) -> list[Path]:
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if path.name.removesuffix(GONE).isdigit()]


def _newest_s(folder: Path) -> float:
    """Return when anything in a job's folder changed last, but for its checkpoints."""
    paths = [folder]
    for attempt in _attempts(folder):
        paths += [attempt, *sorted(attempt.iterdir())]
    return max((path.lstat().st_mtime for path in paths if path.exists()), default=0.0)


def _may_run(attempt: Path) -> bool:
    known = attempts.probe(str(attempt))
    return known["state"] in ("starting", "running") or attempts.is_held(f"{attempt}/ranks.lock")


def _tidy(folder: Path) -> None:
    """Remove a job's folder unless there are checkpoints in it."""
    checkpoints = folder / "checkpoints"
    if checkpoints.is_dir() and not sorted(checkpoints.iterdir()):
        checkpoints.rmdir()
    if checkpoints.exists():
        return
    for name in _LEFT:
        (folder / name).unlink(missing_ok=True)
    if folder.is_dir() and not sorted(folder.iterdir()):
        folder.rmdir()
