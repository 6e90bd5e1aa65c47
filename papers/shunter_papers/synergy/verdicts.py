"""What Synergy's comparison found, in sentences that follow from its numbers alone."""

from collections.abc import Iterator, Sequence
from typing import Final

from shunter_papers.synergy.figures import CLAIMED_RATIO
from shunter_papers.synergy.rows import ArrivalRow, SlideRow
from shunter_papers.synergy.scenes import BASELINE, FULL, Arrivals
from shunter_papers.windows import form_in_words

_TIMES: Final = (
    "×: the time of proportional shares over the row's, above 1 is sooner; all numbers but those "
    "of the deployment are simulated"
)
_PUBLISHED: Final = (
    "deployed, simulated: on the slides (OSDI 2022); public code: what it gives on its traces when "
    "we run it"
)
_SETTINGS: Final = (
    "peer: the public simulator's rounds, faults included; corrected: our own policies, in rounds "
    "of 300 s"
)
_RATES: Final = (
    "jobs an hour: the paper's, on 128 GPUs; load: their GPU time at the proportional share, in "
    "expectation"
)
LEGEND: Final = (
    _TIMES,
    _PUBLISHED,
    _SETTINGS,
    _RATES,
    "full: how much of the time the jobs that are there want all GPUs or more",
    "mix: percent of image, language and speech models; language models need no more than one CPU",
)


def verdicts(
    slides: Sequence[SlideRow], loads: Sequence[ArrivalRow], mixes: Sequence[ArrivalRow]
) -> list[str]:
    """Say where the claims are reached, and what to make of it."""
    return [
        *_jobs(slides),
        *_beside_slides(slides),
        *_form(loads),
        *_claim([*loads, *mixes]),
        *_by_mix(mixes),
        *_unsteady([*loads, *mixes]),
    ]


def _jobs(slides: Sequence[SlideRow]) -> Iterator[str]:
    missing = [row.slide.name for row in slides if not row.is_public]
    for name in dict.fromkeys(missing):
        yield (
            f"No --{name} was named: made-up jobs like those of the public trace stand in, so the "
            "published hours are of other jobs; only ratios can be compared"
        )


def _beside_slides(slides: Sequence[SlideRow]) -> Iterator[str]:
    """Say what each mechanism gains on the slides, by the public code and here."""
    for row in slides:
        if row.mechanism == BASELINE:
            continue
        against = next(
            each
            for each in slides
            if (each.slide, each.measure, each.mechanism) == (row.slide, row.measure, BASELINE)
        )
        there = against.published.simulated / row.published.simulated
        code = against.published.public_code / row.published.public_code
        ours = ", ".join(
            f"{setting} {times:.2f}×" for setting, times in row.times.items() if times is not None
        )
        what = f"{row.slide.order.upper()} {row.measure} with {row.mechanism}"
        yield f"{what}: slides {there:.2f}×, public code {code:.2f}×, here {ours}"


def _form(loads: Sequence[ArrivalRow]) -> Iterator[str]:
    if not loads:
        return
    scene = loads[0].scene
    form = scene.form
    smaller = "" if form is FULL else f"{form.part:.3g} of the jobs an hour"
    yield form_in_words(f"{form.gpus} GPUs", smaller=smaller, window=scene.window, jobs=scene.jobs)


def _claim(rows: Sequence[ArrivalRow]) -> Iterator[str]:
    """Say whether the claim is reached, where, and where tune is worse."""
    tuned = [row for row in rows if row.times is not None and not row.is_baseline]
    if not tuned:
        return
    best, claim = max(tuned, key=_times), f"Up to {CLAIMED_RATIO:g}× lower average JCT (OSDI 2022)"
    reaching = list(dict.fromkeys(_at(row) for row in tuned if _times(row) >= CLAIMED_RATIO))
    if reaching:
        yield f"{claim}: reached {'; '.join(reaching)}; the best is {_times(best):.2f}× {_at(best)}"
    else:
        yield f"{claim}: not reached here; the best is {_times(best):.2f}× {_at(best)}"
    worse = list(
        dict.fromkeys(f"{_at(row)} ({_times(row):.2f}×)" for row in tuned if _times(row) < 1.0)
    )
    if worse:
        yield f"Worse than proportional shares: {'; '.join(worse)}"


def _by_mix(mixes: Sequence[ArrivalRow]) -> Iterator[str]:
    for rate in dict.fromkeys(row.scene.rate for row in mixes):
        tuned = [
            row
            for row in mixes
            if row.scene.rate == rate and row.times is not None and not row.is_baseline
        ]
        if tuned:
            told = ", ".join(f"{_mixed(row.scene)} {_times(row):.2f}×" for row in tuned)
            best = max(tuned, key=_times)
            yield (
                f"By the mix of models under {best.order.upper()} at {rate:g} jobs an hour: "
                f"{told}; most where {best.scene.hungry:g} % are image and speech models"
            )


def _unsteady(rows: Sequence[ArrivalRow]) -> Iterator[str]:
    """Say where the cluster is never or always full, and averages say little."""
    never = [row for row in rows if row.is_never_full]
    if never:
        yield f"Never full, so that nobody waits for GPUs: {_listed(never)}"
    always = [row for row in rows if row.is_always_full]
    if always:
        yield f"Always full, so that averages depend on when jobs are measured: {_listed(always)}"
    for row in rows:
        if row.measured.left:
            yield (
                f"{row.measured.left} measured jobs of {row.mechanism} {_at(row)} never ended, "
                "and do not count"
            )
    early = [row for row in rows if row.measured.arrivals_end_early]
    if early:
        yield (
            "Arrivals end before the last measured job does, which so has an emptying cluster: "
            f"{_listed(early)}"
        )


def _listed(rows: Sequence[ArrivalRow]) -> str:
    """Return where rows are, without their mixes, by mechanism."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        gangs = " with gangs" if row.scene.gangs else ""
        where = f"{row.order.upper()} at {row.scene.rate:g}{gangs}"
        found.setdefault(row.mechanism, {})[where] = None
    return "; ".join(f"{mechanism} under {', '.join(at)}" for mechanism, at in found.items())


def _times(row: ArrivalRow) -> float:
    return row.times or 0.0


def _at(row: ArrivalRow) -> str:
    return f"under {row.order.upper()} {_where(row.scene)}"


def _where(scene: Arrivals) -> str:
    gangs = " with gangs" if scene.gangs else ""
    return f"at {scene.rate:g} jobs an hour{gangs}, mix {_mixed(scene)}"


def _mixed(scene: Arrivals) -> str:
    return "/".join(f"{part:g}" for part in scene.split)
