"""The search of Gandiva's AutoML experiment: it watches its jobs and orders what follows.

It looks once in the time that an epoch takes a job alone on a GPU. What it may order is what a live
search orders through the client: another priority of a job, and its end. By the slides' words, time
slices for all, priorities by early feedback, and an end for those of which nothing is to be hoped:

- Nothing is decided before each configuration has been trained for `every` epochs.
- *Prediction*: a configuration ends with its last accuracy (last-value extrapolation), looked at
  each `every` epochs.
- *Priority*: the predicted best, one for each GPU, keep their turns; the others get the priority
  `BACKGROUND`, a small part of them (docs/decisions/trials.md).
- *End*: who is not among the best, and was below the median of all that were trained as long as he,
  ends (the median stopping rule of Golovin et al., KDD 2017).
- The search is over once an accuracy above the last threshold is seen.

An *oracle* predictor knows how each configuration ends before it begins, and ends all those at once
that would not pass the last threshold.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from shunter.core import CancelJob, ChangePriority, Command, View
from shunter.events import JobId
from shunter_papers.gandiva.automl.curves import Curve
from shunter_papers.gandiva.automl.figures import EPOCH_S, GPUS, THRESHOLDS

BACKGROUND: Final = -5
"""A thirty-second of the turns of one among the best."""

GOAL: Final = THRESHOLDS[-1]
USER: Final = "search"
EPOCH_US: Final = round(EPOCH_S * 1e6)


@dataclass(frozen=True)
class Rule:
    """How a search decides; it judges each `every` epochs of a configuration."""

    every: int = 10
    gives_priority: bool = True
    ends_hopeless: bool = True
    is_oracle: bool = False


@dataclass
class Search:
    """A driver that searches among configurations, each of which is a job.

    `epochs` is how long each has been trained, as of the last look.
    """

    curves: Mapping[JobId, Curve]
    rule: Rule
    epochs: dict[JobId, int] = field(default_factory=dict)
    ended: set[JobId] = field(default_factory=set)
    _next_us: int | None = EPOCH_US

    def wake_at(self) -> int | None:
        """Return when it looks next; None: the search is over."""
        return self._next_us

    def orders(self, now_us: int, view: View) -> list[Command]:
        """Look at how far the jobs are, and return what follows."""
        alive = [job_id for job_id in self.curves if job_id in view.jobs]
        for job_id, curve in self.curves.items():
            job = view.jobs.get(job_id)
            if job is not None:
                self.epochs[job_id] = min(curve.epochs, job.done_us(now_us) // EPOCH_US)
            elif job_id not in self.ended:
                self.epochs[job_id] = curve.epochs
        self._next_us = now_us + EPOCH_US if alive else None
        if any(self._accuracy(job_id, self.epochs[job_id]) > GOAL for job_id in self.curves):
            self._next_us = None
            return [self._end(job_id, now_us) for job_id in alive]
        if not self.rule.is_oracle and min(self.epochs.values()) < self.rule.every:
            return []
        return list(self._judged(alive, now_us, view))

    def _judged(self, alive: list[JobId], now_us: int, view: View) -> Iterator[Command]:
        """Yield what is ordered by the predictions of now."""
        ranked = sorted(alive, key=lambda job_id: (-self._predicted(job_id), job_id))
        best = frozenset(ranked[:GPUS])
        for job_id in alive:
            if self.rule.ends_hopeless and job_id not in best and self._is_hopeless(job_id):
                yield self._end(job_id, now_us)
            elif self.rule.gives_priority:
                priority = 0 if job_id in best else BACKGROUND
                if view.jobs[job_id].priority != priority:
                    yield ChangePriority(now_us, job_id, priority, USER)

    def _predicted(self, job_id: JobId) -> float:
        """Return the accuracy with which a configuration is thought to end."""
        if self.rule.is_oracle:
            return self.curves[job_id].final
        return self._accuracy(job_id, self._judged_at(job_id))

    def _is_hopeless(self, job_id: JobId) -> bool:
        if self.rule.is_oracle:
            return self.curves[job_id].final <= GOAL
        epochs = self._judged_at(job_id)
        others = [
            self._accuracy(other, epochs)
            for other, trained in self.epochs.items()
            if trained >= epochs
        ]
        return self._accuracy(job_id, epochs) < median(others)

    def _judged_at(self, job_id: JobId) -> int:
        """Return the epoch at which a configuration was evaluated last."""
        trained = self.epochs[job_id]
        return trained - trained % self.rule.every

    def _accuracy(self, job_id: JobId, epochs: int) -> float:
        return self.curves[job_id].accuracy(epochs)

    def _end(self, job_id: JobId, now_us: int) -> CancelJob:
        self.ended.add(job_id)
        return CancelJob(now_us, job_id, USER)
