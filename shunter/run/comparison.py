"""Several policies on the same jobs, paired by seed, and the demonstration of three of them.

Each run has a process of its own. Run i of every policy has the same seed, so the same generated
jobs and failures. Intervals are Student's t at 95 % over the seeds, of the means and of the paired
differences to the first policy.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import NotRequired, TypedDict

from shunter.config import LoadedConfig, make_config
from shunter.events.log import NullStore
from shunter.run.parallel import Report, run_all
from shunter.run.setup import load_jobs, refuse_no_jobs
from shunter.run.simulation import simulate
from shunter.run.summary import SCHEMA, RunDocument

MEASURES = (
    "jct_s.mean",
    "jct_s.p50",
    "jct_s.p95",
    "jct_s.p99",
    "wait_s.mean",
    "wait_s.p99",
    "makespan_s",
    "gpu_utilisation",
    "preemptions",
    "migrations",
)

# The 97.5 % quantile of Student's t by degrees of freedom, from 1; the normal one beyond.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_T_NORMAL = 1.960


Interval = dict[str, float | None]
"""A mean and half its 95 % interval; None where there is none."""


class PolicyRuns(TypedDict):
    """What one policy did in all its runs, and its differences to the first."""

    policy: str
    oracle: bool
    jobs: dict[str, int]
    measures: dict[str, Interval]
    differences: dict[str, Interval]
    log_digests: list[str]


class Comparison(TypedDict):
    """All runs of all policies; the first policy is the reference.

    `unfinished` is how many runs were cut off by an interrupt, where it was one; of a policy there
    is then what has finished, and none without a run that has.
    """

    schema: int
    evidence: str
    seeds: list[int]
    cluster: dict[str, int]
    policies: list[PolicyRuns]
    runs: list[RunDocument]
    unfinished: NotRequired[int]


def compare(
    loaded: LoadedConfig,
    policies: Sequence[str],
    *,
    seeds: int = 1,
    workers: int = 1,
    report: Report | None = None,
    folder: Path | None = None,
) -> Comparison:
    """Run a config under several policies and return one document about all runs.

    Args:
        loaded: the config; its log is left alone, and each run's digest is in the document.
        policies: their names, in the order of the result.
        seeds: how many runs of each, with the config's seed and those after it.
        workers: how many processes; 1 runs everything in this one.
        report: told how many runs are done, and of how many.
        folder: where each run leaves its log, in the place of one that is there; None: nowhere.
    Raises:
        ConfigError: a policy is unknown, or there are no jobs.
        TraceError: the trace is wrong.
        KeyboardInterrupt: it was cut off before any run had finished.
    """
    refuse_no_jobs(loaded)
    first = loaded.config.seed
    configs = [
        loaded.replaced(
            {"policy.name": policy, "seed": seed, "log.url": log_of(folder, policy, seed, seeds)},
            f"--policies {policy}",
        )
        for policy in policies
        for seed in range(first, first + seeds)
    ]
    finished: dict[int, RunDocument] = {}
    try:
        run_all(_run, configs, workers, report, finished)
    except KeyboardInterrupt:
        if not finished:
            raise
    document = _document([finished.get(place) for place in range(len(configs))], first, seeds)
    if len(finished) < len(configs):
        document["unfinished"] = len(configs) - len(finished)
    return document


def _document(runs: Sequence[RunDocument | None], first: int, seeds: int) -> Comparison:
    """Return what came of runs, of each policy `seeds` in a row; None: unfinished."""
    rows = [runs[i : i + seeds] for i in range(0, len(runs), seeds)]
    done = [run for run in runs if run is not None]
    return {
        "schema": SCHEMA,
        "evidence": "simulated",
        "seeds": list(range(first, first + seeds)),
        "cluster": done[0]["cluster"],
        "policies": [_summed(row, rows[0]) for row in rows if any(row)],
        "runs": done,
    }


def value_of(document: Mapping[str, object], measure: str) -> float | None:
    """Return a measure such as "jct_s.mean" of a run's document."""
    value: object = document
    for name in measure.split("."):
        assert isinstance(value, Mapping), f"{measure} names a number in tables"
        value = value[name]
    return float(value) if isinstance(value, int | float) else None


def log_of(folder: Path | None, policy: str, seed: int, seeds: int = 1) -> str:
    """Return where a run leaves its log; its seed is told if there are several."""
    if folder is None:
        return NullStore.url
    return str(folder / (f"{policy}-{seed}.db" if seeds > 1 else f"{policy}.db"))


def _run(config: LoadedConfig) -> RunDocument:
    return simulate(config, overwrite=True).document


