"""Jobs that end near a threshold of attained service: a prediction of theirs may be far off.

A policy with thresholds serves a job later from the instant on at which its service reaches one. A
job that needs about as much is demoted, and waits for others, or it is not: what no prediction of
its work can tell. Other jobs are off as far as the work and the costs are.
"""

from collections.abc import Iterable

from shunter.config.loading import LoadedConfig
from shunter.config.simulation import CostsSection
from shunter.core.metrics import JobResult

NEAR_PERCENT = 10.0
"""What is nearer is named: completion times were predicted within 5 % (benchmarks/prediction.py),
and single jobs within twice that; ours."""

_NAMED_MOST = 5


def near_thresholds(loaded: LoadedConfig, results: Iterable[JobResult]) -> list[str]:
    """Return what to say of jobs that end near a threshold.

    It is said where starts and suspensions have costs: such a run stands for a real cluster.
    """
    params, name = loaded.chosen_params, loaded.config.policy.name
    bounds: tuple[int, ...] = getattr(params, "queues_gpu_s", ())
    if not bounds or loaded.config.simulation.costs == CostsSection():
        return []
    counts_gpus = getattr(params, "attained", "gpu_time") == "gpu_time"
    found: list[tuple[float, int, str]] = []
    for result in results:
        service_us = result.service_gpu_us if counts_gpus else result.held_us
        for bound_us in bounds:
            off = 100 * (service_us / bound_us - 1)
            if abs(off) <= NEAR_PERCENT:
                way = "below" if off < 0 else "above"
                what = f"{result.job_id}, {abs(off):.1f} % {way} {bound_us / 1e6:g}"
                found.append((abs(off), result.ordinal, what))
    if not found:
        return []
    nearest = [what for _, _, what in sorted(found)[:_NAMED_MOST]]
    if hidden := len(found) - len(nearest):
        nearest.append(f"and {hidden:,} more")
    unit = "GPU-seconds" if counts_gpus else "seconds"
    said = (
        f"{name}: these jobs end with about as many {unit} as a threshold of queues_gpu_s, so that "
        "with a little more or less work they wait for others or do not, and their prediction may "
        f"be far off: {'; '.join(nearest)}"
    )
    return [said]
