"""Global batches that any number of ranks share, each its part, in an order that no rank changes.

Which samples a step trains with depends on the seed, the epoch and the step, never on the ranks: a
run that goes on with another number of them trains with the samples that it would have had. Rank r
of W has the samples from r/W to (r+1)/W of each global batch, rounded down.

Where ranks are averaged, as DistributedDataParallel does, the mean of all is that of the global
batch if all parts are as large; else each rank multiplies its loss by `weight`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Shards", "check_loader"]


class Shards:
    """Lists of indices, one a step, as a DataLoader takes them as `batch_sampler`.

    An incomplete global batch at the end of an epoch is left out.
    """

    def __init__(
        self,
        size: int,
        batch_size: int,
        place: tuple[int, int],
        epoch: Callable[[], int],
        *,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        self._rank, self._world = place
        if batch_size < self._world:
            raise ValueError(
                f"batch_size = {batch_size}: expected {self._world} at least, one for each rank"
            )
        if size < batch_size:
            raise ValueError(f"batch_size = {batch_size}: expected {size} at most, all there are")
        self._size, self._batch_size = size, batch_size
        self._epoch = epoch
        self._seed, self._shuffle = seed, shuffle

    @property
    def weight(self) -> float:
        """What a rank multiplies its mean loss by; 1 where all parts are as large."""
        first, last = self._part()
        return (last - first) * self._world / self._batch_size

    def __len__(self) -> int:
        return self._size // self._batch_size

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(self._size))
        if self._shuffle:
            random.Random(f"{self._seed}/{self._epoch()}").shuffle(order)
        first, last = self._part()
        for at in range(0, len(self) * self._batch_size, self._batch_size):
            yield order[at + first : at + last]

    def _part(self) -> tuple[int, int]:
        """Return where this rank's part of a global batch begins and ends."""
        ranks = (self._rank, self._rank + 1)
        first, last = (rank * self._batch_size // self._world for rank in ranks)
        return first, last


def check_loader(source: object, name: str, saved: int, world: int) -> None:
    """Refuse a loader whose position is that of another number of ranks.

    Raises:
        TypeError: it deals out samples by rank.
    """
    deals = getattr(source, "batch_sampler", source)
    if not isinstance(deals, Shards):
        raise TypeError(
            f"{name}: its position is of a run of {saved} rank{'s' if saved > 1 else ''}, this one "
            f"has {world}: take `run.shards(...)`, alone or as the batch_sampler of a DataLoader"
        )
