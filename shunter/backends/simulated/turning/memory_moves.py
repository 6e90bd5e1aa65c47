"""GPU memory that is copied out and in when GPUs change hands, and how long that takes.

Whose turn is over leaves what it held at that instant, and brings it back with its next turn: the
least at a mini-batch boundary, up to 77 times as much within one (Gandiva, OSDI 2018, slides). The
GPUs of a server copy at the same time, each one direction after the other; the slowest says how
long. Jobs of models without a memory cycle have nothing to copy.
"""

from collections.abc import Mapping
from typing import TypeVar

from shunter.backends.simulated.costs import transfer_us
from shunter.core.performance.model_factors import FactorTable

Name = TypeVar("Name", bound=str)


class MemoryMoves:
    """What jobs without a turn have in the memory of their server, by job."""

    __slots__ = ("_copy_mb_s", "_factors", "_out_mb")

    def __init__(self, factors: FactorTable, copy_mb_s: float) -> None:
        self._factors = factors
        self._copy_mb_s = copy_mb_s
        self._out_mb: dict[str, int] = {}

    def leaves(self, name: str, model: str, since_us: int, batch_us: int | None) -> None:
        """Copy out what a job holds.

        Args:
            name: the job.
            model: its model.
            since_us: how long it has worked since it was at a mini-batch boundary.
            batch_us: how long a mini-batch of it takes, if that is known.
        """
        factors = self._factors.of(model)
        if factors is not None and factors.memory_cycle is not None:
            self._out_mb[name] = factors.memory_cycle.at_mb(since_us, batch_us)

    def forget(self, name: str) -> None:
        """Forget a job that takes no more turns."""
        self._out_mb.pop(name, None)

    def change_us(self, leaving: Mapping[Name, int], coming: Mapping[Name, int]) -> int:
        """Return how long it takes until those that come have their memory back.

        Args:
            leaving: masks of GPUs by job that `leaves` was told of.
            coming: masks of GPUs by job.
        """
        moved = [
            (mask, self._out_mb.get(name, 0))
            for masks in (leaving, coming)
            for name, mask in masks.items()
        ]
        gpus = max((mask.bit_length() for mask, _ in moved), default=0)
        on_gpu_mb = (sum(mb for mask, mb in moved if mask >> gpu & 1) for gpu in range(gpus))
        return transfer_us(max(on_gpu_mb, default=0), self._copy_mb_s)
