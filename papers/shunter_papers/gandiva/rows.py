"""The rows of Gandiva's comparison: what each policy was found to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shunter.core import Distribution
from shunter_papers.gandiva.scenes import BASELINE, Feedback, Phase


@dataclass(frozen=True)
class FeedbackRow:
    """How soon jobs had their first mini-batches under a policy at a load.

    `first_batches_s` is from submission to the last of the first 100 mini-batches, of jobs that
    have so many. `earlier` is how many times as long the mean takes under the baseline. `run` is a
    part of the run's document.
    """

    scene: Feedback
    policy: str
    measured: int
    load_offered: float
    first_batches_s: Distribution
    earlier: float | None
    run: Mapping[str, Any]

    @property
    def is_baseline(self) -> bool:
        """Whether it is compared with itself."""
        return self.policy == BASELINE

    @property
    def jct_mean_h(self) -> float | None:
        """The mean completion time in hours."""
        return _hours(self.run["jct_s"]["mean"])

    @property
    def wait_max_h(self) -> float | None:
        """The longest time in hours in which a job had neither GPUs nor turns."""
        return _hours(self.run["wait_s"]["max"])

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        first = self.first_batches_s
        return {
            "policy": self.policy,
            "load": self.scene.load,
            "load_offered": self.load_offered,
            "measured": self.measured,
            "first_batches_s": {"mean": first.mean, "p95": first.p95, "max": first.max},
            "earlier": self.earlier,
            **self.run,
        }


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 3600


@dataclass(frozen=True)
class SuspensionRow:
    """What changes of hands leave idle of four GPUs that six jobs share."""

    turn_ends: str
    idle: float

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        return {"turn_ends": self.turn_ends, "idle_gpus": self.idle}


@dataclass(frozen=True)
class ShareRow:
    """What the jobs of one phase had: the part of a GPU of each, and all together."""

    phase: Phase
    shares: Mapping[str, float]

    @property
    def spread(self) -> float:
        """The largest share less the least."""
        return max(self.shares.values()) - min(self.shares.values())

    @property
    def together(self) -> float:
        """The GPUs at work, of four: the rate of mini-batches over that of one job alone."""
        return sum(self.shares.values())

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        return {
            "from_min": self.phase.begin_min,
            "to_min": self.phase.end_min,
            "expected": self.phase.expected,
            "shares": dict(self.shares),
            "spread": self.spread,
            "together": self.together,
        }
