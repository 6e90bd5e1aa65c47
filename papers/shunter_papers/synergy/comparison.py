"""The comparison of Synergy (Mohan et al., OSDI 2022): CPUs and memory by sensitivity.

`proportional` gives each GPU its part of the server, `tune` gives what some jobs do not need to
those that get faster by it, `opt` makes the sum of all speeds largest in each round. Three
experiments: the table of the slides, on 32 GPUs, beside what was published; average completion time
against the load, on 128 GPUs or a quarter of them; and against the part of the jobs that want CPUs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from shunter.config import LoadedConfig
from shunter.run import SCHEMA, Report, run_all, simulate
from shunter_papers.synergy.figures import CLAIMED_RATIO, SLIDES_H, Measure
from shunter_papers.synergy.rows import ArrivalRow, SlideRow
from shunter_papers.synergy.scenes import (
    BASELINE,
    CONTENDERS,
    FULL,
    GANG_RATES,
    MIX_ORDER,
    MIX_RATES,
    MIXES,
    ORDERS,
    QUICK,
    RATES,
    TUNE,
    USUAL_SPLIT,
    Arrivals,
    Form,
    Slide,
    Solver,
)
from shunter_papers.synergy.verdicts import LEGEND, verdicts
from shunter_papers.windows import Measured, play

_KEPT: Final = ("jobs", "jct_s", "makespan_s", "gpu_utilisation", "preemptions", "migrations")


@dataclass(frozen=True)
class Asked:
    """What to run.

    `static` and `dynamic` are the public code's traces; None: made-up jobs stand in. `jobs` arrive
    at each rate, None: as many as the form has. `rates` are those of the paper's cluster, of jobs
    of one GPU and where some are gangs; None: the usual ones. `solver` is that of `opt`, which only
    HiGHS solves in the corrected setting.
    """

    seed: int = 0
    static: Path | None = None
    dynamic: Path | None = None
    jobs: int | None = None
    rates: Sequence[float] | None = None
    gang_rates: Sequence[float] | None = None
    full: bool = False
    solver: Solver = "exact"

    @property
    def form(self) -> Form:
        """The size of the arrivals."""
        return FULL if self.full else QUICK

    @property
    def slides(self) -> tuple[Slide, Slide]:
        """The jobs of the slides' table."""
        return Slide("static", self.static, self.seed), Slide("dynamic", self.dynamic, self.seed)

    @property
    def loads(self) -> list[Arrivals]:
        """The arrivals at several rates, jobs of one GPU first."""
        found = [self._arrivals(rate) for rate in self.rates or RATES]
        found += [
            replace(self._arrivals(rate), gangs=True) for rate in self.gang_rates or GANG_RATES
        ]
        return list(dict.fromkeys(found))

    @property
    def mixes(self) -> list[Arrivals]:
        """The arrivals of ever more jobs that want CPUs."""
        return [replace(self._arrivals(rate), split=split) for rate in MIX_RATES for split in MIXES]

    def _arrivals(self, rate: float) -> Arrivals:
        form = self.form
        return Arrivals(form, rate, USUAL_SPLIT, self.jobs or form.jobs, self.seed)


@dataclass(frozen=True)
class Reproduction:
    """Everything that was found."""

    document: dict[str, Any]
    slides: tuple[SlideRow, ...]
    loads: tuple[ArrivalRow, ...]
    mixes: tuple[ArrivalRow, ...]


@dataclass(frozen=True)
class _Run:
    """One run, and the window of jobs that is measured, if it is one."""

    key: tuple[object, ...]
    config: LoadedConfig
    window: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Played:
    document: dict[str, Any]
    measured: Measured | None


_Found = Mapping[tuple[object, ...], _Played]


def reproduce(asked: Asked, *, workers: int = 1, report: Report | None = None) -> Reproduction:
    """Run the comparison.

    Args:
        asked: what to run.
        workers: how many processes.
        report: told how many runs are done.
    Raises:
        ConfigError: what plays the public code, or its solver, is not installed.
        TraceError: a trace cannot be read.
    """
    runs = list({run.key: run for run in _runs(asked)}.values())
    played = run_all(_play, runs, workers, report)
    found = dict(zip((run.key for run in runs), played, strict=True))
    slides = tuple(_slide_rows(asked, found))
    loads = tuple(
        row
        for scene in asked.loads
        for order in ORDERS
        for row in _arrival_rows(scene, order, found)
    )
    mixes = tuple(row for scene in asked.mixes for row in _arrival_rows(scene, MIX_ORDER, found))
    document = {
        "schema": SCHEMA,
        "evidence": "simulated",
        "paper": "synergy",
        "form": asked.form.name,
        "seed": asked.seed,
        "solver": asked.solver,
        "claimed_ratio": CLAIMED_RATIO,
        "notes": list(LEGEND),
        "slides": [row.document() for row in slides],
        "loads": [row.document() for row in loads],
        "mixes": [row.document() for row in mixes],
        "sentences": verdicts(slides, loads, mixes),
    }
    return Reproduction(document, slides, loads, mixes)


def _runs(asked: Asked) -> Iterator[_Run]:
    for slide in asked.slides:
        for contender in CONTENDERS:
            for setting in contender.settings(asked.solver):
                name = contender.mechanism
                yield _Run((slide, name, setting), slide.config(name, setting, asked.solver))
    orders: dict[Arrivals, tuple[str, ...]] = dict.fromkeys(asked.loads, ORDERS)
    for scene in asked.mixes:
        orders.setdefault(scene, (MIX_ORDER,))
    for scene, names in orders.items():
        for order in names:
            for name in (BASELINE, TUNE):
                yield _Run((scene, order, name), scene.config(order, name), scene.window)


def _play(run: _Run) -> _Played:
    measured, whole = None, None
    if run.window is not None:
        measured, whole = play(run.config, run.window)
    document: Mapping[str, Any] = whole or simulate(run.config).document
    return _Played({name: document[name] for name in (*_KEPT, "log")}, measured)


def _slide_rows(asked: Asked, found: _Found) -> Iterator[SlideRow]:
    for slide in asked.slides:
        for measure in slide.measures:
            for contender in CONTENDERS:
                name = contender.mechanism
                hours = {
                    setting: _hours(found[slide, name, setting], measure)
                    for setting in contender.settings(asked.solver)
                }
                times = {
                    setting: _times(_hours(found[slide, BASELINE, setting], measure), at)
                    for setting, at in hours.items()
                }
                published = SLIDES_H[slide.order, measure][name]
                yield SlideRow(slide, measure, name, published, hours, times)


def _arrival_rows(scene: Arrivals, order: str, found: _Found) -> Iterator[ArrivalRow]:
    against = found[scene, order, BASELINE].measured
    for name in (BASELINE, TUNE):
        each = found[scene, order, name]
        assert against is not None, "arrivals are measured"
        assert each.measured is not None, "all of them"
        times = _times(against.hours, each.measured.hours)
        yield ArrivalRow(scene, order, name, each.measured, times, each.document)


def _hours(played: _Played, measure: Measure) -> float | None:
    document = played.document
    if measure == "makespan":
        return float(document["makespan_s"]) / 3600
    at = document["jct_s"]["mean" if measure == "mean JCT" else "p99"]
    return None if at is None else float(at) / 3600


def _times(against: float | None, hours: float | None) -> float | None:
    return against / hours if against is not None and hours else None
