"""What a job finds in its environment: the contract that frameworks and the SDK rely on.

What the submitter gave, names and values, lies in a file beside the job's attempts that only we can
read, never in the log. What is promised here wins over it. docs/reference/environment.md lists all.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from shunter.backends.node.records import own_folder
from shunter.errors import BackendError
from shunter.events.values import JobId

CUDA = "CUDA_VISIBLE_DEVICES"
_SECRET = re.compile(r"\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")


def path_of(root: str, job_id: JobId) -> Path:
    """Return where a job's environment lies: a JSON object of texts, mode 0600."""
    return Path(root) / "jobs" / job_id / "environment.json"


def given_to(root: str, job_id: JobId) -> dict[str, str]:
    """Return the environment that a job's submitter gave it.

    Raises:
        BackendError: the file cannot be read, or is no object of names and texts.
    """
    path = path_of(root, job_id)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # its text is secret: only where it is wrong is told
        what = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise BackendError(f"the environment of job {job_id} in {path}: {what}") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise BackendError(f"the environment of job {job_id} in {path}: expected texts by name")
    return found


def store_all(root: str, given: Mapping[JobId, Mapping[str, str]]) -> None:
    """Store what submitters gave jobs, durably; what was stored before is gone.

    Raises:
        BackendError: one of them cannot be written.
    """
    for job_id, environment in given.items():
        _store(root, job_id, environment)


def _store(root: str, job_id: JobId, given: Mapping[str, str]) -> None:
    path = path_of(root, job_id)
    try:
        if not given:
            path.unlink(missing_ok=True)
            return
        own_folder(str(path.parent))
        put_privately(path, json.dumps(dict(given)))
    except OSError as error:
        what = f"the environment of job {job_id} cannot be stored in {path}: {error.strerror}"
        raise BackendError(what, retryable=True) from error


def put_privately(path: Path, text: str) -> None:
    """Write a file that only we can read, whole or not at all, and durably.

    Raises:
        OSError: it cannot be written.
    """
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as written:
        written.write(text)
        written.flush()
        os.fsync(file)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def filled(command: Iterable[str], given: Mapping[str, str]) -> list[str]:
    """Return a command with values where it says `{secret:NAME}`, as the log does."""
    return [_SECRET.sub(lambda found: given.get(found[1], found[0]), word) for word in command]


def devices_shown(gpus: str, visible: str = CUDA) -> Mapping[str, str]:
    """Return what tells a process its devices.

    Args:
        gpus: their names, with commas.
        visible: the variable that lists them.
    """
    # The order in which NVML counts too.
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if visible == CUDA else {}
    return {visible: gpus, **order}


def rank_environment(
    *,
    job: JobId,
    attempt: int,
    is_resumed: bool,
    rank: int,
    world: int,
    master: tuple[str, int],
    devices: Mapping[str, str],
    checkpoints: str,
) -> Mapping[str, str]:
    """Return what is promised to a rank, with what tells it its devices."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": master[0],
        "MASTER_PORT": str(master[1]),
        **devices,
        "SHUNTER_JOB": job,
        "SHUNTER_ATTEMPT": str(attempt),
        "SHUNTER_CHECKPOINT_DIR": checkpoints,
        **({"SHUNTER_RESUME": "1"} if is_resumed else {}),
    }
