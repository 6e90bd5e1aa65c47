"""The comparison of placements where distance and neighbours cost speed, in simulation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, fsum, sqrt
from statistics import fmean, stdev
from typing import Final

from shunter.run import Report, run_all, simulate
from shunter_papers.topology.needless_waits import NeedlessWaits
from shunter_papers.topology.rows import Row
from shunter_papers.topology.scenes import CONTENDERS, LOADS, Contender, Scene

LARGE: Final = 4
"""A gang of so many GPUs or more is a large one."""

HOUR_US: Final = 3_600_000_000
STUDENT_95: Final = {2: 12.71, 3: 4.30, 20: 2.09}
"""Two-sided 95 % quantiles of Student's t, by the number of seeds."""


@dataclass(frozen=True)
class _Run:
    scene: Scene
    contender: Contender


@dataclass(frozen=True)
class _Played:
    slowdown: float
    jct_h: float
    wait_h: float
    large_jct_h: float | None
    large_wait_p95_h: float | None
    moves_per_h: float
    needless: int | None
    slow: int | None


def compare_placements(
    experiments: Sequence[str],
    jobs: int,
    seeds: range,
    *,
    loads: Sequence[float] | None = None,
    nvlink: Sequence[Sequence[int]] = (),
    workers: int = 1,
    report: Report | None = None,
) -> list[Row]:
    """Play all contenders of some experiments at each load, and return their means.

    Args:
        experiments: of EXPERIMENTS.
        jobs: of each run.
        seeds: as many as STUDENT_95 knows.
        loads: instead of those of LOADS.
        nvlink: groups of GPUs of each server that are joined.
        workers: how many processes.
        report: told how many runs are done.
    """
    groups = [
        (experiment, load, contender)
        for experiment in experiments
        for load in loads or LOADS[experiment]
        for contender in CONTENDERS[experiment]
    ]
    runs = [
        _Run(Scene(experiment, load, jobs, seed, nvlink), contender)
        for experiment, load, contender in groups
        for seed in seeds
    ]
    played = run_all(_play, runs, workers, report)
    count = len(seeds)
    by_group = {
        (experiment, load, contender.name): played[number * count : (number + 1) * count]
        for number, (experiment, load, contender) in enumerate(groups)
    }
    return [
        _row(group, found, by_group.get((*key[:2], group[2].against)))
        for group, (key, found) in zip(groups, by_group.items(), strict=True)
    ]


def _play(run: _Run) -> _Played:
    trace = run.scene.trace(run.contender.contract)
    waits = NeedlessWaits()
    has_curves = run.scene.experiment == "locality"
    listeners = [waits.observers()] if has_curves else []
    found = simulate(run.scene.config(run.contender), trace=trace, listeners=listeners)
    alone: Mapping[str, int] = {job.job_id: job.duration_us for job in trace.jobs}
    ended = [job for job in found.ledger.results() if job.jct_us is not None]
    large = [job for job in ended if job.gpus >= LARGE]
    return _Played(
        fmean(job.held_us / alone[job.job_id] for job in ended),
        fmean((job.jct_us or 0) / HOUR_US for job in ended),
        fmean((job.wait_us or 0) / HOUR_US for job in ended),
        fmean((job.jct_us or 0) / HOUR_US for job in large) if large else None,
        _p95([(job.wait_us or 0) / HOUR_US for job in large]),
        sum(job.migrations for job in ended) / (found.state.now_us / HOUR_US),
        len(waits.jobs) if has_curves else None,
        len(waits.slow) if has_curves else None,
    )


def _p95(values: Sequence[float]) -> float | None:
    return sorted(values)[ceil(0.95 * len(values)) - 1] if values else None


def _row(
    group: tuple[str, float, Contender],
    played: Sequence[_Played],
    against: Sequence[_Played] | None,
) -> Row:
    experiment, load, contender = group
    jct_h = [one.jct_h for one in played]
    saved_h = [
        other.large_wait_p95_h - one.large_wait_p95_h
        for one, other in zip(played, against or (), strict=against is not None)
        if one.large_wait_p95_h is not None and other.large_wait_p95_h is not None
    ]
    is_compared = len(saved_h) == len(played)
    return Row(
        experiment,
        load,
        contender.name,
        fmean(one.slowdown for one in played),
        fmean(jct_h),
        _half(jct_h),
        fmean(one.wait_h for one in played),
        _mean([one.large_jct_h for one in played]),
        _mean([one.large_wait_p95_h for one in played]),
        fmean(one.moves_per_h for one in played),
        fmean(saved_h) if is_compared else None,
        _half(saved_h) if is_compared else None,
        _mean([one.needless for one in played]),
        _mean([one.slow for one in played]),
    )


def _half(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of a mean over seeds."""
    return STUDENT_95[len(values)] * stdev(values) / sqrt(len(values))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
