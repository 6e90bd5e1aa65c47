"""The seconds of a mini-batch, from samples of an attempt that come about once a second.

A sample holds the step and the mean seconds of the mini-batches that the job told last. What lies
between two samples with different steps are so many mini-batches of the later one's mean.
"""


class BatchRate:
    """The mean over a span of time, which begins some time after the first sample.

    Attributes:
        is_new: whether the last sample told of mini-batches that none before it did.
    """

    def __init__(self, warm_up_s: float, time_s: float) -> None:
        self.is_new = False
        self._warm_up_s, self._time_s = warm_up_s, time_s
        self._first_s: float | None = None
        self._begun_s: float | None = None
        self._step: int | None = None
        self._at_s = 0.0
        self._batches, self._seconds = 0, 0.0

    @property
    def is_measured(self) -> bool:
        """Whether mini-batches were told for the whole span."""
        if self._begun_s is None or not self._batches:
            return False
        return self._at_s - self._begun_s >= self._time_s

    @property
    def batch_s(self) -> float:
        """Mean seconds of a mini-batch; only once `is_measured`."""
        return self._seconds / self._batches

    def take(self, at_s: float, step: int | None, batch_s: float | None) -> None:
        """Take a sample.

        Args:
            at_s: its instant, in seconds of any clock.
            step: mini-batches done so far; None: the job told none yet.
            batch_s: the mean seconds of the last ones; None as well.
        """
        self.is_new = step is not None and batch_s is not None and step != self._step
        if not self.is_new:
            return
        assert step is not None, "it is new"
        assert batch_s is not None, "it is new"
        if self._first_s is None:
            self._first_s = at_s
        if self._begun_s is not None and self._step is not None:
            self._batches += max(0, step - self._step)
            self._seconds += max(0, step - self._step) * batch_s
        elif at_s - self._first_s >= self._warm_up_s:
            self._begun_s = at_s
        self._step, self._at_s = step, at_s
