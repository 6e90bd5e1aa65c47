"""What the jobs in the middle of many arrivals meet.

Those before find an empty cluster, those after see to it that arrivals go on until the last
measured job ends. Of 8,000 jobs the ones from 4,000 to 5,000 are measured, as in the public
simulators of Gavel and Synergy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from shunter.config import LoadedConfig
from shunter.core import JobResult
from shunter.run import RunDocument, simulate

HOUR_US: Final = 3_600_000_000


@dataclass(frozen=True)
class Measured:
    """What the jobs of a window met.

    `hours` is their average completion time, `left` how many have none. Between the arrival of the
    first and the end of the last, the jobs that are there want at most `wanted_most` GPUs, and all
    there are or more in `full_part` of the time. `arrivals_end_early` is whether the last job
    arrived before the last measured one ended.
    """

    hours: float
    left: int
    wanted_most: int
    full_part: float
    arrivals_end_early: bool


def form_in_words(cluster: str, *, smaller: str, window: tuple[int, int], jobs: int) -> str:
    """Return which size of a comparison was run, and which jobs were measured.

    Args:
        cluster: that of the form, in words.
        smaller: what it has of the paper's jobs; nothing in the full form.
        window: the ordinals of the first measured job and the one after the last.
        jobs: how many there were.
    """
    first, last = window
    measured = f"averages are over jobs {first:,} to {last:,} of {jobs:,}"
    if not smaller:
        return f"The full form: {cluster}; {measured}"
    return (
        f"The quick form, not the paper's size: {cluster} with {smaller}; {measured}; --full is "
        "the paper's size"
    )


def middle_of(jobs: int) -> tuple[int, int]:
    """Return the first measured job of so many, and the one after the last."""
    first = jobs // 2
    return first, max(first + 1, 5 * jobs // 8)


def play(config: LoadedConfig, window: tuple[int, int]) -> tuple[Measured, RunDocument]:
    """Run a config; return what a window of jobs met, and the document."""
    result = simulate(config)
    return measured(list(result.stories()), window, config.config.cluster.gpus), result.document


def measured(results: Sequence[JobResult], window: tuple[int, int], gpus: int) -> Measured:
    """Return what the jobs of a window met.

    Args:
        results: the stories of all jobs.
        window: the ordinals of the first job and the one after the last.
        gpus: how many the cluster has.
    """
    inside = [each for each in results if window[0] <= each.ordinal < window[1]]
    spans = [each.jct_us for each in inside if each.jct_us is not None]
    begin_us = min(each.submit_us for each in inside)
    end_us = max((each.end_us for each in inside if each.end_us is not None), default=begin_us)
    most, full_us = _demand(results, gpus, begin_us, end_us)
    return Measured(
        hours=fmean(spans) / HOUR_US if spans else 0.0,
        left=len(inside) - len(spans),
        wanted_most=most,
        full_part=full_us / (end_us - begin_us) if end_us > begin_us else 0.0,
        arrivals_end_early=max(each.submit_us for each in results) < end_us,
    )


def _demand(results: Iterable[JobResult], gpus: int, begin_us: int, end_us: int) -> tuple[int, int]:
    """Return the most GPUs that are wanted at once, and for how long all or more are."""
    changes: dict[int, int] = {}
    for each in results:
        until_us = end_us if each.end_us is None else min(each.end_us, end_us)
        since_us = max(each.submit_us, begin_us)
        if since_us < until_us:
            changes[since_us] = changes.get(since_us, 0) + each.gpus
            changes[until_us] = changes.get(until_us, 0) - each.gpus
    wanted, most, full_us, before_us = 0, 0, 0, begin_us
    for at_us, change in sorted(changes.items()):
        if wanted >= gpus:
            full_us += at_us - before_us
        wanted += change
        most, before_us = max(most, wanted), at_us
    return most, full_us
