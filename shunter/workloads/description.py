"""What a trace is like, in numbers: how much work, of which sizes, from whom, at what load."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shunter.workloads.trace import Trace

TOP: Final = 10
_US: Final = 1_000_000


@dataclass(frozen=True)
class SizeClass:
    """The jobs of one gang size: how many, their GPU-hours, both also as shares."""

    gpus: int
    jobs: int
    gpu_h: float
    jobs_share: float
    gpu_h_share: float


@dataclass(frozen=True)
class TraceDescription:
    """Statistics of a trace; percentiles interpolate linearly.

    `span_s` runs from the first to the last submission. `load` is offered GPU-seconds over that
    span and the cluster's GPUs; None without a cluster or with all jobs at one instant.
    `gpus_mean` is the load in whole GPUs. `wider` counts jobs with more GPUs than the cluster.
    `queues` and `users` are the busiest by GPU-hours: name, jobs, GPU-hours.
    """

    jobs: int
    span_s: float
    gpu_h: float
    duration_s: Mapping[str, float]
    gpus_mean: float | None
    load: float | None
    wider: int
    ends: Mapping[str, int]
    sizes: tuple[SizeClass, ...]
    queues: tuple[tuple[str, int, float], ...]
    users: tuple[tuple[str, int, float], ...]


def describe_trace(trace: Trace, cluster_gpus: int | None) -> TraceDescription:
    """Return the statistics of a trace, its load relative to so many GPUs."""
    jobs = trace.jobs
    durations = sorted(job.duration_us for job in jobs)
    work_us = sum(job.spec.gpus * job.duration_us for job in jobs)
    span_us = jobs[-1].submit_us - jobs[0].submit_us if jobs else 0
    gpus_mean = work_us / span_us if span_us else None
    return TraceDescription(
        jobs=len(jobs),
        span_s=span_us / _US,
        gpu_h=_hours(work_us),
        duration_s={
            "mean": sum(durations) / len(durations) / _US if durations else 0.0,
            **{f"p{p}": percentile(durations, p / 100) / _US for p in (50, 90, 99)},
            "max": durations[-1] / _US if durations else 0.0,
        },
        gpus_mean=gpus_mean,
        load=gpus_mean / cluster_gpus if gpus_mean is not None and cluster_gpus else None,
        wider=sum(job.spec.gpus > cluster_gpus for job in jobs) if cluster_gpus else 0,
        ends=dict(Counter(job.ends.value for job in jobs)),
        sizes=_sizes(trace, work_us),
        queues=_busiest((job.spec.queue, job.spec.gpus * job.duration_us) for job in jobs),
        users=_busiest(
            (job.spec.user, job.spec.gpus * job.duration_us) for job in jobs if job.spec.user
        ),
    )


def percentile(ordered: Sequence[int], fraction: float) -> float:
    """Return a quantile of ascending values, interpolated; 0 if there are none."""
    if not ordered:
        return 0.0
    place = fraction * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _sizes(trace: Trace, work_us: int) -> tuple[SizeClass, ...]:
    counts: Counter[int] = Counter()
    work: dict[int, int] = defaultdict(int)
    for job in trace.jobs:
        counts[job.spec.gpus] += 1
        work[job.spec.gpus] += job.spec.gpus * job.duration_us
    return tuple(
        SizeClass(
            gpus=gpus,
            jobs=counts[gpus],
            gpu_h=_hours(work[gpus]),
            jobs_share=counts[gpus] / len(trace.jobs),
            gpu_h_share=work[gpus] / work_us if work_us else 0.0,
        )
        for gpus in sorted(counts)
    )


def _busiest(work: Iterable[tuple[str, int]]) -> tuple[tuple[str, int, float], ...]:
    counts: Counter[str] = Counter()
    total_us: dict[str, int] = defaultdict(int)
    for name, work_us in work:
        counts[name] += 1
        total_us[name] += work_us
    names = sorted(counts, key=lambda name: (-total_us[name], -counts[name], name))
    return tuple((name, counts[name], _hours(total_us[name])) for name in names[:TOP])


def _hours(work_us: int) -> float:
    return work_us / _US / 3600
