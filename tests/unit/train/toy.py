"""A model in pure Python with what makes resuming hard: momentum, noise, a shuffled loader."""

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from shunter.train import channel
from shunter.train.channel import Requests
from shunter.train.checkpoints import Checkpoints
from shunter.train.run import Run
from shunter.train.state import Parts

ROOT = Path(__file__).parents[3]
BATCHES = 5


class Left(Exception):  # noqa: N818  no error: it stands for the end of the process
    """The run has left; in a real one, the process is gone."""


def leave() -> NoReturn:
    raise Left


class Model:
    def __init__(self) -> None:
        self.weights = [0.1, -0.2, 0.3]
        self.momentum = [0.0, 0.0, 0.0]

    def train(self, batch: list[float]) -> float:
        """Take one step with noise from the global source of chance; return the loss."""
        noise = random.gauss(0.0, 0.01)
        error = sum(w * x for w, x in zip(self.weights, batch, strict=True)) - sum(batch) + noise
        self.momentum = [0.9 * m + error * x for m, x in zip(self.momentum, batch, strict=True)]
        self.weights = [w - 0.01 * m for w, m in zip(self.weights, self.momentum, strict=True)]
        return error * error

    def state_dict(self) -> dict[str, list[float]]:
        return {"weights": self.weights, "momentum": self.momentum}

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        self.weights, self.momentum = list(state["weights"]), list(state["momentum"])


class Loader:
    """Batches in an order that the global source of chance decides at the start of a pass."""

    def __iter__(self) -> Iterator[list[float]]:
        order = list(range(BATCHES))
        random.shuffle(order)
        return iter([[float(n), n * 0.5, 1.0] for n in order])


class Supervisor:
    """The other end of the channel: it asks by a file and reads a FIFO."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.line, self.asks = folder / "channel", folder / "suspend"
        os.mkfifo(self.line)
        self._reader = os.open(self.line, os.O_RDWR | os.O_NONBLOCK)
        self._lines: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._reader)

    def ask(self) -> None:
        """Ask the job to save and leave; again, if it was asked before."""
        self.asks.unlink(missing_ok=True)
        self.asks.touch()

    def told(self, what: str) -> list[dict[str, Any]]:
        """Return all lines of a kind so far."""
        with suppress(BlockingIOError):
            said = os.read(self._reader, 1 << 16)
            self._lines += [json.loads(line) for line in said.splitlines()]
        return [line for line in self._lines if line["what"] == what]

    def environment(self, checkpoints: Path) -> dict[str, str]:
        """Return what a job finds in its environment."""
        return {
            channel.CHANNEL: str(self.line),
            channel.SUSPEND: str(self.asks),
            channel.CHECKPOINTS: str(checkpoints),
        }


def run_of(
    supervisor: Supervisor | None, checkpoints: Path | None, model: Model, attempt: int = 1
) -> Run:
    store = Checkpoints(checkpoints, attempt=attempt, rank=0, world=1) if checkpoints else None
    run = Run(
        store,
        parts=Parts({"model": model}),
        leave=leave,
        requests=Requests(str(supervisor.asks)) if supervisor else None,
        line=channel.Channel(str(supervisor.line)) if supervisor else None,
    )
    run.resume()
    return run


def trained(
    run: Run, model: Model, losses: list[float], before_step: Callable[[int], None], epochs: int = 4
) -> None:
    """Train, with an evaluation after each epoch; the losses go into the list."""
    for _ in run.epochs(epochs):
        for batch in run.batches(Loader()):
            losses.append(model.train(batch))
            before_step(len(losses))
            run.step()
        marks = []
        for batch in run.evaluate(Loader()):
            marks.append(sum(batch) * model.weights[0] + random.random())
            before_step(-len(marks))
        losses.append(sum(marks))
