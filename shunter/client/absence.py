"""How a daemon is waited for that does not answer: it may be starting anew."""

import time

from shunter.addresses import LATELY_S

PAUSE_S = 0.5
"""How long to wait before it is tried again."""


class Absence:
    """A daemon that does not answer, and is tried again for some seconds.

    They are `patience_s`, from the first `pause` on, and anew after each `end`.
    """

    def __init__(self, patience_s: float | None = None) -> None:
        self.patience_s = LATELY_S if patience_s is None else patience_s
        self._until_s: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it is being waited for."""
        return self._until_s is not None

    def end(self) -> None:
        """Note that it has answered."""
        self._until_s = None

    def left_s(self) -> float:
        """Return for how long it is waited for still; 0: no longer."""
        now_s = time.monotonic()
        if self._until_s is None:
            self._until_s = now_s + self.patience_s
        return max(0.0, self._until_s - now_s)

    def pause(self, most_s: float = PAUSE_S) -> bool:
        """Wait before it is tried again; say whether it is."""
        left_s = self.left_s()
        if left_s:
            time.sleep(min(PAUSE_S, left_s, most_s))
        return bool(left_s)
