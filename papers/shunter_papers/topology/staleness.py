"""E4: how often proposals collide, by how stale views are and how quickly jobs come and go.

Jobs of 1 to 8 GPUs arrive at random on 128 GPUs at a load of nine tenths, in the order of their
submission; the shorter they are, the more of them start a second. Beside it stands what one lock
would do: who may start waits until it has the lock, holds it for as long as it looks (as long as
its view is old in the other case), and then is sure of its place. What is found is no claim of the
text, which gives no numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean
from typing import Any, Final

from shunter.config import LoadedConfig, make_config
from shunter.core import ProposalNumbers, RandomStream, percentile
from shunter.events import JobId, JobSpec
from shunter.run import Report, run_all, simulate
from shunter.workloads import QualityReport, Trace, TraceJob

SERVERS: Final = 16
GPUS: Final = 8
LOAD: Final = 0.9
GANGS: Final = (1, 1, 1, 1, 1, 2, 2, 4, 4, 8)
DURATIONS_S: Final = (300, 60, 15)
STALENESS_S: Final = (0.0, 0.5, 2.0, 5.0)


@dataclass(frozen=True)
class _Scene:
    """Jobs that last so long in the mean, and views that are so old at most."""

    duration_s: int
    staleness_s: float
    jobs: int
    seed: int


@dataclass(frozen=True)
class StalenessRow:
    """What became of the proposals of one run.

    `starts_per_s` are admissions a second. `approval_s` is from admission to approval, mean and
    95th percentile; `lock_s` the same under one lock, None where it falls ever further behind.
    """

    starts_per_s: float
    staleness_s: float
    jobs: int
    proposed: int
    rejected: int
    conflict_rate: float
    approval_mean_s: float
    approval_p95_s: float
    lock_mean_s: float | None
    lock_p95_s: float | None
    wait_mean_s: float

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        return {
            "starts_per_s": self.starts_per_s,
            "staleness_s": self.staleness_s,
            "jobs": self.jobs,
            "proposed": self.proposed,
            "rejected": self.rejected,
            "retries": self.rejected / self.jobs,
            "conflict_rate": self.conflict_rate,
            "approval_s": {"mean": self.approval_mean_s, "p95": self.approval_p95_s},
            "lock_s": {"mean": self.lock_mean_s, "p95": self.lock_p95_s},
            "wait_s": {"mean": self.wait_mean_s},
        }


def compare(
    jobs: int, seed: int, *, workers: int, report: Report | None = None
) -> list[StalenessRow]:
    """Run all of it.

    Args:
        jobs: how many in each run.
        seed: by which they are drawn.
        workers: how many processes.
        report: told how many runs are done.
    """
    scenes = [
        _Scene(duration_s, staleness_s, jobs, seed)
        for duration_s in DURATIONS_S
        for staleness_s in STALENESS_S
    ]
    return run_all(_play, scenes, workers, report)


def verdicts(rows: Sequence[StalenessRow]) -> list[str]:
    """Say what staleness costs, and where one lock is worse."""
    said = []
    for rate in dict.fromkeys(row.starts_per_s for row in rows):
        of_rate = [row for row in rows if row.starts_per_s == rate]
        told = ", ".join(f"{row.conflict_rate:.1%} ({row.staleness_s:g} s)" for row in of_rate)
        said.append(f"At {rate:.2g} starts a second proposals collide by the age of views: {told}")
    behind = [row for row in rows if row.lock_mean_s is None]
    slower = [row for row in rows if row.lock_mean_s and row.lock_mean_s > row.approval_mean_s]
    compared = [row for row in rows if row.staleness_s]
    said.append(
        f"One lock, held while each looks, falls ever further behind in {len(behind)} of "
        f"{len(compared)} comparisons and is slower in {len(slower)} more; in the others, where "
        "few start at once, waiting for it costs less than colliding"
    )
    return said


def _play(scene: _Scene) -> StalenessRow:
    numbers = ProposalNumbers()
    result = simulate(_config(scene), trace=_trace(scene), listeners=(numbers.observers(),))
    told = result.document["proposals"]
    approval = told["approval_s"]
    admitted_us = numbers.admitted_us
    span_s = (admitted_us[-1] - admitted_us[0]) / 1e6
    locked_s = _under_a_lock(admitted_us, scene)
    return StalenessRow(
        starts_per_s=round(_starts_per_s(scene), 3),
        staleness_s=scene.staleness_s,
        jobs=scene.jobs,
        proposed=told["proposed"],
        rejected=told["rejected"],
        conflict_rate=told["conflict_rate"],
        approval_mean_s=approval["mean"] or 0.0,
        approval_p95_s=approval["p95"] or 0.0,
        lock_mean_s=None if locked_s is None or not span_s else fmean(locked_s),
        lock_p95_s=None if locked_s is None else percentile(sorted(locked_s), 95),
        wait_mean_s=result.document["wait_s"]["mean"] or 0.0,
    )


def _under_a_lock(admitted_us: Sequence[int], scene: _Scene) -> list[float] | None:
    """Return how long each waits for the lock; None: ever longer."""
    if _starts_per_s(scene) * scene.staleness_s / 2 >= 1:
        return None
    rng, staleness_us = RandomStream(scene.seed, "lock"), round(scene.staleness_s * 1e6)
    free_us, waits_s = 0, []
    for at_us in admitted_us:
        begins_us = max(at_us, free_us)
        waits_s.append((begins_us - at_us) / 1e6)
        free_us = begins_us + rng.below(staleness_us + 1)
    return waits_s


def _starts_per_s(scene: _Scene) -> float:
    """Return how many jobs arrive a second, at the load that all runs have."""
    gpus = fmean(GANGS)
    return LOAD * SERVERS * GPUS / (gpus * scene.duration_s)


def _trace(scene: _Scene) -> Trace:
    """Return jobs with exponential durations and gaps; equal for each staleness."""
    rng, rate, at_us = (
        RandomStream(scene.seed, "staleness", scene.duration_s),
        _starts_per_s(scene),
        0.0,
    )
    jobs = []
    for number in range(scene.jobs):
        at_us += _exponential(rng) / rate * 1e6
        lasts_us = round(_exponential(rng) * scene.duration_s * 1e6) + 1
        gpus = GANGS[rng.below(len(GANGS))]
        jobs.append(TraceJob(JobId(f"j{number}"), round(at_us), JobSpec(gpus=gpus), lasts_us))
    count = len(jobs)
    name = f"{count:,} jobs of {scene.duration_s} s"
    return Trace(name, "generated", jobs, "", QualityReport(count, count, count))


def _exponential(rng: RandomStream) -> float:
    return -log(1.0 - rng.random())


def _config(scene: _Scene) -> LoadedConfig:
    nodes: Mapping[str, Any] = {"name": "gpu", "count": SERVERS, "gpus": GPUS}
    return make_config(
        {
            "schema": 1,
            "seed": scene.seed,
            "cluster": {"nodes": [dict(nodes)]},
            "workload": {"generate": {"kind": "philly-like", "jobs": 1}},
            "policy": {
                "name": "fifo",
                "trigger": "event",
                "decentralised": {"staleness": f"{scene.staleness_s}s"},
            },
            "log": {"url": "none:"},
        },
        "reproduce topology",
    )
