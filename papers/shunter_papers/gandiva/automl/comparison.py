"""The AutoML experiment as one run: many searches under each rule, beside what was published.

asked ─▶ searches ─▶ rows ─▶ document
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any, Final

from shunter.core import RandomStream
from shunter.events import JobId
from shunter.run import Report, run_all, simulate
from shunter_papers.gandiva.automl.baseline import first_min
from shunter_papers.gandiva.automl.curves import Curve, Curves, like_published
from shunter_papers.gandiva.automl.figures import (
    PUBLISHED_BASELINE_MIN,
    PUBLISHED_GANDIVA_MIN,
    PUBLISHED_SPEED_UPS,
    SLIDE_BASELINE_80_MIN,
    THRESHOLDS,
)
from shunter_papers.gandiva.automl.scenes import MAIN, VARIANTS, Variant, config, job_ids, jobs
from shunter_papers.gandiva.automl.search import EPOCH_US, Search
from shunter_papers.gandiva.work_curves import WorkCurves

Times = tuple[float | None, ...]
"""Minutes to the first accuracy above each threshold; None: there never was one."""

BASELINES: Final = 200
"""Of so many searches the baseline is told, which costs next to nothing; ratios are of a row's."""

ORDERS: Final = 5
"""So many other orders of a search's configurations are tried."""


@dataclass(frozen=True)
class Found:
    """How soon searches had an accuracy: so many of them ever, and the median time."""

    searches: int
    median_min: float | None

    def document(self) -> dict[str, Any]:
        """Return it as a part of the document."""
        return {"found": self.searches, "median_min": self.median_min}


@dataclass(frozen=True)
class AutoMlRow:
    """What searches in turns under one variant came to, at each threshold.

    `speed_ups` are over the medians of the baseline in the same searches.
    """

    variant: Variant
    searches: int
    found: tuple[Found, ...]
    speed_ups: tuple[float | None, ...]

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        return {
            "variant": self.variant.name,
            "searches": self.searches,
            "thresholds": [
                {"accuracy": threshold, **found.document(), "speed_up": speed_up}
                for threshold, found, speed_up in zip(
                    THRESHOLDS, self.found, self.speed_ups, strict=True
                )
            ],
        }


@dataclass(frozen=True)
class AutoMl:
    """What was found: the baseline of `BASELINES` searches, and a row a variant.

    `any_order` is the baseline where good configurations may come at any time.
    """

    baseline: tuple[Found, ...]
    any_order: tuple[Found, ...]
    rows: tuple[AutoMlRow, ...]

    def document(self) -> dict[str, Any]:
        """Return it as a part of the document."""
        return {
            "baseline_searches": BASELINES,
            "published": {
                "thresholds": list(THRESHOLDS),
                "baseline_min": list(PUBLISHED_BASELINE_MIN),
                "baseline_80_min_on_slide": SLIDE_BASELINE_80_MIN,
                "gandiva_min": list(PUBLISHED_GANDIVA_MIN),
                "speed_ups": list(PUBLISHED_SPEED_UPS),
            },
            "baseline": [found.document() for found in self.baseline],
            "baseline_any_order": [found.document() for found in self.any_order],
            "rows": [row.document() for row in self.rows],
        }


@dataclass(frozen=True)
class _Run:
    seed: int
    variant: Variant


def compare(
    seed: int,
    searches: int,
    others: int,
    *,
    variants: Sequence[Variant] = VARIANTS,
    workers: int = 1,
    report: Report | None = None,
) -> AutoMl:
    """Run the experiment.

    Args:
        seed: names the first search.
        searches: how many searches the rule as described gets.
        others: how many of these the other variants get.
        variants: what is run; the first is the rule as described.
        workers: how many processes.
        report: told how many searches are done.
    """
    runs = [
        _Run(seed + number, variant)
        for variant in variants
        for number in range(searches if variant is MAIN else min(searches, others))
    ]
    # The long ones are begun first, so that none is left over at the end.
    longest_first = sorted(runs, key=lambda run: run.variant.quantum_s)
    found = dict(zip(longest_first, run_all(_play, longest_first, workers, report), strict=True))
    drawn = [like_published(seed + number) for number in range(BASELINES)]
    baseline = [found_min(curves) for curves in drawn]
    any_order = [found_min(curves) for each in drawn for curves in _other_orders(each)]
    rows = [_row(variant, found, seed) for variant in variants]
    return AutoMl(_medians(baseline), _medians(any_order), tuple(rows))


def found_min(curves: Curves) -> Times:
    """Return the baseline of a search: minutes to each threshold."""
    return tuple(first_min(curves, threshold) for threshold in THRESHOLDS)


def _play(run: _Run) -> Times:
    """Search in turns; return the minutes to each threshold."""
    configurations = like_published(run.seed, run.variant.family)
    curves = dict(zip(job_ids(configurations), configurations, strict=True))
    work = WorkCurves()
    simulate(
        config("gandiva", run.variant),
        trace=jobs(configurations),
        listeners=[work.observers()],
        driver=Search(curves, run.variant.rule),
    )
    return tuple(_first_min(work, curves, threshold) for threshold in THRESHOLDS)


def _first_min(work: WorkCurves, curves: Mapping[JobId, Curve], threshold: float) -> float | None:
    passed = [
        work.curves[job_id].passed_us(epochs * EPOCH_US)
        for job_id, curve in curves.items()
        if (epochs := curve.epochs_to(threshold)) is not None
    ]
    return min((at_us / 60e6 for at_us in passed if at_us is not None), default=None)


def _row(variant: Variant, found: Mapping[_Run, Times], seed: int) -> AutoMlRow:
    times = [each for run, each in found.items() if run.variant is variant]
    drawn = [like_published(seed + number, variant.family) for number in range(len(times))]
    own, before = _medians(times), _medians([found_min(curves) for curves in drawn])
    return AutoMlRow(
        variant,
        len(times),
        own,
        tuple(_ratio(one.median_min, two.median_min) for one, two in zip(before, own, strict=True)),
    )


def _medians(times: Sequence[Times]) -> tuple[Found, ...]:
    """Return the medians of searches; one that never gets there takes for ever."""
    found = []
    for place in range(len(THRESHOLDS)):
        minutes = [each[place] for each in times]
        middle = median(inf if each is None else each for each in minutes)
        count = sum(each is not None for each in minutes)
        found.append(Found(count, None if middle == inf else middle))
    return tuple(found)


def _ratio(before: float | None, after: float | None) -> float | None:
    return before / after if before is not None and after else None


def _other_orders(curves: Curves) -> Iterator[Curves]:
    """Yield the configurations of a search in any order (Fisher and Yates)."""
    rng = RandomStream("gandiva automl order", repr(curves[0]))
    for _ in range(ORDERS):
        order = list(curves)
        for last in range(len(order) - 1, 0, -1):
            other = rng.below(last + 1)
            order[last], order[other] = order[other], order[last]
        yield tuple(order)
