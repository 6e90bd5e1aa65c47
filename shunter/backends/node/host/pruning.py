"""What jobs that ended long ago leave on a machine, removed: output and records of attempts.

    python3 -I -S FILE ages ROOT NONCE < {"keep_s": …}      {"old": [jobs], "young": [jobs]}
    python3 -I -S FILE prune ROOT NONCE < {"jobs": […]}     {"removed": attempts, "error": why not}

Checkpoints stay, for they are what training is for; a job's folder goes with the last thing in it.
Nothing is removed of an attempt of which anything may still run.

No link is followed: folders are opened one in the other, and what is no folder of ours is left
alone. An attempt's folder is handed to the job's user and emptied by a process with that user's
rights, so that nothing is removed that the user could not remove. It has a limit of time; with one
who exceeds it, nothing more is tried in this look, and the others' turn has come.
"""

from __future__ import annotations

import json
import os
import pwd
import stat
import sys
import time
from contextlib import suppress

from shunter.backends.node.attempts import holders, probe, running
from shunter.backends.node.host.accounts import as_user
from shunter.backends.node.messages import User
from shunter.backends.node.records import folder_of
from shunter.backends.node.shapes import COUNT_MOST, Message, a_list, a_text, a_whole, field

GONE = ".gone"
ATTEMPT_S = 20.0
_LEFT_OF_JOB = (
    "fence",
    "fence.lock",
    "environment.json",
    "environment.new",
)
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


NAMES = a_list(a_text(256), COUNT_MOST)


class Ages(Message):
    """The jobs that have not changed for some time, and those that have."""

    old: tuple[str, ...] = field(NAMES)
    young: tuple[str, ...] = field(NAMES)


class Removed(Message):
    """How many attempts were removed, and what could not be ("" if all were)."""

    removed: int = field(a_whole())
    error: str = field(a_text(COUNT_MOST))


class _TooSlowError(OSError):
    """What a user has left could not be removed in time."""

    def __init__(self, uid: int, cause: str) -> None:
        super().__init__(f"what user {uid} left there cannot be removed: {cause}")
        self.uid = uid


def ages(root: str, nonce: str = "") -> Ages:
    """Answer the question which jobs are old."""
    found = by_age(root, time.time() - float(json.load(sys.stdin)["keep_s"]))
    sys.stdout.write(f"\n{nonce} ")
    return found


def prune(root: str, nonce: str = "") -> Removed:
    """Remove the attempts of jobs, as asked for on standard input."""
    found = remove_attempts(root, json.load(sys.stdin)["jobs"])
    sys.stdout.write(f"\n{nonce} ")
    return found


def by_age(root: str, before_s: float) -> Ages:
    """Return the jobs that have not changed since an instant, and the younger.

    Args:
        root: the folder of attempts.
        before_s: seconds since 1970, by the wall clock.
    """
    found: dict[str, list[str]] = {"old": [], "young": []}
    for job in _folders_within(f"{root}/jobs"):
        found["old" if _job_changed_s(f"{root}/jobs/{job}") < before_s else "young"].append(job)
    return Ages(old=tuple(found["old"]), young=tuple(found["young"]))


def remove_attempts(root: str, jobs: list[str]) -> Removed:
    """Remove the attempts of ended jobs; return how many, and what failed."""
    alive = {(each.job, each.attempt) for each in running(root, [])}
    removed, error = 0, ""
    slow: set[int] = set()
    try:
        top = os.open(f"{root}/jobs", _OPEN_FOLDER)
    except OSError:
        return Removed(removed=0, error=error)  # there never was a job
    try:
        for job in jobs:
            try:
                removed += _remove_job(root, job, top, alive, slow)
            except OSError as failed:  # the next look tries again
                if isinstance(failed, _TooSlowError):
                    slow.add(failed.uid)
                error = error or f"{job}: {failed}"
    finally:
        os.close(top)
    return Removed(removed=removed, error=error)


def _remove_job(root: str, job: str, top: int, alive: set[tuple[str, int]], slow: set[int]) -> int:
    """Remove the attempts of one job; return how many there were.

    Those of users who were too slow are left alone.
    """
    if "/" in job or not _is_folder_of_ours(job, top):
        return 0
    count, folder = 0, os.open(job, _OPEN_FOLDER, dir_fd=top)
    try:
        for name in _attempts_within(folder):
            if not _is_folder_of_ours(name, folder):
                return count
            if not name.endswith(GONE):
                if (job, int(name)) in alive or _attempt_may_run(folder_of(root, job, int(name))):
                    return count
                # Under a name that is no number it is no attempt any more, whoever dies meanwhile.
                os.rename(name, name + GONE, src_dir_fd=folder, dst_dir_fd=folder)
                count += 1
            _remove_attempt(_number_of(name) + GONE, folder, slow)
        _remove_job_folder(job, folder, top)
    finally:
        os.close(folder)
    return count


