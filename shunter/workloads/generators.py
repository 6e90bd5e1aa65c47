"""The generators by name, and the trace made of what they draw.

Load is offered GPU-seconds per second over the cluster's GPUs, so the mean gap between two
arrivals is mean GPU-seconds of a job / (load × GPUs). It holds in expectation: the GPU-seconds of
a Philly job scatter by ten times their mean, so 2,000 jobs offer load ± 20 %.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import chain
from math import inf
from typing import Final, Literal, Protocol, get_args

from shunter.core.speeds import ThroughputTable
from shunter.errors import ConfigError
from shunter.workloads.job_statistics import (
    SYNERGY_SPLIT,
    EndShares,
    GavelTable,
    PhillyTable,
    Rhythm,
    SynergyTable,
    TiresiasTable,
    diurnal_arrivals_us,
    gavel_arrival_draw,
    philly_table_bytes,
    poisson_arrivals_us,
    stream,
    synergy_content,
    tiresias_table_bytes,
)
from shunter.workloads.sensitivity import published_models
from shunter.workloads.throughputs import builtin_throughputs, compact_throughputs
from shunter.workloads.trace import NumberedJobs, QualityReport, Trace, TraceJob

Arrivals = Literal["poisson", "diurnal"]
ARRIVALS: Final[tuple[str, ...]] = get_args(Arrivals)
_LISTED: Final = ", ".join(ARRIVALS)
VERSION: Final = 1
"""Part of the digest; raised whenever equal parameters give another trace."""


class Statistics(Protocol):
    """What jobs of a kind are drawn from."""

    def gpu_s_mean(self) -> float:
        """Return the mean GPU-seconds of a job."""

    def rhythm(self) -> Rhythm | None:
        """Return the rhythm of submissions; None where it is not known."""

    def jobs(
        self, count: int, arrivals_us: Iterator[int], seed: int, ends: EndShares
    ) -> Iterator[TraceJob]:
        """Yield so many jobs in order of their submission.

        Args:
            count: number of jobs.
            arrivals_us: submissions in microseconds from time zero.
            seed: names the streams of random numbers, with what each is for.
            ends: how often jobs end badly.
        """


@dataclass(frozen=True)
class Choices:
    """What else can be chosen of generated jobs.

    Attributes:
        ends: shares of jobs that fail or are cancelled.
        jobs_per_hour: the rate of arrivals, instead of what the load makes it.
        weights: whether some jobs weigh more (gavel-like).
        deadlines: whether jobs have them (gavel-like).
        throughputs: where the steps of gavel-like jobs are from; None is the built-in table.
        split: weights of the classes image, language and speech (synergy-like); None is 20, 70, 10.
        short: whether jobs take half an hour to eight hours (synergy-like).
    """

    ends: EndShares = field(default_factory=EndShares)
    jobs_per_hour: float | None = None
    weights: bool = False
    deadlines: bool = False
    throughputs: ThroughputTable | None = None
    split: tuple[float, float, float] | None = None
    short: bool = False


Made = tuple[Statistics, bytes]
"""Statistics, and the bytes they were made from."""


def _philly(gpus_max: int, choices: Choices) -> Made:
    content = philly_table_bytes()
    return PhillyTable(content, gpus_max), content


def _tiresias(gpus_max: int, choices: Choices) -> Made:
    content = tiresias_table_bytes()
    return TiresiasTable(content, gpus_max), content


def _gavel(gpus_max: int, choices: Choices) -> Made:
    table = (choices.throughputs or builtin_throughputs().table).narrowed(())
    made = GavelTable(table, gpus_max, weights=choices.weights, deadlines=choices.deadlines)
    return made, json.dumps(compact_throughputs(table)["alone"]).encode()


def _synergy(gpus_max: int, choices: Choices) -> Made:
    models = published_models()
    split = choices.split or SYNERGY_SPLIT
    made = SynergyTable(models, gpus_max, split, are_short=choices.short)
    return made, synergy_content(models)


KINDS: Final[dict[str, Callable[[int, Choices], Made]]] = {
    "philly-like": _philly,
    "tiresias-like": _tiresias,
    "gavel-like": _gavel,
    "synergy-like": _synergy,
}
"""By kind, what makes its statistics for gangs of at most so many GPUs."""


def generator_names() -> tuple[str, ...]:
    """Return the kinds `generate_trace` knows."""
    return tuple(KINDS)


def generate_trace(
    kind: str,
    *,
    jobs: int,
    load: float,
    cluster_gpus: int,
    seed: int,
    arrivals: Arrivals = "poisson",
    gpus_max: int | None = None,
    choices: Choices | None = None,
) -> Trace:
    """Return a generated trace: equal arguments give equal jobs, on any machine.

    Args:
        kind: one of `generator_names()`.
        jobs: how many; a longer trace begins like a shorter one.
        load: offered GPU-seconds per second over `cluster_gpus`, in expectation; 1 is just full.
            It counts for nothing where `choices` have a rate.
        cluster_gpus: GPUs of the cluster the load refers to.
        seed: any whole number.
        arrivals: constant rate, or a daily and weekly rhythm around it, where the kind has one
            (time zero is a Monday).
        gpus_max: the widest gang; None is the cluster.
        choices: what else is chosen; None is nothing.
    Raises:
        ConfigError: an argument is out of range; one line for each.
    """
    chosen = choices or Choices()
    _check(kind, jobs, load, cluster_gpus, arrivals, gpus_max, chosen)
    widest = cluster_gpus if gpus_max is None else min(gpus_max, cluster_gpus)
    table, content = KINDS[kind](widest, chosen)
    rhythm = table.rhythm() if arrivals == "diurnal" else None
    if rhythm is None and arrivals == "diurnal":
        raise ConfigError(f"arrivals = 'diurnal': {kind} has no rhythm; expected 'poisson'")
    rate = chosen.jobs_per_hour
    gap_s_mean = 3600 / rate if rate else table.gpu_s_mean() / (load * cluster_gpus)
    parameters = {
        "kind": kind,
        "version": VERSION,
        "jobs": jobs,
        "load": float(load),
        "cluster_gpus": cluster_gpus,
        "seed": seed,
        "arrivals": arrivals,
        "gpus_max": widest,
        "ends": asdict(chosen.ends),
        **_later_choices(chosen),
    }
    instants_us = _instants_us(kind, seed, gap_s_mean, rhythm)
    return Trace(
        source=kind,
        format="generated",
        jobs=NumberedJobs(table.jobs(jobs, instants_us, seed, chosen.ends)),
        digest=_digest(parameters, content),
        report=QualityReport(rows_read=jobs, rows_kept=jobs, rows_selected=jobs),
    )


def _check(
    kind: str,
    jobs: int,
    load: float,
    cluster_gpus: int,
    arrivals: str,
    gpus_max: int | None,
    choices: Choices,
) -> None:
    kinds, ends, rate = generator_names(), choices.ends, choices.jobs_per_hour
    is_gavel, is_synergy, split = kind == "gavel-like", kind == "synergy-like", choices.split
    well_shared = min(ends.failed, ends.cancelled) >= 0 and ends.failed + ends.cancelled <= 1
    faults = [
        message
        for is_right, message in (
            (kind in kinds, f"kind = {kind!r}: expected one of {', '.join(kinds)}"),
            (jobs > 0, f"jobs = {jobs}: expected 1 or more"),
            (0 < load < inf, f"load = {load}: expected a number above 0, such as 1.2"),
            (cluster_gpus > 0, f"cluster_gpus = {cluster_gpus}: expected 1 or more"),
            (arrivals in ARRIVALS, f"arrivals = {arrivals!r}: expected one of {_LISTED}"),
            (gpus_max is None or gpus_max > 0, f"gpus_max = {gpus_max}: expected 1 or more"),
            (well_shared, f"ends = {ends}: expected shares from 0 to 1, together at most 1"),
            (
                rate is None or 0 < rate < inf,
                f"jobs_per_hour = {rate}: expected a number above 0, such as 2",
            ),
            (is_gavel or not choices.weights, f"weights: {kind} has none; expected gavel-like"),
            (is_gavel or not choices.deadlines, f"deadlines: {kind} has none; expected gavel-like"),
            (
                is_synergy or split is None,
                f"split: {kind} has no classes of models; expected synergy-like",
            ),
            (
                split is None or (min(split) >= 0 and 0 < sum(split) < inf),
                f"split = {split}: expected three weights from 0 on, one of them above 0",
            ),
            (is_synergy or not choices.short, f"short: {kind} has no such; expected synergy-like"),
        )
        if not is_right
    ]
    if faults:
        raise ConfigError("\n".join(faults))


def _later_choices(choices: Choices) -> dict[str, object]:
    """Return later choices that are made; digests of others stay as they were."""
    made = {
        "jobs_per_hour": choices.jobs_per_hour,
        "weights": choices.weights,
        "deadlines": choices.deadlines,
        "split": choices.split,
        "short": choices.short,
    }
    return {name: value for name, value in made.items() if value}


def _instants_us(kind: str, seed: int, gap_s_mean: float, rhythm: Rhythm | None) -> Iterator[int]:
    if kind == "gavel-like":
        return chain((0,), poisson_arrivals_us(gavel_arrival_draw(seed), gap_s_mean))
    draw = stream(seed, "arrival")
    if rhythm is None:
        instants_us = poisson_arrivals_us(draw, gap_s_mean)
        return chain((0,), instants_us) if kind == "synergy-like" else instants_us
    return diurnal_arrivals_us(draw, gap_s_mean, rhythm.hour_weights, rhythm.weekend)


def _digest(parameters: dict[str, object], table: bytes) -> str:
    digest = blake2b(json.dumps(parameters, sort_keys=True).encode(), digest_size=32)
    digest.update(table)
    return digest.hexdigest()
