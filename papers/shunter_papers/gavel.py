"""The comparison of Gavel (Narayanan et al., OSDI 2020): what knowing GPU types is worth.

Jobs of one GPU, then gangs as well, arrive all the time at several rates on V100, P100 and K80, and
each policy runs as its agnostic form, which takes all GPU types for equal, and as its aware form:
in the rounds of the public simulator, faults included, beside what its authors published. In the
quick form our own corrected policies follow at the highest rate, in continuous time. Then gangs
that are all there from the beginning, for the makespan, and how long shares take to compute.

What awareness gains is a matter of a full cluster, so each scene says how full it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from shunter.config import LoadedConfig
from shunter.policies.gavel import MaxMinFairness
from shunter.run import SCHEMA, Report, run_all
from shunter_papers.gavel_arrivals import FULL, QUICK, Scene, Setting
from shunter_papers.gavel_contenders import (
    CORRECTED,
    COSTLY,
    PUBLIC,
    STATIC,
    Average,
    Contender,
    Makespan,
    Solver,
)
from shunter_papers.gavel_figures import (
    AVERAGES_H,
    CLAIMED_RATIO,
    CLAIMED_SOLVE_S,
    GANG_AVERAGES_H,
    MAKESPANS_H,
    SOLVE_S,
)
from shunter_papers.gavel_solving import Solved, solve_times
from shunter_papers.gavel_verdicts import LEGEND, verdicts
from shunter_papers.windows import Measured, play

RATES: Final = (2.0, 4.0, 5.6)
"""Jobs of one GPU an hour, on the paper's 108 GPUs; the full form runs the last."""

GANG_RATES: Final = (1.0, 2.0, 2.6)
"""Jobs an hour where some are gangs; the full form runs the last."""

STATIC_JOBS: Final = (100, 300)
AT_ONCE: Final = 3_600_000.0
"""Jobs an hour that are as good as all at once: a thousand a second."""

_KEPT: Final = (
    "jobs",
    "jct_s",
    "makespan_s",
    "gpu_utilisation",
    "preemptions",
    "migrations",
    "log",
)


@dataclass(frozen=True)
class Asked:
    """What to run.

    `jobs` arrive at each rate, None: as many as the form has. `rates` are those of the paper's
    cluster, of jobs of one GPU and where some are gangs; None: those of the form. `solver` computes
    the shares in the rounds of the public code. `all_policies` adds those that take minutes more.
    """

    seed: int = 0
    jobs: int | None = None
    rates: Sequence[float] | None = None
    gang_rates: Sequence[float] | None = None
    full: bool = False
    solver: Solver = "centred"
    all_policies: bool = False

    @property
    def arrivals(self) -> list[tuple[bool, float]]:
        """Whether there are gangs, and how many jobs come an hour, by scene."""
        rates = self.rates or (RATES[-1:] if self.full else RATES)
        gang_rates = self.gang_rates or (GANG_RATES[-1:] if self.full else GANG_RATES)
        found = [(False, rate) for rate in rates] + [(True, rate) for rate in gang_rates]
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Reproduction:
    """Everything that was found."""

    document: dict[str, Any]
    averages: tuple[Average, ...]
    makespans: tuple[Makespan, ...]
    solves: tuple[Solved, ...]


@dataclass(frozen=True)
class _Run:
    contender: Contender
    scene: Scene
    config: LoadedConfig
    is_static: bool = False

    @property
    def key(self) -> "_Key":
        """Name the run."""
        return self.scene, self.contender.setting, self.contender.label

    @property
    def against(self) -> "_Key":
        """Name the run of the agnostic form."""
        return self.scene, self.contender.setting, self.contender.against


_Key = tuple[Scene, Setting, str]
_Played = tuple[Measured, dict[str, Any]]


def reproduce(asked: Asked, *, workers: int = 1, report: Report | None = None) -> Reproduction:
    """Run the comparison.

    Args:
        asked: what to run.
        workers: how many processes.
        report: told how many runs are done.
    Raises:
        ConfigError: what plays the public code, or its solver, is not installed.
    """
    runs = [*_continuous(asked), *_static(asked)]
    played = run_all(_play, runs, workers, report)
    found = dict(zip((run.key for run in runs), played, strict=True))
    averages = tuple(_average(run, found) for run in runs if not run.is_static)
    makespans = tuple(_makespan(run, found) for run in runs if run.is_static)
    table = runs[0].config.throughputs
    assert table is not None, "the config names a table"
    solves = tuple(solve_times(table, MaxMinFairness(packed=True)))
    document = _document(asked, averages, makespans, solves)
    return Reproduction(document, averages, makespans, solves)


