"""What a suspend costs beyond writing the state: seconds of wall time, the best of several runs.

    python -m benchmarks.sdk_save [--megabytes 1000] [--best-of 3]

A state of 32 tensors is written by `torch.save` alone and synced to disk, then by a run that is
asked to leave: it captures, writes, proves, syncs, and would exit. The two take turns, each into
files of their own, on the disk of the temporary folder. `prove_ratio` is what proving that state
takes, and `check_ratio` what the checksums of a file take that a trainer has written, of the time
in which torch writes it. Without torch it is bytes, and pickle writes them. Prints JSON.
"""

import argparse
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from shunter.train import archives, channel, serialization, start

BUDGET_SUSPEND_RATIO = 1.3
BUDGET_PROVE_RATIO = 0.3
TENSORS = 32


class Left(Exception):  # noqa: N818  no error: it stands for the end of the process
    """The run has left."""


def leave() -> NoReturn:
    """Be the end of the process."""
    raise Left


class Part:
    """Gives a state that was made before."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def state_dict(self) -> dict[str, Any]:
        return self.values

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values = state


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def state_of(megabytes: int) -> dict[str, Any]:
    """Return a state of so many bytes, of tensors if torch is there."""
    size = megabytes * 1_000_000 // TENSORS
    if find_spec("torch") is None:
        return {f"part {number}": os.urandom(size) for number in range(TENSORS)}
    import torch

    return {f"part {number}": torch.rand(size // 4) for number in range(TENSORS)}


def put(state: dict[str, Any], path: Path) -> None:
    """Write a state as a script would that nobody suspends."""
    torch = sys.modules.get("torch")
    if torch is None:
        path.write_bytes(pickle.dumps(state))
    else:
        torch.save(state, path)


def sync(path: Path) -> None:
    """Make a file durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def suspend(state: dict[str, Any], folder: Path) -> float:
    """Return how long a run takes from the request until it would exit."""
    os.mkfifo(folder / "channel")
    reader = os.open(folder / "channel", os.O_RDWR)
    named = {channel.CHANNEL: "channel", channel.SUSPEND: "suspend", channel.CHECKPOINTS: "saved"}
    os.environ.update({name: str(folder / file) for name, file in named.items()})
    try:
        run = start(part=Part(state), leave=leave)
        (folder / "suspend").touch()
        begun = time.perf_counter()
        try:
            run.step()
        except Left:
            return time.perf_counter() - begun
        raise SystemExit("the run did not leave: is the disk full?")
    finally:
        os.close(reader)
        for name in named:
            del os.environ[name]


def measure(megabytes: int, runs: int) -> dict[str, object]:
    """Measure all, and return the document."""
    state = state_of(megabytes)
    times: dict[str, list[float]] = {}

    def took(what: str, taken_s: float) -> None:
        times.setdefault(what, []).append(taken_s)

    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "alone"
            written_s = seconds(lambda: put(state, path))  # noqa: B023  is called at once
            took("write_s", written_s)
            took("alone_s", written_s + seconds(lambda: sync(path)))  # noqa: B023  likewise
            if "torch" in sys.modules:
                took("check_s", seconds(lambda: archives.is_sound(path)))  # noqa: B023  likewise
            path.unlink()
            took("prove_s", seconds(serialization.put(path, state)))
            path.unlink()
            took("suspend_s", suspend(state, Path(name)))
    best = {name: min(taken) for name, taken in times.items()}
    return {
        "benchmark": "sdk_save",
        "megabytes": megabytes,
        "writer": "torch" if "torch" in sys.modules else "pickle",
        **{name: round(taken, 3) for name, taken in best.items()},
        "suspend_ratio": round(best["suspend_s"] / best["alone_s"], 3),
        "prove_ratio": round(best["prove_s"] / best["write_s"], 3),
        "check_ratio": round(best.get("check_s", 0.0) / best["write_s"], 3),
        "budget_suspend_ratio": BUDGET_SUSPEND_RATIO,
        "budget_prove_ratio": BUDGET_PROVE_RATIO,
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--best-of", type=int, default=3)
    options = parser.parse_args()
    print(json.dumps(measure(options.megabytes, options.best_of)))


if __name__ == "__main__":
    main()
