"""Gangs that come together: a search of four gangs, of which one has its GPUs on one server.

Slides: 16 GPUs, a multi-job of four jobs with two GPUs each; a job of eight GPUs ends after three
minutes, and the three gangs whose GPUs lie on different servers are moved. How the cluster came to
be so is our assumption: jobs of one GPU that end in pairs, one on each of two servers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from shunter.core import Observers, View
from shunter.events import (
    Allocation,
    AllocationChanged,
    JobId,
    JobSpec,
    TrialKept,
    TrialReverted,
    TrialStarted,
)
from shunter.run import simulate
from shunter.workloads import TraceJob
from shunter_papers.gandiva.introspection.clusters import config, trace_of
from shunter_papers.gandiva.scenes import GPUS_PER_SERVER

GANGS: Final = tuple(JobId(f"gang{number}") for number in range(1, 5))
MODEL: Final = "resnet50"
BATCH_S: Final = 0.5
COST_S: Final = 10
"""What moving a PyTorch job of one GPU costs at most (8 to 10 s, from memory of the paper)."""

LARGE_S: Final = 180
_ARRIVALS: Final = (
    # name, submitted at (s), GPUs, runs for (s)
    ("pair", 0, 2, 50),
    *((f"one{number}", 0, 1, 60 + 10 * number) for number in range(3)),
    ("short", 0, 1, 10),
    *((f"other{number}", 0, 1, 60 + 10 * number) for number in range(3)),
    ("large", 20, 8, LARGE_S),
    (GANGS[0], 55, 2, 7200),
    (GANGS[1], 65, 2, 7200),
    (GANGS[2], 75, 2, 7200),
    (GANGS[3], 85, 2, 7200),
)


@dataclass(frozen=True)
class GangRow:
    """One gang of the search: where it was, where it came to, and what it gained."""

    job_id: str
    first: tuple[str, ...]
    last: tuple[str, ...]
    moved_s: float | None
    reason: str
    measured: float | None

    @property
    def is_together(self) -> bool:
        """Whether all its GPUs are on one server at last."""
        return len(self.last) == 1

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        return {
            "job_id": self.job_id,
            "first_on": list(self.first),
            "last_on": list(self.last),
            "moved_s": self.moved_s,
            "reason": self.reason,
            "gain": self.measured,
        }


class _Watch:
    """What became of the gangs."""

    def __init__(self) -> None:
        self.placed: dict[JobId, list[tuple[int, Allocation]]] = {}
        self.verdicts: dict[JobId, TrialKept | TrialReverted] = {}
        self.baseline: dict[JobId, float] = {}

    def allocated(self, event: AllocationChanged, view: View) -> None:
        """Note where a job was put."""
        if event.allocation.shares:
            self.placed.setdefault(event.job_id, []).append((event.at_us, event.allocation))

    def began(self, event: TrialStarted, view: View) -> None:
        """Note what a job had before."""
        self.baseline[event.job_id] = event.baseline

    def judged(self, event: TrialKept | TrialReverted, view: View) -> None:
        """Note how a move ended."""
        self.verdicts.setdefault(event.job_id, event)

    def row(self, job_id: JobId) -> GangRow:
        """Return what became of a gang."""
        (_, first), *_ = placed = self.placed[job_id]
        last_us, last = placed[-1]
        verdict = self.verdicts.get(job_id)
        return GangRow(
            job_id,
            tuple(share.node for share in first.shares),
            tuple(share.node for share in last.shares),
            last_us / 1e6 if len(placed) > 1 else None,
            "" if verdict is None else verdict.reason,
            None if verdict is None else verdict.measured / self.baseline[job_id],
        )


def compare() -> list[GangRow]:
    """Run the search, and return what became of each gang."""
    watch = _Watch()
    observers: Observers = {
        AllocationChanged: watch.allocated,
        TrialStarted: watch.began,
        TrialKept: watch.judged,
        TrialReverted: watch.judged,
    }
    loaded = config(
        {"count": 4, "gpus": GPUS_PER_SERVER},
        {"factors": "builtin:published"},
        {"migration": {"goals": ["colocate"], "cost": f"{COST_S}s"}},
        {"migrate": f"{COST_S}s"},
    )
    simulate(loaded, trace=trace_of("a search on 16 GPUs", list(_jobs())), listeners=[observers])
    return [watch.row(job_id) for job_id in GANGS]


def _jobs() -> Iterator[TraceJob]:
    """Yield the jobs; distance counts for the gangs only: the others end in time."""
    for name, at_s, gpus, lasts_s in _ARRIVALS:
        model = MODEL if name in GANGS else ""
        spec = JobSpec(gpus=gpus, model=model, total_steps=round(lasts_s / BATCH_S))
        yield TraceJob(JobId(name), at_s * 1_000_000, spec, lasts_s * 1_000_000)
