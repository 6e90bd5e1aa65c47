"""The comparison of Gavel (Narayanan et al., OSDI 2020): what knowing GPU types is worth.

36 V100, 36 P100 and 36 K80 on servers of 4. First, jobs of one GPU arrive all the time at several
rates, and each policy runs as its agnostic form, which takes all GPU types for equal, and as its
aware form; then with space sharing. Averages are over the jobs in the middle: those before find an
empty cluster, those after leave one. Second, gangs that are all there from the beginning, for the
makespan. Third, how long the shares take to compute.

These are our corrected policies, in continuous time, with free preemption as in the paper's
simulator. The public simulator itself, faults included, is played by examples/peers/gavel/.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final

from shunter.app.config.loading import LoadedConfig, make_config
from shunter.app.reproductions.gavel_figures import (
    AVERAGES_H,
    CLAIMED_RATIO,
    CLAIMED_SOLVE_S,
    MAKESPANS_H,
    SOLVE_S,
)
from shunter.app.reproductions.gavel_solving import Solved, solve_times
from shunter.app.runs.parallel import Report, run_all
from shunter.app.runs.simulation import simulate
from shunter.app.runs.summary import SCHEMA
from shunter.policies.gavel.objectives import MaxMinFairness

__all__ = ["RATES", "STATIC_JOBS", "Contender", "Found", "Reproduction", "reproduce", "verdicts"]

RATES: Final = (2.0, 4.0, 5.2)
"""Jobs an hour; from about 5.5 on the agnostic policies fall behind."""

STATIC_JOBS: Final = (100, 300)
JOBS: Final = 300
AT_ONCE: Final = 3_600_000.0
"""Jobs an hour that are as good as all at once: a thousand a second."""

LEGEND: Final = (
    "×: the agnostic form's time over the row's, above 1 is sooner; all numbers are simulated",
    "published: stored in the public notebooks, for jobs 4,000 to 5,000 of a longer trace",
    "aware: by throughputs on each GPU type; otherwise all types count the same",
    "shared: two jobs may share GPUs",
)


@dataclass(frozen=True)
class Contender:
    """A policy under its label, and the label of what it is compared with."""

    label: str
    against: str
    params: dict[str, Any] = field(default_factory=dict)


CONTINUOUS: Final = (
    Contender("FIFO", "FIFO", {"objective": "fifo", "aware": False}),
    Contender("FIFO, aware", "FIFO", {"objective": "fifo"}),
    Contender("LAS", "LAS", {"objective": "max_min_fairness", "aware": False}),
    Contender("LAS, aware", "LAS", {"objective": "max_min_fairness"}),
    Contender(
        "LAS, aware, shared", "LAS", {"objective": "max_min_fairness", "space_sharing": True}
    ),
    Contender("FTF", "FTF", {"objective": "finish_time_fairness", "aware": False}),
    Contender("FTF, aware", "FTF", {"objective": "finish_time_fairness"}),
    Contender("AlloX", "FIFO", {"objective": "allox"}),
)
STATIC: Final = (
    Contender("FIFO", "FIFO", {"objective": "fifo", "aware": False}),
    Contender("makespan", "makespan", {"objective": "makespan", "aware": False}),
    Contender("makespan, aware", "makespan", {"objective": "makespan"}),
    Contender(
        "makespan, aware, shared", "makespan", {"objective": "makespan", "space_sharing": True}
    ),
)


@dataclass(frozen=True)
class Found:
    """What one contender did: at a rate of arrivals, or with so many jobs at once.

    `hours` is the average completion time, or the makespan; `times` how often it is that of the
    agnostic form; `published` the figure of the public notebooks, if there is one.
    """

    label: str
    against: str
    at: float
    hours: float
    times: float | None
    published: float | None
    document: dict[str, Any]


@dataclass(frozen=True)
class Reproduction:
    """Everything that was found."""

    document: dict[str, Any]
    averages: tuple[Found, ...]
    makespans: tuple[Found, ...]
    solves: tuple[Solved, ...]


@dataclass(frozen=True)
class _Run:
    contender: Contender
    at: float
    config: LoadedConfig
    measured: tuple[int, int] | None


def reproduce(
    seed: int = 0,
    jobs: int | None = None,
    rates: Sequence[float] = RATES,
    *,
    workers: int = 1,
    report: Report | None = None,
) -> Reproduction:
    """Run the comparison.

    Args:
        seed: names the generated jobs.
        jobs: how many arrive at each rate; None: `JOBS`.
        rates: jobs an hour.
        workers: how many processes.
        report: told how many runs are done.
    """
    count = jobs or JOBS
    measured = count // 3, max(count // 3 + 1, 5 * count // 6)
    runs = _runs(seed, count, rates, measured)
    documents = run_all(_play, runs, workers, report)
    found = [
        _found(run, document, runs, documents)
        for run, document in zip(runs, documents, strict=True)
    ]
    averages = tuple(
        each for each, run in zip(found, runs, strict=True) if run.measured is not None
    )
    makespans = tuple(each for each, run in zip(found, runs, strict=True) if run.measured is None)
    solves = tuple(_solved(runs[0].config))
    document = {
        "schema": SCHEMA,
        "evidence": "simulated",
        "paper": "gavel",
        "seed": seed,
        "jobs": count,
        "measured": list(measured),
        "claim": {"ratio": CLAIMED_RATIO, "solve_s": CLAIMED_SOLVE_S, "source": "OSDI 2020"},
        "notes": list(LEGEND),
        "continuous": [_row(each, "jobs_per_hour") for each in averages],
        "static": [_row(each, "jobs") for each in makespans],
        "solving": [
            {
                "label": each.label,
                "jobs": each.jobs,
                "wall_s": each.wall_s,
                "public_code_s": SOLVE_S[each.label].get(each.jobs),
            }
            for each in solves
        ],
        "sentences": verdicts(averages, makespans, solves),
    }
    return Reproduction(document, averages, makespans, solves)


def _runs(seed: int, count: int, rates: Sequence[float], measured: tuple[int, int]) -> list[_Run]:
    continuous = [
        _Run(each, rate, _config(seed, each, count, rate, 1), measured)
        for rate in rates
        for each in CONTINUOUS
    ]
    static = [
        _Run(each, size, _config(seed, each, size, AT_ONCE, None), None)
        for size in dict.fromkeys(min(size, count) for size in STATIC_JOBS)
        for each in STATIC
    ]
    return [*continuous, *static]


def verdicts(
    averages: Sequence[Found], makespans: Sequence[Found], solves: Sequence[Solved]
) -> list[str]:
    """Say where the claims are reached and where they are not."""
    said = []
    aware = [each for each in averages if each.label != each.against and each.times]
    if aware:
        best = max(aware, key=lambda each: each.times or 0.0)
        reached = "reached" if (best.times or 0.0) >= CLAIMED_RATIO else "not reached"
        said.append(
            f"Up to {CLAIMED_RATIO:g}× lower average JCT (OSDI 2020): {reached} here; the best is "
            f"{best.label} at {best.at:g} jobs an hour with {best.times:.2f}×"
        )
        worse = [each for each in aware if (each.times or 0.0) < 1.0]
        if worse:
            names = "; ".join(f"{each.label} at {each.at:g} ({each.times:.2f}×)" for each in worse)
            said.append(f"Worse than the agnostic form: {names}")
    published = [each for each in averages if each.published]
    if published:
        off = [each.hours / (each.published or 1.0) - 1.0 for each in published]
        said.append(
            f"Averages are {min(off):+.0%} to {max(off):+.0%} of the published ones, which are of "
            "later jobs of a longer trace and of the public simulator's rounds"
        )
    gains = [each for each in makespans if each.label != each.against and each.times]
    if gains:
        best = max(gains, key=lambda each: each.times or 0.0)
        said.append(
            f"The makespan of {best.at:g} jobs is {best.times:.2f}× shorter with {best.label}"
        )
    most = max((each.jobs for each in solves), default=0)
    said.extend(
        f"{each.label}: shares for {each.jobs:,} jobs took {each.wall_s * 1000:.0f} ms; the claim "
        f"is {CLAIMED_SOLVE_S:g} s"
        for each in solves
        if each.jobs == most
    )
    return said


def _config(
    seed: int, contender: Contender, jobs: int, rate: float, gpus_max: int | None
) -> LoadedConfig:
    made = {"kind": "gavel-like", "jobs": jobs, "jobs_per_hour": rate}
    tree = {
        "schema": 1,
        "seed": seed,
        "cluster": {
            "nodes": [
                {"name": name, "count": 9, "gpus": 4, "type": name}
                for name in ("v100", "p100", "k80")
            ]
        },
        "workload": {
            "throughputs": "builtin:gavel",
            "base_type": "v100",
            "generate": made if gpus_max is None else {**made, "gpus_max": gpus_max},
        },
        "policy": {"name": "gavel", "round": "6m", "params": {"gavel": contender.params}},
        "log": {"url": "none:"},
    }
    return make_config(tree, "reproduce gavel")


def _play(run: _Run) -> dict[str, Any]:
    result = simulate(run.config)
    spans = [
        story.jct_us / 3_600e6
        for story in result.stories()
        if story.jct_us is not None
        if run.measured is None or run.measured[0] <= story.ordinal < run.measured[1]
    ]
    hours = fmean(spans) if spans else 0.0
    kept = ("jobs", "jct_s", "makespan_s", "gpu_utilisation", "preemptions", "migrations", "log")
    return {
        "hours": hours if run.measured is not None else result.document["makespan_s"] / 3600,
        **{name: result.document[name] for name in kept},
    }


def _found(
    run: _Run, document: dict[str, Any], runs: Sequence[_Run], documents: Sequence[dict[str, Any]]
) -> Found:
    hours = document["hours"]
    against = next(
        other["hours"]
        for one, other in zip(runs, documents, strict=True)
        if (one.contender.label, one.at, one.measured)
        == (run.contender.against, run.at, run.measured)
    )
    label = run.contender.label
    figures: dict[Any, float] = (
        AVERAGES_H.get(label, {}) if run.measured is not None else MAKESPANS_H.get(label, {})
    )
    times = against / hours if hours else None
    return Found(label, run.contender.against, run.at, hours, times, figures.get(run.at), document)


def _row(found: Found, at: str) -> dict[str, Any]:
    return {
        "label": found.label,
        "against": found.against,
        at: found.at,
        **found.document,
        "ratio": found.times,
        "published_hours": found.published,
    }


def _solved(config: LoadedConfig) -> list[Solved]:
    assert config.throughputs is not None, "the config names a table"
    return solve_times(config.throughputs, MaxMinFairness(packed=True))
