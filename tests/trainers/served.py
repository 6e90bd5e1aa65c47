"""Training libraries under a real scheduler: preempted, suspended, and the scheduler killed.

Each trains as a job of a daemon with `las`. Once all have come to a mini-batch, the daemon is
killed with -9 and started again; then a job goes before them that needs all GPUs. In the next
attempt they are suspended by the command, and resumed. What they trained with has to have the bits
of a run that nobody stopped.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shunter.train.check import verdicts
from tests.live.api.serving import PATIENCE_S, Served, awaited, environment
from tests.live.train.served import Preempting
from tests.trainers.catalogue import Trainer

__all__ = ["OFFLINE", "differences"]

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "WANDB_MODE": "disabled",
}
RECORDED = Path(__file__).with_name("recorded.py")


def differences(trained: Sequence[tuple[Trainer, Path]], folder: Path) -> dict[str, str]:
    """Train with each library, by its Python; return by name in what it differs, else nothing.

    Raises:
        AssertionError: a job did not come to where it is to be suspended, or did not finish.
    """
    alone = {
        each.name: _alone(each, python, folder / "alone" / each.name) for each, python in trained
    }
    with Preempting(_made(folder / "site"), gpus=len(trained)) as served:
        found = _served(served, trained, alone)
    return {name: _difference(alone[name], records) for name, records in found.items()}


def _alone(trainer: Trainer, python: Path, folder: Path) -> list[dict[str, Any]]:
    subprocess.run(
        _words(trainer, python, _made(folder), ""),
        cwd=_made(folder / "work"),
        env={**_bare(), **OFFLINE, **trainer.variables},
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return _records(folder)


def _served(
    served: Served,
    trained: Sequence[tuple[Trainer, Path]],
    alone: Mapping[str, Sequence[object]],
) -> dict[str, list[dict[str, Any]]]:
    folders = {each.name: _made(served.root / each.name) for each, _ in trained}
    jobs = {}
    with served.client() as client:
        for each, python in trained:
            folder = folders[each.name]
            third = str(max(1, len(alone[each.name]) // 3))
            job = client.submit(
                _words(each, python, folder, f"{third},{third}"),
                directory=str(_made(folder / "work")),
                environment={**_bare(), **OFFLINE, **each.variables},
            )
            jobs[each.name] = job.id
        _await_all(served, folders, "reached-1")
    served.end(9)
    served.start()
    with served.client() as client:
        assert client.submit(["true"], gpus=len(trained), priority=1).result(PATIENCE_S) == 0
        _await_all(served, folders, "reached-2")
        for job_id in jobs.values():
            ran = served.run("suspend", job_id)
            assert ran.returncode == 0, ran.stderr
        for job_id in jobs.values():
            handle = client.handle(job_id)
            awaited(lambda handle=handle: handle.state() == "held", served.process)
            client.resume(job_id)
        for name, job_id in jobs.items():
            assert client.handle(job_id).result(PATIENCE_S) == 0, name
            attempts = client.job(job_id)["attempts"]
            assert len(attempts) == 3, f"{name}: {attempts}"
    return {name: _records(folder) for name, folder in folders.items()}


def _await_all(served: Served, folders: Mapping[str, Path], name: str) -> None:
    for folder in folders.values():
        awaited(lambda folder=folder: (folder / name).exists(), served.process)


def _words(trainer: Trainer, python: Path, folder: Path, holds: str) -> list[str]:
    words = [str(python), "-W", "ignore", str(RECORDED), str(folder), holds]
    return [*words, str(trainer.path), *trainer.words]


def _difference(alone: list[dict[str, Any]], records: list[dict[str, Any]]) -> str:
    at = verdicts.first_difference(records, alone)
    if at is None:
        return ""
    if at >= min(len(alone), len(records)):
        return f"{len(records)} mini-batches, not {len(alone)}"
    names = verdicts.differing(records[at]["seen"], alone[at]["seen"])
    return f"mini-batch {at + 1}: {', '.join(names) or 'its epoch'}"


def _records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "records").read_text(encoding="utf-8").splitlines()
    return [each for each in map(json.loads, lines) if each["what"] == "saw"]


def _bare() -> dict[str, str]:
    return {name: value for name, value in environment().items() if name != "PYTHONPATH"}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
