"""In which order jobs are tried: the smallest key first, equals by arrival, then as they were.

Those of `ftf` are the simulator's, which serves the job first that is best off: the opposite of
finish-time fairness (section 5.3 of the description, points C3 to C7 and C15). Jobs that were left
without a lease for 1000 hours come first in all orders but `fifo`.
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal, get_args

from shunter_peers.synergy.jobs import PlayedJob

Order = Literal["fifo", "srtf", "las", "ftf", "drf", "tetris"]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)
Totals = tuple[int, float, float]
"""GPUs, cores and GB of the whole cluster."""

Key = Callable[[PlayedJob, float, Totals], float]


def ordered(
    jobs: Iterable[PlayedJob], order: Order, now_s: float, totals: Totals, *, is_fair: bool
) -> list[PlayedJob]:
    """Return jobs in the order in which they are tried.

    Args:
        jobs: all that can run, as the last round sorted them; then those that came since.
        order: which.
        now_s: the instant of the round.
        totals: what the cluster has.
        is_fair: whether remaining time is at the fair share, not at the speedup of each job.
    """
    if order == "fifo":
        return list(jobs)
    key = (_FAIR if is_fair else _KEYS)[order]
    keyed = [
        (not job.is_urgent, key(job, now_s, totals), job.arrival_s, number, job)
        for number, job in enumerate(jobs)
    ]
    keyed.sort()
    return [entry[-1] for entry in keyed]


def _left_s(job: PlayedJob) -> float:
    return job.iter_s * job.left


def _demand(job: PlayedJob, totals: Totals) -> tuple[float, float, float]:
    """Return which parts of the cluster the best demand of a job is."""
    gpus, cpus, memory_gb = totals
    return job.gpus / gpus, job.best[0] / cpus, job.best[1] / memory_gb


_KEYS: Final[dict[Order, Key]] = {
    "srtf": lambda job, now_s, totals: _left_s(job) / job.speedup,
    "las": lambda job, now_s, totals: job.attained_s * job.gpus,
    "ftf": lambda job, now_s, totals: (
        (now_s - job.arrival_s + _left_s(job) / job.speedup) / (job.iter_s * job.total)
    ),
    "drf": lambda job, now_s, totals: max(_demand(job, totals)),
    "tetris": lambda job, now_s, totals: _left_s(job) / job.speedup * sum(_demand(job, totals)),
}
_FAIR: Final[dict[Order, Key]] = {
    **_KEYS,
    "srtf": lambda job, now_s, totals: _left_s(job),
    "ftf": lambda job, now_s, totals: (
        (now_s - job.arrival_s + _left_s(job)) / (job.iter_s * job.total)
    ),
    "tetris": lambda job, now_s, totals: _left_s(job) * sum(_demand(job, totals)),
}