def _remove_attempt(name: str, within: int, slow: set[int]) -> None:
    """Empty a folder as the job's user, and remove it."""
    folder = os.open(name, _OPEN_FOLDER, dir_fd=within)
    try:
        user = _user_of_attempt(folder, within)
        if user is None:
            _empty_attempt(folder)
        elif user.uid in slow:
            raise OSError(f"what user {user.uid} left waits for the next look")
        else:
            os.fchmod(folder, 0o700)
            os.fchown(folder, user.uid, user.gid)
            _empty_attempt_as(user, folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=within)


def _user_of_attempt(folder: int, job: int) -> User | None:
    """Return the user of an attempt, whose channel it was; None: it is ours."""
    if os.geteuid() != 0:
        return None
    owner = os.fstat(folder).st_uid
    if owner:  # its removal was begun before
        return _account_of(owner)
    for name, within in (("channel", folder), ("checkpoints", job)):
        with suppress(OSError):
            there = os.stat(name, dir_fd=within, follow_symlinks=False)
            return _account_of(there.st_uid) if there.st_uid else None
    return None


def _account_of(uid: int) -> User:
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:  # whoever it was has gone since
        gid = uid
    return User(uid=uid, gid=gid, groups=())


def _empty_attempt_as(user: User, folder: int) -> None:
    """Empty a folder in a process with the rights of a user."""
    began_s = time.monotonic()
    error = as_user(user, lambda: _empty_attempt(folder), ATTEMPT_S).get("error")
    if error and time.monotonic() - began_s >= ATTEMPT_S:
        raise _TooSlowError(user.uid, str(error))
    if error:
        raise OSError(f"user {user.uid} cannot remove what is in it: {error}")


def _empty_attempt(folder: int) -> None:
    for name in sorted(os.listdir(folder)):
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISDIR(there.st_mode):
            os.unlink(name, dir_fd=folder)
            continue
        inner = os.open(name, _OPEN_FOLDER, dir_fd=folder)
        try:
            _empty_attempt(inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def _remove_job_folder(job: str, folder: int, top: int) -> None:
    """Remove a job's folder unless checkpoints or things unknown are in it."""
    with suppress(OSError):
        os.rmdir("checkpoints", dir_fd=folder)
    names = sorted(os.listdir(folder))
    if "checkpoints" in names:
        return
    for name in names:
        if name in _LEFT_OF_JOB or name.startswith("checkpoints."):
            with suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=folder)
    with suppress(OSError):
        os.rmdir(job, dir_fd=top)


def _attempts_within(folder: int) -> list[str]:
    """Return the names of attempts, also of those whose removal had begun."""
    return [name for name in sorted(os.listdir(folder)) if _number_of(name).isdigit()]


def _number_of(name: str) -> str:
    return name[: -len(GONE)] if name.endswith(GONE) else name


def _names_within(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _folders_within(path: str) -> list[str]:
    """Return the names of the folders in one, links to some left out."""
    names = _names_within(path)
    return [name for name in names if stat.S_ISDIR(_status_of(f"{path}/{name}").st_mode)]


def _status_of(path: str) -> os.stat_result:
    """Return the status of an entry, a link itself; zeros where there is none."""
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError:
        return os.stat_result((0,) * 10)


def _job_changed_s(path: str) -> float:
    """Return when anything in a job's folder changed last, but for its checkpoints."""
    found = [_status_of(path)]
    for name in _folders_within(path):
        if _number_of(name).isdigit():
            inner = f"{path}/{name}"
            found += [
                _status_of(inner),
                *(_status_of(f"{inner}/{each}") for each in _names_within(inner)),
            ]
    return max(one.st_mtime for one in found)


def _is_folder_of_ours(name: str, within: int) -> bool:
    """Say whether an entry is a folder that we made, or had handed to a job's user."""
    try:
        there = os.stat(name, dir_fd=within, follow_symlinks=False)
    except OSError:
        return False
    is_known = there.st_uid == os.geteuid() or name.endswith(GONE)
    return stat.S_ISDIR(there.st_mode) and is_known


def _attempt_may_run(folder: str) -> bool:
    state = probe(folder).state
    return state in ("starting", "running") or (state != "ended" and bool(holders(folder)))
