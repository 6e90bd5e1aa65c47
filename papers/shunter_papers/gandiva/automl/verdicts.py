"""What the AutoML experiment found, in sentences that follow from its numbers alone."""

from collections.abc import Iterator
from typing import Final

from shunter_papers.gandiva.automl.comparison import BASELINES, AutoMl, AutoMlRow
from shunter_papers.gandiva.automl.figures import (
    ACCEPTED,
    PUBLISHED_BASELINE_MIN,
    PUBLISHED_GANDIVA_MIN,
    PUBLISHED_SPEED_UPS,
    SLIDE_BASELINE_80_MIN,
    THRESHOLDS,
)
from shunter_papers.gandiva.automl.scenes import MAIN

BASELINE_WITHIN: Final = 0.1
"""How far the medians of the baseline may be from the published times (the spec: 10 %)."""

_HOW: Final = (
    "AutoML: minutes to the first accuracy above each threshold, medians over searches; × is the "
    "baseline's over the row's. The curves are made up and fitted to the published baseline alone; "
    "good configurations are in the waves in which the published search had them"
)
_SLIDE: Final = (
    f"the slide has {SLIDE_BASELINE_80_MIN:g} minutes for 80 %, two digits of 2849.1 swapped: its "
    f"{PUBLISHED_SPEED_UPS[1]:g}× is 2849.1 / 543.1; {SLIDE_BASELINE_80_MIN:g} / 543.1 would be "
    f"{SLIDE_BASELINE_80_MIN / PUBLISHED_GANDIVA_MIN[1]:.2f}×"
)
LEGEND: Final = (_HOW, _SLIDE)


def verdicts(found: AutoMl) -> list[str]:
    """Say how the predictions stand to what was published, and what makes them."""
    (main,) = (row for row in found.rows if row.variant is MAIN)
    return [
        *_baseline(found),
        *_predicted(main),
        *_lost(found),
        *_alike(found),
        *_any_order(found, main),
    ]


def _baseline(found: AutoMl) -> Iterator[str]:
    told, errors = [], []
    for threshold, one, published in zip(
        THRESHOLDS, found.baseline, PUBLISHED_BASELINE_MIN, strict=True
    ):
        minutes = one.median_min or 0.0
        errors.append(minutes / published - 1)
        told.append(f"{minutes:,.1f} min to {threshold:.0%} ({errors[-1]:+.1%})")
    is_near = all(abs(error) <= BASELINE_WITHIN for error in errors)
    verdict = "within" if is_near else "not within"
    yield (
        f"AutoML, the baseline of {BASELINES} searches, one configuration after the other: "
        f"{', '.join(told)}: {verdict} {BASELINE_WITHIN:.0%} of what was published"
    )


def _predicted(main: AutoMlRow) -> Iterator[str]:
    for threshold, found, speed_up, published, (low, high) in zip(
        THRESHOLDS, main.found, main.speed_ups, PUBLISHED_SPEED_UPS, ACCEPTED, strict=True
    ):
        begin = f"AutoML, the first above {threshold:.0%}"
        if speed_up is None or found.median_min is None:
            yield f"{begin}: not found by most searches (slides: {published:g}×)"
            continue
        verdict = "as published" if low <= speed_up <= high else "not as published"
        yield (
            f"{begin}: predicted {speed_up:.2f}× ({found.median_min:,.1f} min), slides "
            f"{published:g}×, an error of {speed_up / published - 1:+.0%}: {verdict} "
            f"({low:g} to {high:g})"
        )


def _lost(found: AutoMl) -> Iterator[str]:
    lost = [
        f"{row.searches - row.found[-1].searches} of {row.searches} with {row.variant.name}"
        for row in found.rows
        if row.found[-1].searches < row.searches
    ]
    if lost:
        yield (
            f"AutoML, searches that ended all configurations that would have come above "
            f"{THRESHOLDS[-1]:.0%}: {', '.join(lost)}"
        )


def _alike(found: AutoMl) -> Iterator[str]:
    """Say which variants come to both of the published speed-ups that are above 1."""
    alike = [
        f"{row.variant.name} ({', '.join(f'{each:.2f}×' for each in row.speed_ups if each)})"
        for row in found.rows
        if all(
            speed_up is not None and low <= speed_up <= high
            for speed_up, (low, high) in list(zip(row.speed_ups, ACCEPTED, strict=True))[1:]
        )
    ]
    yield (
        "Variants with both published speed-ups, of 80 and 90 %: "
        f"{', '.join(alike) if alike else 'none'}"
    )


def _any_order(found: AutoMl, main: AutoMlRow) -> Iterator[str]:
    told = [
        f"{one.median_min / two.median_min:.2f}× at {threshold:.0%}"
        for threshold, one, two in zip(THRESHOLDS, found.any_order, main.found, strict=True)
        if one.median_min is not None and two.median_min
    ]
    yield (
        "If the same configurations came in any order, not the good ones late, the baseline would "
        f"be sooner and the speed-ups less: {', '.join(told)}"
    )
