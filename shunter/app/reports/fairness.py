"""How the users of a cluster fared beside each other."""

from collections.abc import Sequence
from math import fsum
from statistics import fmean
from typing import Any

from shunter.app.run_history.history import RunHistory
from shunter.core.metrics import JobResult, finish_time_fairness
from shunter.events.facts.jobs import Outcome


def users_of(run: RunHistory) -> dict[str, Any]:
    """Return each user's part of the service, the largest first.

    Means are over finished jobs. `slowdown` is completion time over time on GPUs, `rho` completion
    time over run time alone, where the log knows that.
    """
    by_user: dict[str, list[JobResult]] = {}
    for result in run.results:
        by_user.setdefault(result.user, []).append(result)
    service_us = sum(result.service_gpu_us for result in run.results)
    rows = [_user(name, results, service_us, run) for name, results in by_user.items()]
    rows.sort(key=lambda row: (-row["gpu_h"], row["user"]))
    known = [row["slowdown"] for row in rows if row["slowdown"] is not None]
    return {"rows": rows, "jain": jain_index(known)}


def slowdown(result: JobResult) -> float | None:
    """Return the completion time of a finished job over its time on GPUs."""
    if result.status != Outcome.finished or result.jct_us is None or result.held_us <= 0:
        return None
    return result.jct_us / result.held_us


def jain_index(values: Sequence[float]) -> float | None:
    """Return (sum x)² / (n · sum x²): 1 where all are equal, 1/n where one has all.

    Source: Jain, Chiu, Hawe, A Quantitative Measure of Fairness, DEC TR-301, 1984, equation 1.
    """
    squares = fsum(value * value for value in values)
    return fsum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def _user(
    name: str, results: Sequence[JobResult], service_us: int, run: RunHistory
) -> dict[str, Any]:
    finished = [result for result in results if result.status == Outcome.finished]
    own_us = sum(result.service_gpu_us for result in results)
    rho = (finish_time_fairness(result, run.alone_us[result.ordinal]) for result in finished)
    return {
        "user": name,
        "jobs": len(results),
        "finished": len(finished),
        "gpu_h": own_us / 3.6e9,
        "share": own_us / service_us if service_us else None,
        "jct_s": _mean(result.jct_us for result in finished),
        "wait_s": _mean(result.wait_us for result in finished),
        "slowdown": _mean((slowdown(result) for result in finished), 1.0),
        "rho": _mean(rho, 1.0),
        "preemptions": sum(result.preemptions for result in results),
    }


def _mean(values: Any, unit: float = 1e6) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) / unit if known else None
