"""Gandiva's comparison as one run: early feedback, shares in turns, AutoML, and what is tried.

asked ─▶ runs ─▶ rows ─▶ verdicts ─▶ one document
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shunter.config import LoadedConfig
from shunter.core import Distribution, distribution
from shunter.run import Report, load_jobs, run_all, simulate
from shunter_papers.gandiva.automl import verdicts as automl_verdicts
from shunter_papers.gandiva.automl.comparison import AutoMl, compare
from shunter_papers.gandiva.figures import BATCH_S, CLAIMED_EARLIER, FIRST_BATCHES
from shunter_papers.gandiva.introspection import (
    comparison as introspection,
    verdicts as trial_verdicts,
)
from shunter_papers.gandiva.introspection.comparison import Trials
from shunter_papers.gandiva.rows import FeedbackRow, ShareRow, SuspensionRow
from shunter_papers.gandiva.scenes import (
    BASELINE,
    FULL,
    GPUS_PER_SERVER,
    LOADS,
    PHASES,
    POLICIES,
    QUICK,
    Feedback,
    Form,
    copying_config,
    six_config,
    six_jobs,
)
from shunter_papers.gandiva.verdicts import LEGEND, verdicts
from shunter_papers.gandiva.work_curves import WorkCurves

SCHEMA: Final = 1
FIRST_US: Final = round(FIRST_BATCHES * BATCH_S * 1_000_000)
"""The work of the first mini-batches, in microseconds."""

_KEPT: Final = ("jct_s", "wait_s", "makespan_s", "gpu_utilisation")


PARTS: Final = ("feedback", "shares", "automl", "trials")
"""The experiments: `shares` has what boundaries are worth, `trials` packs and moves."""


@dataclass(frozen=True)
class Asked:
    """What to run; `jobs`, `loads` and `searches` of None are those of the form."""

    seed: int = 0
    jobs: int | None = None
    loads: tuple[float, ...] | None = None
    full: bool = False
    searches: int | None = None
    parts: tuple[str, ...] = PARTS

    @property
    def form(self) -> Form:
        """The size of the cluster."""
        return FULL if self.full else QUICK

    @property
    def scenes(self) -> list[Feedback]:
        """The arrivals at several loads."""
        if "feedback" not in self.parts:
            return []
        loads = dict.fromkeys(self.loads or LOADS)
        return [Feedback(self.form, load, self.jobs or self.form.jobs, self.seed) for load in loads]

    def trials(self, workers: int, report: Report | None) -> Trials | None:
        """Run what is tried of packs and moves; None: it was not asked for."""
        if "trials" not in self.parts:
            return None
        return introspection.compare(self.form, self.seed, workers=workers, report=report)

    def automl(self, workers: int, report: Report | None) -> AutoMl | None:
        """Run the searches; None: they were not asked for."""
        if "automl" not in self.parts:
            return None
        main, others = self.form.searches
        return compare(self.seed, self.searches or main, others, workers=workers, report=report)


@dataclass(frozen=True)
class Reproduction:
    """Everything that was found."""

    document: dict[str, Any]
    feedback: tuple[FeedbackRow, ...]
    shares: tuple[ShareRow, ...]
    suspensions: tuple[SuspensionRow, ...]
    automl: AutoMl | None
    trials: Trials | None


@dataclass(frozen=True)
class _Run:
    scene: Feedback
    policy: str


@dataclass(frozen=True)
class _Played:
    measured: int
    load_offered: float
    first_s: Distribution
    document: Mapping[str, Any]


def reproduce(asked: Asked, *, workers: int = 1, report: Report | None = None) -> Reproduction:
    """Run the comparison.

    Args:
        asked: what to run.
        workers: how many processes.
        report: told how many runs are done.
    """
    runs = [_Run(scene, policy) for scene in asked.scenes for policy in POLICIES]
    found = dict(zip(runs, run_all(_play, runs, workers, report), strict=True))
    feedback = tuple(_rows(found))
    has_shares = "shares" in asked.parts
    shares = tuple(_shares(six_config())) if has_shares else ()
    suspensions = tuple(_suspensions()) if has_shares else ()
    automl = asked.automl(workers, report)
    trials = asked.trials(workers, report)
    document = {
        "schema": SCHEMA,
        "evidence": "simulated",
        "paper": "gandiva",
        "form": asked.form.name,
        "gpus": asked.form.gpus,
        "seed": asked.seed,
        "claimed_earlier": CLAIMED_EARLIER,
        "notes": [
            *(LEGEND if feedback else ()),
            *(automl_verdicts.LEGEND if automl else ()),
            *(trial_verdicts.LEGEND if trials else ()),
        ],
        "feedback": [row.document() for row in feedback],
        "shares": [row.document() for row in shares],
        "suspensions": [row.document() for row in suspensions],
        "automl": None if automl is None else automl.document(),
        "trials": None if trials is None else trials.document(),
        "sentences": [
            *verdicts(feedback, shares, suspensions),
            *(automl_verdicts.verdicts(automl) if automl else ()),
            *(trial_verdicts.verdicts(trials) if trials else ()),
        ],
    }
    return Reproduction(document, feedback, shares, suspensions, automl, trials)


def _play(run: _Run) -> _Played:
    """Run one policy at one load, and follow each job to its first mini-batches."""
    loaded = run.scene.config(run.policy)
    trace = load_jobs(loaded)
    long_enough = [job.job_id for job in trace.jobs if job.duration_us >= FIRST_US]
    curves = WorkCurves(enough_us=FIRST_US)
    result = simulate(loaded, trace=trace, listeners=[curves.observers()])
    spans_us = [
        passed_us - curve.submitted_us
        for curve in curves.of(long_enough)
        if (passed_us := curve.passed_us(FIRST_US)) is not None
    ]
    offered_us = sum(job.duration_us * job.spec.gpus for job in trace.jobs)
    span_us = trace.jobs[-1].submit_us * run.scene.form.gpus
    document: Mapping[str, Any] = result.document
    return _Played(
        len(spans_us),
        offered_us / span_us if span_us else 0.0,
        distribution(spans_us),
        {name: document[name] for name in _KEPT},
    )


def _rows(found: Mapping[_Run, _Played]) -> Iterator[FeedbackRow]:
    for run, played in found.items():
        against, mean = found[_Run(run.scene, BASELINE)].first_s.mean, played.first_s.mean
        earlier = against / mean if against is not None and mean else None
        yield FeedbackRow(
            run.scene,
            run.policy,
            played.measured,
            played.load_offered,
            played.first_s,
            earlier,
            played.document,
        )


def _suspensions() -> Iterator[SuspensionRow]:
    """Run the six jobs with turns that end at mini-batch boundaries, and anywhere."""
    for turn_ends in ("at_boundary", "at_once"):
        _, shared, _ = _shares(copying_config(turn_ends))
        yield SuspensionRow(turn_ends, GPUS_PER_SERVER - shared.together)


def _shares(config: LoadedConfig) -> Iterator[ShareRow]:
    """Run the six jobs on four GPUs, and count what each had in each phase."""
    curves = WorkCurves()
    simulate(config, trace=six_jobs(), listeners=[curves.observers()])
    for phase in PHASES:
        begin_us, end_us = phase.span_us
        shares = {
            str(job_id): (curve.done_us(end_us) - curve.done_us(begin_us)) / (end_us - begin_us)
            for job_id, curve in zip(phase.jobs, curves.of(phase.jobs), strict=True)
        }
        yield ShareRow(phase, shares)
