"""The generators by name, and the trace made of what they draw.

Load is offered GPU-seconds per second over the cluster's GPUs, so the mean gap between two
arrivals is mean GPU-seconds of a job / (load × GPUs). It holds in expectation: the GPU-seconds of
a Philly job scatter by ten times their mean, so 2,000 jobs offer load ± 20 %.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from hashlib import blake2b
from math import inf
from typing import Final, Literal, Protocol, get_args

from shunter.errors import ConfigError
from shunter.workloads.generators import philly_like, tiresias_like
from shunter.workloads.generators.arrivals import Rhythm, diurnal_arrivals_us, poisson_arrivals_us
from shunter.workloads.generators.draws import EndShares, stream
from shunter.workloads.quality import QualityReport
from shunter.workloads.trace import Trace, TraceJob

__all__ = ["Arrivals", "EndShares", "generate_trace", "generator_names"]

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
        """Yield so many jobs in order of their submission."""


KINDS: Final[dict[str, tuple[Callable[[], bytes], Callable[[bytes, int], Statistics]]]] = {
    "philly-like": (philly_like.table_bytes, philly_like.PhillyTable),
    "tiresias-like": (tiresias_like.table_bytes, tiresias_like.TiresiasTable),
}
"""By kind, its table's bytes, and the statistics of those for gangs of at most so many GPUs."""


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
    ends: EndShares | None = None,
) -> Trace:
    """Return a generated trace: equal arguments give equal jobs, on any machine.

    Args:
        kind: one of `generator_names()`.
        jobs: how many; a longer trace begins like a shorter one.
        load: offered GPU-seconds per second over `cluster_gpus`, in expectation; 1 is just full.
        cluster_gpus: GPUs of the cluster the load refers to.
        seed: any whole number.
        arrivals: constant rate, or a daily and weekly rhythm around it, where the kind has one
            (time zero is a Monday).
        gpus_max: the widest gang; None is the cluster.
        ends: shares of jobs that fail or are cancelled; None is none.
    Raises:
        ConfigError: an argument is out of range; one line for each.
    """
    shares = ends or EndShares()
    _check(kind, jobs, load, cluster_gpus, arrivals, gpus_max, shares)
    widest = cluster_gpus if gpus_max is None else min(gpus_max, cluster_gpus)
    table_bytes, statistics = KINDS[kind]
    content = table_bytes()
    table = statistics(content, widest)
    rhythm = table.rhythm() if arrivals == "diurnal" else None
    if rhythm is None and arrivals == "diurnal":
        raise ConfigError(f"arrivals = 'diurnal': {kind} has no rhythm; expected 'poisson'")
    gap_s_mean = table.gpu_s_mean() / (load * cluster_gpus)
    parameters = {
        "kind": kind,
        "version": VERSION,
        "jobs": jobs,
        "load": float(load),
        "cluster_gpus": cluster_gpus,
        "seed": seed,
        "arrivals": arrivals,
        "gpus_max": widest,
        "ends": asdict(shares),
    }
    instants_us = _instants_us(stream(seed, "arrival"), gap_s_mean, rhythm)
    return Trace(
        source=kind,
        format="generated",
        jobs=tuple(table.jobs(jobs, instants_us, seed, shares)),
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
    ends: EndShares,
) -> None:
    kinds = generator_names()
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
        )
        if not is_right
    ]
    if faults:
        raise ConfigError("\n".join(faults))


def _instants_us(
    draw: Callable[[], float], gap_s_mean: float, rhythm: Rhythm | None
) -> Iterator[int]:
    if rhythm is None:
        return poisson_arrivals_us(draw, gap_s_mean)
    return diurnal_arrivals_us(draw, gap_s_mean, rhythm.hour_weights, rhythm.weekend)


def _digest(parameters: dict[str, object], table: bytes) -> str:
    digest = blake2b(json.dumps(parameters, sort_keys=True).encode(), digest_size=32)
    digest.update(table)
    return digest.hexdigest()
