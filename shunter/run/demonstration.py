"""The demonstration: 2,000 generated jobs on 64 GPUs under three policies, and what it shows."""

from pathlib import Path

from shunter.config.loading import LoadedConfig, make_config
from shunter.run.comparison import Comparison, PolicyRuns, compare, log_of
from shunter.run.parallel import Report
from shunter.run.setup import load_jobs

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