def _summed(
    row: Sequence[RunDocument | None], reference: Sequence[RunDocument | None]
) -> PolicyRuns:
    """Return what one policy did in all its runs, beside the first policy's."""
    runs = [run for run in row if run is not None]
    return {
        "policy": runs[0]["policy"],
        "oracle": runs[0]["oracle"],
        "jobs": {name: sum(run["jobs"][name] for run in runs) for name in runs[0]["jobs"]},
        "measures": {
            measure: _interval([value_of(run, measure) for run in runs]) for measure in MEASURES
        },
        "differences": {
            measure: _interval(_differences(row, reference, measure)) for measure in MEASURES
        },
        "log_digests": [run["log"]["digest"] for run in runs],
    }


def _differences(
    row: Sequence[RunDocument | None], reference: Sequence[RunDocument | None], measure: str
) -> list[float | None]:
    both = [(a, b) for a, b in zip(row, reference, strict=True) if a is not None and b is not None]
    values = ((value_of(run, measure), value_of(other, measure)) for run, other in both)
    return [None if a is None or b is None else a - b for a, b in values]


def _interval(values: Sequence[float | None]) -> Interval:
    """Return the mean and half its 95 % interval; None where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "ci95": None}
    if len(known) == 1:
        return {"mean": known[0], "ci95": None}
    return {
        "mean": fmean(known),
        "ci95": students_t(len(known) - 1) * stdev(known) / sqrt(len(known)),
    }


def students_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t by its degrees of freedom."""
    return _T[freedom - 1] if freedom <= len(_T) else _T_NORMAL


# The demonstration.

POLICIES = ("fifo", "las", "srtf")
SEED = 7


def demonstrate(report: Report | None = None, folder: Path | None = None) -> Comparison:
    """Run the demonstration, leaving its logs in a folder; None: nowhere."""
    return compare(_config(), POLICIES, report=report, folder=folder)


def logs_of(folder: Path) -> dict[str, str]:
    """Return the logs that the demonstration leaves in a folder, by policy."""
    return {policy: log_of(folder, policy, SEED) for policy in POLICIES}


def middle_s() -> int:
    """Return the second by which half of the jobs have been submitted."""
    submitted_us = sorted(job.submit_us for job in load_jobs(_config()).jobs)
    return submitted_us[len(submitted_us) // 2] // 1_000_000


def sentences(document: Comparison) -> tuple[str, str, str]:
    """Say in three sentences what the numbers show, whatever they are."""
    fifo, las, srtf = (_Numbers(summed) for summed in document["policies"])
    las_mean, fifo_mean, srtf_mean = (run.of("jct_s.mean") for run in (las, fifo, srtf))
    order = (
        f"Who goes first matters: a job takes {fifo.hours('jct_s.mean')} on average when jobs "
        f"start in the order in which they came (fifo), and {las.hours('jct_s.mean')}, "
        f"{_ratio(las_mean, fifo_mean)}, when those that have used least go first (las)."
    )
    price = (
        f"For that, las {_stopped(las.of('preemptions'))}, and fifo "
        f"{_stopped_too(fifo.of('preemptions'))}. One job in a hundred took "
        f"{las.hours('jct_s.p99')} or more with las, and {fifo.hours('jct_s.p99')} or more with "
        "fifo."
    )
    bound = (
        "With srtf, which knows how long each job will run and so stands for what foresight is "
        f"worth, a job takes {srtf.hours('jct_s.mean')}: las takes {las_mean / srtf_mean:.1f} "
        "times as long without knowing anything, fifo "
        f"{fifo_mean / srtf_mean:.1f} times."
    )
    return order, price, bound


class _Numbers:
    def __init__(self, summed: PolicyRuns) -> None:
        self._measures = summed["measures"]

    def of(self, measure: str) -> float:
        mean = self._measures[measure]["mean"]
        assert mean is not None, "some jobs of the demonstration finish"
        return mean

    def hours(self, measure: str) -> str:
        return f"{self.of(measure) / 3600:.1f} hours"


def _ratio(value: float, reference: float) -> str:
    if round(value, 6) == round(reference, 6):
        return "the same"
    if value < reference:
        return f"{(1 - value / reference) * 100:.0f} % less"
    return f"{(value / reference - 1) * 100:.0f} % more"


def _stopped(count: float) -> str:
    if not count:
        return "never stopped a running job"
    return f"stopped running jobs {count:,.0f} times"


def _stopped_too(count: float) -> str:
    return f"{count:,.0f} times" if count else "never did"


def _config() -> LoadedConfig:
    return make_config(
        {
            "schema": 1,
            "seed": SEED,
            "cluster": {
                "nodes": [
                    {"name": "gpu[1-8]", "gpus": 8, "type": "v100", "cpus": 64, "memory_gb": 500}
                ]
            },
            "workload": {"generate": {"kind": "philly-like", "jobs": 2000, "load": 1.0}},
            "policy": {"round": "60s"},
        },
        "demo",
    )