def _continuous(asked: Asked) -> list[_Run]:
    """Return the runs in which jobs keep arriving: by rate, jobs of one GPU first."""
    form = FULL if asked.full else QUICK
    count = asked.jobs or form.jobs
    public = [
        replace(each, params={**each.params, "solver": asked.solver, "seed": asked.seed})
        for each in PUBLIC
    ]
    corrected: tuple[Contender, ...] = () if asked.full else CORRECTED
    if asked.all_policies:
        corrected = (*CORRECTED, *COSTLY)
    highest = max(rate for gangs, rate in asked.arrivals if not gangs)
    found = []
    for gangs, rate in asked.arrivals:
        scene = Scene(form, rate, gangs, count, asked.seed)
        contenders = (*public, *corrected) if (gangs, rate) == (False, highest) else public
        found += [_Run(one, scene, scene.config(one.setting, one.params)) for one in contenders]
    return found


def _static(asked: Asked) -> list[_Run]:
    """Return the runs in which all jobs are there at once, on the full cluster."""
    count = asked.jobs or FULL.jobs
    scenes = [
        Scene(FULL, AT_ONCE, gangs=True, jobs=size, seed=asked.seed)
        for size in dict.fromkeys(min(size, count) for size in STATIC_JOBS)
    ]
    return [
        _Run(one, scene, scene.config(one.setting, one.params), is_static=True)
        for scene in scenes
        for one in STATIC
    ]


def _play(run: _Run) -> _Played:
    measured, found = play(run.config, run.scene.window)
    document: Mapping[str, Any] = found
    return measured, {name: document[name] for name in _KEPT}


def _average(run: _Run, found: Mapping[_Key, _Played]) -> Average:
    (measured, document), (against, _) = found[run.key], found[run.against]
    times = against.hours / measured.hours if measured.hours else None
    figures = (GANG_AVERAGES_H if run.scene.gangs else AVERAGES_H).get(run.contender.label, {})
    published = figures.get(run.scene.rate)
    return Average(run.contender, run.scene, measured, times, published, document)


def _makespan(run: _Run, found: Mapping[_Key, _Played]) -> Makespan:
    (_, document), (_, against) = found[run.key], found[run.against]
    hours = document["makespan_s"] / 3600
    times = against["makespan_s"] / document["makespan_s"] if hours else None
    published = MAKESPANS_H.get(run.contender.label, {}).get(run.scene.jobs)
    return Makespan(run.contender, run.scene.jobs, hours, times, published, document)


def _document(
    asked: Asked,
    averages: Sequence[Average],
    makespans: Sequence[Makespan],
    solves: Sequence[Solved],
) -> dict[str, Any]:
    form = FULL if asked.full else QUICK
    return {
        "schema": SCHEMA,
        "evidence": "simulated",
        "paper": "gavel",
        "form": form.name,
        "gpus": form.gpus,
        "seed": asked.seed,
        "solver": asked.solver,
        "claim": {"ratio": CLAIMED_RATIO, "solve_s": CLAIMED_SOLVE_S, "source": "OSDI 2020"},
        "notes": list(LEGEND),
        "continuous": [_average_row(each) for each in averages],
        "static": [_makespan_row(each) for each in makespans],
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


def _average_row(average: Average) -> dict[str, object]:
    scene, measured = average.scene, average.measured
    return {
        "setting": average.contender.setting,
        "label": average.contender.label,
        "against": average.contender.against,
        "is_ratio_of_the_paper": not average.contender.has_loose_baseline,
        "gangs": scene.gangs,
        "paper_jobs_per_hour": scene.rate,
        "jobs_per_hour": scene.jobs_per_hour,
        "arriving": scene.jobs,
        "measured": list(scene.window),
        "unfinished": measured.left,
        "hours": measured.hours,
        "ratio": average.times,
        "published_hours": average.published,
        "gpus_wanted_most": measured.wanted_most,
        "full_part": measured.full_part,
        "arrivals_end_early": measured.arrivals_end_early,
        **average.document,
    }


def _makespan_row(makespan: Makespan) -> dict[str, object]:
    return {
        "label": makespan.contender.label,
        "against": makespan.contender.against,
        "arriving": makespan.jobs,
        "hours": makespan.hours,
        "ratio": makespan.times,
        "published_hours": makespan.published,
        **makespan.document,
    }
