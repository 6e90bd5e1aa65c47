"""How long the mini-batches of a run take, as it tells its supervisor once a second."""

from __future__ import annotations

import time

from shunter.train import channel


class StepRate:
    """How long mini-batches take: their mean since it was last told."""

    def __init__(self) -> None:
        self.is_over = False
        self._last: float | None = None
        self._spent_s = 0.0
        self._count = 0
        self._due = 0.0

    def passes(self, now: float) -> bool:
        """Count a mini-batch, and say whether it is time to tell."""
        if self._last is not None:
            self._spent_s += now - self._last
            self._count += 1
        self._last = now
        return now >= self._due

    def rest(self, now: float) -> None:
        """Leave out what was no mini-batch: an evaluation, a checkpoint."""
        self._last = now

    def skip(self) -> None:
        """Leave out the mini-batch that has just ended: others had their turns meanwhile."""
        self._last = None

    def taken(self) -> dict[str, float | None]:
        """Return the mean and the number of batches since the last time."""
        mean = round(self._spent_s / self._count, 9) if self._count else None
        said: dict[str, float | None] = {"batch_s": mean, "batches": self._count}
        self._spent_s, self._count = 0.0, 0
        self._due = time.monotonic() + channel.PROGRESS_EVERY_S
        return said
