"""What Gavel's comparison found, in sentences that follow from its numbers alone."""

from collections.abc import Iterator, Sequence
from typing import Final

from shunter_papers.gavel_arrivals import FULL, Scene
from shunter_papers.gavel_contenders import Average, Makespan
from shunter_papers.gavel_figures import CLAIMED_RATIO, CLAIMED_SOLVE_S
from shunter_papers.gavel_solving import Solved
from shunter_papers.windows import form_in_words

_ANEW: Final = (
    "shares are computed anew whenever a job has come or ended (by the public code 1,920 s after "
    "the last time at the earliest), those of the agnostic forms too"
)
_LOOSE: Final = (
    "*: no ratio of the paper. Our agnostic FIFO deals GPU types out anew at each computation, so "
    "a running job may change its type; the paper's keeps the type that a job got"
)
LEGEND: Final = (
    "×: the agnostic form's time over the row's, above 1 is sooner; all numbers are simulated",
    "jobs an hour: the paper's, on 108 GPUs",
    "full: how much of the time the jobs that are there want all GPUs or more",
    "published: stored in the public notebooks, for jobs 4,000 to 5,000 on 108 GPUs",
    "aware: by throughputs on each GPU type; otherwise all types count the same",
    "shared: two jobs may share GPUs",
    _ANEW,
    _LOOSE,
)


def verdicts(
    averages: Sequence[Average], makespans: Sequence[Makespan], solves: Sequence[Solved]
) -> list[str]:
    """Say where the claims are reached, and what to make of it."""
    return [
        *_form(averages),
        *_claim(averages),
        *_never_full(averages),
        *_beside_published(averages),
        *_unsteady(averages),
        *_shortest(makespans),
        *_solving(solves),
    ]


def _form(averages: Sequence[Average]) -> Iterator[str]:
    if not averages:
        return
    scene = averages[0].scene
    smaller = ""
    if scene.form is not FULL:
        stands = f"{scene.rate:g} an hour stands for {scene.jobs_per_hour:.3g}"
        smaller = f"a third of the jobs an hour ({stands})"
    yield form_in_words(scene.form.cluster, smaller=smaller, window=scene.window, jobs=scene.jobs)


def _claim(averages: Sequence[Average]) -> Iterator[str]:
    """Say whether the claim is reached, by the paper's own ratios."""
    aware = [
        each
        for each in averages
        if each.times and not each.contender.is_baseline and not each.contender.has_loose_baseline
    ]
    if not aware:
        return
    best = max(aware, key=_times)
    reached = "reached" if _times(best) >= CLAIMED_RATIO else "not reached"
    published = _published_times(best, averages)
    beside = "" if published is None else f", where {published:.2f}× is published"
    yield (
        f"Up to {CLAIMED_RATIO:g}× lower average JCT (OSDI 2020): {reached} here; the best is "
        f"{_named(best)} {_at(best.scene)} with {_times(best):.2f}×{beside}"
    )
    worse = [each for each in averages if each.times is not None and each.times < 1.0]
    if worse:
        names = "; ".join(f"{_named(one)} {_at(one.scene)} ({_times(one):.2f}×)" for one in worse)
        yield f"Worse than the agnostic form: {names}"


def _never_full(averages: Sequence[Average]) -> Iterator[str]:
    """Say at which rates no contender ever saw the jobs want all GPUs."""
    for scene in dict.fromkeys(each.scene for each in averages):
        here = [each for each in averages if each.scene == scene]
        if all(each.is_never_full for each in here):
            most = max(each.measured.wanted_most for each in here)
            yield (
                f"Never full {_at(scene)}: the jobs never want more than {most} of "
                f"{scene.form.gpus} GPUs at once, so ratios there tell what a faster GPU is worth, "
                "not what a full cluster makes of it"
            )


def _beside_published(averages: Sequence[Average]) -> Iterator[str]:
    off = [
        each.measured.hours / each.published - 1.0
        for each in averages
        if each.published and each.contender.setting == "public code"
    ]
    if off:
        yield (
            f"Averages in the public code's rounds are {min(off):+.0%} to {max(off):+.0%} of the "
            "published ones"
        )


def _unsteady(averages: Sequence[Average]) -> Iterator[str]:
    """Say where a measured job never ended, or did after the last arrival."""
    for each in averages:
        if each.measured.left:
            count, where = each.measured.left, _at(each.scene)
            yield f"{count} measured jobs of {_named(each)} {where} never ended, and do not count"
    for scene in dict.fromkeys(each.scene for each in averages):
        here = [each for each in averages if each.scene == scene]
        early = [_named(each) for each in here if each.measured.arrivals_end_early]
        if early:
            yield (
                f"Arrivals end {_at(scene)} before the last measured job does, which so has an "
                f"emptying cluster: {', '.join(early)}"
            )


def _shortest(makespans: Sequence[Makespan]) -> Iterator[str]:
    gains = [each for each in makespans if each.times and not each.contender.is_baseline]
    if gains:
        best = max(gains, key=lambda each: each.times or 0.0)
        yield (
            f"The makespan of {best.jobs:,} jobs is {best.times:.2f}× shorter with "
            f"{best.contender.label}"
        )


def _solving(solves: Sequence[Solved]) -> Iterator[str]:
    most = max((each.jobs for each in solves), default=0)
    for each in solves:
        if each.jobs == most:
            yield (
                f"{each.label}: shares for {each.jobs:,} jobs took {each.wall_s * 1000:.0f} ms; "
                f"the claim is {CLAIMED_SOLVE_S:g} s"
            )


def _times(average: Average) -> float:
    return average.times or 0.0


def _published_times(average: Average, averages: Sequence[Average]) -> float | None:
    """Return the ratio of the published averages, if both are known."""
    against = next(
        (
            other.published
            for other in averages
            if other.scene == average.scene
            and other.contender.setting == average.contender.setting
            and other.contender.label == average.contender.against
        ),
        None,
    )
    return against / average.published if against and average.published else None


def _named(average: Average) -> str:
    return f"{average.contender.label} ({average.contender.setting})"


def _at(scene: Scene) -> str:
    return f"at {scene.rate:g} jobs an hour{' with gangs' if scene.gangs else ''}"
