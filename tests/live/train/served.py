"""Training jobs under a real scheduler, preempted once and suspended once, at steps they reached.

    python -m tests.live.train.served     as a job: trains, and waits at such a step to be suspended

A step that is reached is a file. Once all jobs have it, one that goes before them and needs all
GPUs preempts them, whatever else the machine does; at the next such step each is suspended by the
command and resumed. Every attempt begins with another seed, so that chance is the checkpoint's.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shunter.client import Client
from tests.live.api.serving import PATIENCE_S, Served, awaited, environment
from tests.live.train.attempts import PATHS
from tests.live.train.programs import ASKS

__all__ = ["GPUS", "STOPS", "Outcome", "Preempting", "Program", "outcomes"]

STOPS = (2, 9)
WAITS = "wait_to_be_suspended()"
GPUS = 12  # of the server: so many jobs train at a time
PROGRAM = "program.json"


@dataclass(frozen=True)
class Program:
    """What a job trains: its text, and its words."""

    text: str
    words: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of a job: its state, where and how its attempts ended, and what they printed."""

    state: str
    left: list[tuple[Any, ...]]
    steps: list[str]
    stderr: str


class Preempting(Served):
    """A daemon that preempts by priority, and leaves jobs the time that a busy machine takes."""

    def start(
        self, file_bytes_most: int | None = None, options: Sequence[str] = (), **variables: str
    ) -> None:
        settings = {
            "SHUNTER_POLICY__NAME": "las",
            "SHUNTER_BACKEND__LOCAL__COOPERATIVE": "10m",
            **variables,
        }
        super().start(file_bytes_most, options, **settings)


def outcomes(served: Served, programs: Mapping[str, Program]) -> dict[str, Outcome]:
    """Train, as many at a time as there are GPUs; return what came of each."""
    found: dict[str, Outcome] = {}
    waiting = list(programs)
    with served.client() as client:
        while waiting:
            wave, waiting = waiting[:GPUS], waiting[GPUS:]
            found |= _wave(served, client, {name: programs[name] for name in wave})
    return found


def _wave(served: Served, client: Client, programs: Mapping[str, Program]) -> dict[str, Outcome]:
    folders = {name: served.root / name.replace(" ", "-") for name in programs}
    jobs = {name: _submitted(client, folders[name], each) for name, each in programs.items()}

    def going(stop: int) -> list[str]:
        """Return who has reached a stop, once all have that do not end before."""
        left = [name for name in jobs if not client.handle(jobs[name]).done()]
        return [name for name in left if (folders[name] / f"reached-{stop}").exists()]

    def all_reached(stop: int) -> bool:
        return all(
            (folders[name] / f"reached-{stop}").exists() or client.handle(job).done()
            for name, job in jobs.items()
        )

    awaited(lambda: all_reached(1), served.process)
    if going(1):
        first = client.submit(["true"], gpus=GPUS, priority=1)
        assert first.result(PATIENCE_S) == 0
    awaited(lambda: all_reached(2), served.process)
    held = going(2)
    for name in held:
        ran = served.run("suspend", jobs[name])
        assert ran.returncode == 0, ran.stderr
    for name in held:
        awaited(lambda name=name: client.handle(jobs[name]).state() == "held", served.process)
        client.resume(jobs[name])
    for job in jobs.values():
        client.handle(job).wait(PATIENCE_S)
    return {name: _outcome(client, job) for name, job in jobs.items()}


def _submitted(client: Client, folder: Path, program: Program) -> str:
    folder.mkdir()
    text = program.text.replace(ASKS, WAITS)
    told = json.dumps({"text": text, "words": program.words})
    (folder / PROGRAM).write_text(told, encoding="utf-8")
    job = client.submit(
        [sys.executable, "-W", "ignore", "-m", "tests.live.train.served"],
        directory=str(folder),
        environment={**environment(PYTHONPATH=PATHS), **dict(program.variables)},
    )
    return job.id


def _outcome(client: Client, job: str) -> Outcome:
    document: dict[str, Any] = client.job(job)
    steps: list[str] = []
    stderr = b""
    for each in document["attempts"]:
        printed = b"".join(client.logs(job, attempt=each["attempt"])).decode()
        steps += [line for line in printed.splitlines() if line.startswith("step ")]
        stderr += b"".join(client.logs(job, attempt=each["attempt"], stream="stderr"))
    left = [
        (each["step"], each["ended_by"], *each["escalated_to"]) for each in document["attempts"]
    ]
    return Outcome(document["state"], left, steps, stderr.decode())


def main() -> None:
    """Train as a job does."""
    number = int(os.environ["SHUNTER_ATTEMPT"])
    told = json.loads(Path(PROGRAM).read_text(encoding="utf-8"))

    def wait_to_be_suspended() -> None:
        Path(f"reached-{number}").touch()
        while not Path(os.environ["SHUNTER_SUSPEND"]).exists():
            time.sleep(0.02)

    os.environ["SEED"] = str(number)
    os.environ["STOP_AT"] = str((*STOPS, 0)[number - 1])
    sys.argv = ["-c", *told["words"]]
    names = vars(sys.modules["__main__"])  # where pickle finds the classes of the program
    names["wait_to_be_suspended"] = wait_to_be_suspended
    exec(compile(told["text"], "<program>", "exec"), names)  # noqa: S102  a program of these tests


if __name__ == "__main__":
    main()
