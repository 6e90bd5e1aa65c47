"""What a log measured: what starts and suspensions cost, how fast jobs are, what they worked.

    attempts ─▶ costs (`fit_costs`) ─┬─▶ a config and a table of rates, which predict the cluster
                                     └─▶ a trace of the same jobs, with the work that they did

`Fitted` counts in microseconds, what is written in seconds.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import fmean
from typing import Any, Final, NamedTuple

from shunter.ask.attempts import (
    Observed,
    ObservedAttempt,
    ObservedJob,
    checkpoint_interval_us,
    known_step,
    mean_speed,
    observe_log,
)
from shunter.ask.log_reading import Advance
from shunter.core.speeds import JobKind
from shunter.errors import TraceError
from shunter.events import GpuType, JobId, Outcome
from shunter.events.log import LogReader
from shunter.run import named_kinds
from shunter.workloads import JobEnd, QualityReport, Trace, TraceJob

# A start-up lasts until the first mini-batch begins. In older logs it is found from a piece of an
# attempt up to a known step (a checkpoint, or the end), which took
#
#     time since AttemptStarted = preparation + steps x mini-batch
#
# with one preparation for each kind of launch, and one mini-batch for each kind of job, by least
# squares with the variance of a piece as its steps. Mini-batches known alone count by their mean; a
# sampled one only where nothing else is known.
#
# All are means, not medians: completion times are made of their sums, rare long ones included.

LEAST_US = 1
"""What a trace knows as work: a job without any is no job of it."""


class Launch(StrEnum):
    """Which launch of a job an attempt began with."""

    start = "start"
    resume = "resume"
    migrate = "migrate"


class FittedKind(NamedTuple):
    """Jobs that are equally fast: a model on so many GPUs; without a model, one job."""

    model: str
    gpus: int
    gpu_type: GpuType
    job_id: str = ""


@dataclass(frozen=True)
class Fitted:
    """What was measured, in microseconds, from how many attempts.

    `launch_us`, `suspend_us` and `turn_us` (GPUs change hands) lack what nothing showed.
    `wait_us` is how long a launch waited on average for who starts jobs instead of the scheduler
    (Slurm), before its start-up begins, `notice_us` how long jobs that were told to leave worked on
    until they saw it. `batch_us` is the time of a mini-batch by kind. `types` are the GPU types of
    the cluster, the base type first.
    """

    launch_us: Mapping[Launch, int]
    launches: Mapping[Launch, int]
    suspend_us: int | None
    suspensions: int
    batch_us: Mapping[FittedKind, float] = field(default_factory=dict)
    types: tuple[GpuType, ...] = ()
    turn_us: int | None = None
    turns: int = 0
    wait_us: int = 0
    notice_us: int = 0

    def start_up_us(self, attempt: ObservedAttempt) -> int:
        """Return how long the start-up of an attempt takes by what was measured."""
        return self._start_up_us(launch_of(attempt))

    def cost_us(self, launch: Launch) -> int:
        """Return how long a launch takes from its order until the job is at work.

        One that was not seen takes as long as those most like it that were.
        """
        return self._start_up_us(launch) + self.wait_us

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """What nothing in the log showed, and what it is taken for instead, in sentences."""
        by_launch, found = self.launch_us, []
        if not by_launch:
            found.append("this log has no job that started, so starts are taken to last no time")
        elif by_launch.keys() == {Launch.start}:
            found.append(
                "this log has no job that was resumed, so a resume is taken to last as long as "
                "a start"
            )
        if self.suspend_us is None:
            found.append(
                "this log has no job that saved and left its GPUs, so that is taken to last no time"
            )
        return tuple(found)

    def _start_up_us(self, launch: Launch) -> int:
        by_launch = self.launch_us
        found = by_launch.get(launch)
        if found is None and launch is not Launch.start:
            found = by_launch.get(Launch.resume, by_launch.get(Launch.migrate))
        return by_launch.get(Launch.start, 0) if found is None else found

    @property
    def speeds(self) -> dict[GpuType, float]:
        """How fast jobs are on each GPU type relative to the first, as far as kinds tell."""
        if not self.types:
            return {}
        base, found = self.types[0], {self.types[0]: 1.0}
        for gpu_type in self.types[1:]:
            ratios = [
                self.batch_us[kind._replace(gpu_type=base)] / batch_us
                for kind, batch_us in self.batch_us.items()
                if kind.gpu_type == gpu_type and kind._replace(gpu_type=base) in self.batch_us
            ]
            if ratios:
                found[gpu_type] = fmean(ratios)
        return found


class _Piece(NamedTuple):
    """A part of an attempt up to a known step, in microseconds.

    With the preparation of its launch; None: without one, from a known step on. `speed` is what the
    contract of its job left there: mini-batches are fitted as they are at full speed.
    """

    launch: Launch | None
    kind: FittedKind
    took_us: int
    steps: int
    speed: float = 1.0


def fit_costs(observed: Observed) -> Fitted:
    """Return the costs that the attempts of a log show."""
    pieces = [piece for job in observed.jobs for piece in _pieces(job)]
    prepares_us, batch_us = _solved(pieces, _sampled(observed.jobs))
    starts_us: dict[Launch, list[float]] = defaultdict(list)
    for job in observed.jobs:
        for attempt in job.seen:
            spent_us: float = attempt.at_work_us - attempt.launched_us
            if attempt.trained_us is not None:
                spent_us = max(spent_us, told_start_up_us(job, attempt, batch_us))
            elif job.tells_steps:
                spent_us += prepares_us.get(launch_of(attempt), 0)
            starts_us[launch_of(attempt)].append(spent_us)
    waits_us = [each.launched_us - each.ordered_us for job in observed.jobs for each in job.seen]
    leaves_us = [us for job in observed.jobs for us, _ in _suspensions_us(job)]
    notices_us = [us for job in observed.jobs for _, us in _suspensions_us(job)]
    return Fitted(
        {launch: round(fmean(starts_us[launch])) for launch in sorted(starts_us)},
        {launch: len(starts_us.get(launch, ())) for launch in Launch},
        round(fmean(leaves_us)) if leaves_us else None,
        len(leaves_us),
        batch_us,
        observed.types,
        round(fmean(observed.switches_us)) if observed.switches_us else None,
        len(observed.switches_us),
        round(fmean(waits_us)) if waits_us else 0,
        round(fmean(notices_us)) if notices_us else 0,
    )


def told_start_up_us(
    job: ObservedJob, attempt: ObservedAttempt, batch_us: Mapping[FittedKind, float]
) -> float:
    """Return how long an attempt took before the first mini-batch that it told."""
    assert attempt.trained_us is not None, "it told it"
    batch = batch_us.get(kind_of(job, attempt), 0.0)
    batch /= mean_speed(attempt.paces, attempt.trained_us, attempt.trained_us)
    return attempt.trained_us - attempt.stopped_at_first_us - batch - attempt.launched_us


def launch_of(attempt: ObservedAttempt) -> Launch:
    """Return which launch an attempt began with."""
    if attempt.number == 1:
        return Launch.start
    return Launch.migrate if attempt.is_elsewhere else Launch.resume


def kind_of(job: ObservedJob, attempt: ObservedAttempt) -> FittedKind:
    """Return which kind a job is, where and with the gang an attempt had."""
    spec, gpus = job.spec, attempt.gpus
    if not spec.model:
        return FittedKind("", gpus, attempt.gpu_type, job.job_id)
    batch = "" if spec.batch_size is None else f" (batch size {spec.batch_size})"
    return FittedKind(f"{spec.model}{batch}", gpus, attempt.gpu_type)


def _pieces(job: ObservedJob) -> Iterator[_Piece]:
    if not job.tells_steps:
        return
    for attempt in job.seen:
        launch, since_us, before = launch_of(attempt), attempt.seen_us, attempt.first_step
        kind = kind_of(job, attempt)
        prepares: Launch | None = launch
        if attempt.trained_us is not None:
            prepared_us = attempt.trained_us - attempt.stopped_at_first_us - since_us
            speed = mean_speed(attempt.paces, attempt.trained_us, attempt.trained_us)
            yield _Piece(launch, kind, prepared_us, 1, speed)
            prepares, since_us, before = None, attempt.trained_us, before + 1
        found = known_step(job, attempt)
        if found is None or attempt.stopped_since_us is not None:
            continue
        at_us, step = found
        if attempt.stopped_us and not (attempt.turns is not None and at_us == attempt.ended_us):
            continue  # nobody knows how much of that was before the step
        stood_us = attempt.stopped_us - (0 if prepares else attempt.stopped_at_first_us)
        took_us = at_us - since_us - stood_us
        if step > before and took_us > 0:
            speed = mean_speed(attempt.paces, since_us, at_us)
            yield _Piece(prepares, kind, took_us, step - before, speed)


def _solved(
    pieces: Sequence[_Piece], sampled_us: Mapping[FittedKind, Sequence[float]]
) -> tuple[dict[Launch, int], dict[FittedKind, float]]:
    """Return what explains the pieces best: preparations and mini-batches.

    A kind for whose mini-batches others' preparations leave no time is one that was not measured.
    """
    others = {kind: fmean(us) for kind, us in sorted(sampled_us.items())}
    if not pieces:
        return {}, others
    launches = sorted({piece.launch for piece in pieces if piece.launch is not None})
    known, whole = _known_us(pieces), [piece for piece in pieces if piece.launch is not None]
    # Where one mini-batch is all that was told, nobody knows its part; it counts as none then.
    asked = {piece.kind for piece in whole if piece.steps > 1} | others.keys()
    kinds = sorted(asked - known.keys())
    while True:
        prepares_us, batch_us = _best(whole, known, others, launches, kinds)
        left = [kind for kind in kinds if batch_us[kind] >= LEAST_US]
        if left == kinds:
            return prepares_us, dict(sorted((batch_us | known).items()))
        kinds = left


def _known_us(pieces: Iterable[_Piece]) -> dict[FittedKind, float]:
    """Return the mean mini-batch of each kind that has some without a start-up."""
    sums: dict[FittedKind, tuple[float, int]] = {}
    for piece in pieces:
        if piece.launch is None:
            us, steps = sums.get(piece.kind, (0.0, 0))
            sums[piece.kind] = us + piece.took_us * piece.speed, steps + piece.steps
    return {kind: max(LEAST_US, us / steps) for kind, (us, steps) in sums.items()}


def _best(
    pieces: Sequence[_Piece],
    known: Mapping[FittedKind, float],
    others: Mapping[FittedKind, float],
    launches: Sequence[Launch],
    kinds: Sequence[FittedKind],
) -> tuple[dict[Launch, int], dict[FittedKind, float]]:
    """Return least squares of preparations and mini-batches, maybe below 0.

    Args:
        pieces: what was measured, each with a preparation.
        known: mini-batches of other kinds, in microseconds.
        others: the same by samples, of any kinds.
        launches: whose preparations are asked for.
        kinds: whose mini-batches are asked for; those of others count as none.
    """
    import numpy as np

    sampled = [kind for kind in kinds if kind in others]
    rows = np.zeros((len(pieces) + len(sampled), len(launches) + len(kinds)))
    took_us, steps = np.zeros(len(rows)), np.ones(len(rows))
    for number, piece in enumerate(pieces):
        if piece.launch is not None:
            rows[number, launches.index(piece.launch)] = 1.0
        if piece.kind in kinds:
            rows[number, len(launches) + kinds.index(piece.kind)] = piece.steps / piece.speed
        known_us = known.get(piece.kind, 0.0) * piece.steps / piece.speed
        took_us[number], steps[number] = piece.took_us - known_us, piece.steps
    for number, kind in enumerate(sampled, start=len(pieces)):
        steps[number] = max((each.steps for each in pieces if each.kind == kind), default=1)
        rows[number, len(launches) + kinds.index(kind)] = steps[number]
        took_us[number] = steps[number] * others[kind]
    scale = 1.0 / np.sqrt(steps)
    solved = np.linalg.lstsq(rows * scale[:, None], took_us * scale, rcond=None)[0]
    found = [float(us) for us in solved]
    prepares_us = {launch: max(0, round(us)) for launch, us in zip(launches, found, strict=False)}
    return prepares_us, dict(zip(kinds, found[len(launches) :], strict=True))


def _sampled(jobs: Iterable[ObservedJob]) -> dict[FittedKind, list[float]]:
    """Return the sampled mini-batches by kind, in microseconds."""
    found: dict[FittedKind, list[float]] = defaultdict(list)
    for job in jobs:
        for attempt in job.seen:
            if attempt.batches_s:
                left_us = attempt.ended_us or attempt.seen_us
                full_us = 1e6 * mean_speed(attempt.paces, attempt.seen_us, left_us)
                found[kind_of(job, attempt)] += [full_us * each for each in attempt.batches_s]
    return found


def _suspensions_us(job: ObservedJob) -> Iterator[tuple[int, int]]:
    """Yield how long a job took each time to leave, and before, to see that."""
    if not job.saves_on_leaving:
        return
    for attempt in job.seen:
        told_us, released_us = attempt.told_us, attempt.released_us
        if told_us is None or released_us is None or attempt.suspended_us is None:
            continue
        if attempt.escalated or attempt.is_lost or attempt.has_exited or attempt.lost_us:
            continue
        seen_us = max((told_us, *attempt.acknowledged_us[:1]))
        is_at_work = attempt.trained_us is None or attempt.trained_us <= told_us
        yield released_us - seen_us, seen_us - told_us if is_at_work else 0


def work_us(job: ObservedJob, observed: Observed, fitted: Fitted) -> int:
    """Return the work of a job that ran, in microseconds on the first GPU type.

    In a simulation that is the run time that its trace declared, or, if a time limit ended it,
    what it had done. Live it is the time at work in all attempts, without their start-ups and what
    was lost, at the speed that its contract says of its GPUs and neighbours then. With another gang
    than was submitted it is as much more as that one is faster: by what was measured of both, or
    else as it has GPUs, as simulations count it. A job that was shorter
    than a start-up takes did the least work there is.
    """
    if observed.is_simulated:
        is_whole = job.submitted.duration_us is not None and job.outcome is not Outcome.timeout
        return max(LEAST_US, (job.submitted.duration_us or 0) if is_whole else job.counted_us)
    kept = (
        _kept_us(attempt, fitted)
        * _speed_of_gang(job, attempt, fitted)
        * mean_speed(attempt.paces, *_at_work(attempt, fitted))
        for attempt in job.seen
    )
    return max(LEAST_US, round(sum(kept)))


def slowed_us(job: ObservedJob, fitted: Fitted, at_us: int | None = None) -> int:
    """Return what the contract of a job took of its work, up to an instant.

    Without one, in all attempts. Who sees that it is at work, and no more, counts this as work.
    """
    taken = 0.0
    for attempt in job.seen:
        began_us, until_us = _at_work(attempt, fitted)
        kept_us: float = _kept_us(attempt, fitted)
        over_us = attempt.worked_until_us
        if at_us is not None and (over_us is None or over_us > at_us):
            part_us, stood_us = max(0, at_us - began_us), attempt.stopped_us
            if over_us is not None:  # which part it stood still by then is not known: as of all
                stood_us = stood_us * part_us // max(1, over_us - began_us)
            kept_us, until_us = max(0, part_us - stood_us), at_us
        speed = mean_speed(attempt.paces, began_us, until_us)
        taken += kept_us * _speed_of_gang(job, attempt, fitted) * (1.0 - speed)
    return round(taken)


def _speed_of_gang(job: ObservedJob, attempt: ObservedAttempt, fitted: Fitted) -> float:
    """Return how fast the gang of an attempt is by its GPU type and its size."""
    return fitted.speeds.get(attempt.gpu_type, 1.0) * _speed_of_size(job, attempt, fitted)


def _speed_of_size(job: ObservedJob, attempt: ObservedAttempt, fitted: Fitted) -> float:
    """Return how fast the gang of an attempt is over the one that was submitted."""
    submitted = job.spec.gpus
    if attempt.gpus == submitted or not submitted:
        return 1.0
    kind = kind_of(job, attempt)
    now_us, before_us = (fitted.batch_us.get(kind._replace(gpus=n)) for n in (kind.gpus, submitted))
    if now_us and before_us:
        return before_us / now_us
    return attempt.gpus / submitted


def _at_work(attempt: ObservedAttempt, fitted: Fitted) -> tuple[int, int]:
    """Return from when to when an attempt did work that counts; equal: none."""
    began_us = attempt.launched_us + fitted.start_up_us(attempt)
    until_us = attempt.worked_until_us
    if attempt.is_lost and not attempt.lost_us:  # a live log does not say how much was lost
        until_us = attempt.saves[-1][0] if attempt.saves else began_us
    return began_us, began_us if until_us is None else until_us


def _kept_us(attempt: ObservedAttempt, fitted: Fitted) -> int:
    """Return the time at work of one attempt that was not done again."""
    began_us, until_us = _at_work(attempt, fitted)
    return max(0, until_us - began_us - attempt.stopped_us - attempt.lost_us)


# A live scheduler takes all time at work for work at full speed; a simulated world counts it at the
# speed that the contract says. Of t seconds at speed s, t x (1 - s) are no work there.


@dataclass(frozen=True)
class Slowed:
    """The jobs that were slower by their contracts, and the costs of their log."""

    jobs: Mapping[JobId, ObservedJob] = field(default_factory=dict)
    fitted: Fitted | None = None

    @property
    def assumed(self) -> tuple[str, ...]:
        """What is taken for granted of them, in sentences."""
        words = (
            "jobs worked as fast as their contracts say of their GPUs and of who ran beside them; "
            "curves that were learnt do not count"
        )
        return (words,) if self.jobs else ()

    def by_us(self, job_id: JobId, at_us: int) -> int:
        """Return how much of the time at work of a job up to an instant was no work."""
        job = self.jobs.get(job_id)
        return 0 if job is None or self.fitted is None else slowed_us(job, self.fitted, at_us)

    def speed(self, job_id: JobId, at_us: int) -> float:
        """Return how fast the attempt is that a job had begun last at an instant."""
        job = self.jobs.get(job_id)
        begun = [] if job is None else [each for each in job.seen if each.seen_us <= at_us]
        return mean_speed(begun[-1].paces, at_us, at_us) if begun else 1.0


NOT_SLOWED = Slowed()


def slowed_in(observed: Observed, fitted: Fitted) -> Slowed:
    """Return what a live log shows of that; in a simulated one speeds are told."""
    if observed.is_simulated:
        return NOT_SLOWED
    jobs = {
        job.job_id: job
        for job in observed.jobs
        if any(pace.speed != 1.0 for each in job.seen for pace in each.paces)
    }
    return Slowed(jobs, fitted)


_SCHEMA: Final = 1
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNEVEN: Final = 0.2
"""By how much of the mean start-up those of models may differ without a word."""
_NO_TIME: Final = "a simulation takes 0 s for it"
_LEFT_OUT: Final = {
    Launch.start: _NO_TIME,
    Launch.resume: _NO_TIME,
    Launch.migrate: "a simulation takes resume for it",
}
_WORDS: Final = {
    Launch.start: "first launches",
    Launch.resume: "launches on the GPUs that a job had before",
    Launch.migrate: "launches on other GPUs",
}


def config_text(observed: Observed, fitted: Fitted, trace: str, rates: str | None = None) -> str:
    """Return the log's cluster and policy with the measured costs, as TOML.

    Args:
        observed: what the log says.
        fitted: what was measured of it.
        trace: the file of jobs that the config names.
        rates: the file with the table of throughputs, if one is written.
    """
    record: dict[str, object] = json.loads(observed.config)
    kept = {key: record[key] for key in ("schema", "seed", "cluster", "policy", "queues")}
    workload: dict[str, object] = {"trace": trace}
    simulation: dict[str, object] = {"costs": _costs(fitted)}
    if rates is not None:
        workload |= {"throughputs": rates, "base_type": fitted.types[0]}
    if len(fitted.speeds) > 1:
        speeds = {name: round(speed, 6) for name, speed in fitted.speeds.items()}
        simulation["speeds"] = {"relative": speeds}
    tree = kept | {"workload": workload, "simulation": simulation}
    return "\n".join([*_head(observed, fitted), *_toml(tree, ()), ""])


def rates_document(fitted: Fitted) -> dict[str, Any]:
    """Return mini-batches per second as a table of throughputs in compact form.

    Raises:
        TraceError: no job with a model told its steps.
    """
    kinds = sorted({(kind.model, kind.gpus) for kind in fitted.batch_us if kind.model})
    if not kinds:
        raise TraceError(
            "no job that names a model told its steps, so there are no rates: submit with --model "
            "and --steps, and train with the SDK"
        )
    alone = {
        gpu_type: [_rate(fitted, FittedKind(model, gpus, gpu_type)) for model, gpus in kinds]
        for gpu_type in sorted(fitted.types)
    }
    base = fitted.types[0]
    return {"base": base, "kinds": [list(kind) for kind in kinds], "alone": alone, "pairs": {}}


def without_rates(observed: Observed, fitted: Fitted) -> list[str]:
    """Return what to say of jobs that ran, and of which there is no rate."""
    known = {(kind.model, kind.gpus) for kind in fitted.batch_us if kind.model}
    found: dict[JobKind, list[JobId]] = {}
    for job in observed.jobs:
        if job.seen and job.spec.gpus:
            kind = kind_of(job, job.seen[0])
            if (kind.model, job.spec.gpus) not in known:
                found.setdefault(JobKind(kind.model, job.spec.gpus), []).append(job.job_id)
    if not found:
        return []
    said = (
        f"there is no rate of {named_kinds(found)}, as no such job told its steps: a simulation "
        "takes the duration_s of their trace"
    )
    return [said]


def uneven_starts(observed: Observed, fitted: Fitted) -> list[str]:
    """Return what to say of models that start up differently."""
    by_model: dict[str, list[float]] = defaultdict(list)
    for job in observed.jobs:
        for attempt in job.seen[:1]:
            if attempt.number == 1 and attempt.trained_us is not None and job.spec.model:
                start_up_us = told_start_up_us(job, attempt, fitted.batch_us)
                by_model[job.spec.model].append(start_up_us / 1e6)
    means = sorted((fmean(found), model) for model, found in by_model.items())
    start_s = fitted.launch_us.get(Launch.start, 0) / 1e6
    if not means or means[-1][0] - means[0][0] <= _UNEVEN * start_s:
        return []
    (least_s, quick), (most_s, slow) = means[0], means[-1]
    said = (
        f"{quick} starts up in {least_s:.3g} s and {slow} in {most_s:.3g} s, and a simulation "
        f"takes {start_s:.3g} s for each: it is off by the difference wherever a job starts"
    )
    return [said]


def fit_document(observed: Observed, fitted: Fitted) -> dict[str, object]:
    """Return what was measured as one document, in seconds."""
    return {
        "schema": _SCHEMA,
        "log": {"url": observed.url, "digest": observed.digest},
        "jobs": len(observed.jobs),
        "costs": {
            **{
                str(launch): {
                    "s": us / 1e6 if (us := fitted.launch_us.get(launch)) is not None else None,
                    "attempts": fitted.launches.get(launch, 0),
                }
                for launch in Launch
            },
            "wait": {"s": fitted.wait_us / 1e6, "attempts": sum(fitted.launches.values())},
            "suspend": {
                "s": None if fitted.suspend_us is None else fitted.suspend_us / 1e6,
                "attempts": fitted.suspensions,
            },
            "turn": {
                "s": None if fitted.turn_us is None else fitted.turn_us / 1e6,
                "switches": fitted.turns,
            },
        },
        "rates": [
            {
                "model": kind.model or None,
                "job_id": kind.job_id or None,
                "gpus": kind.gpus,
                "gpu_type": kind.gpu_type,
                "steps_per_s": round(1e6 / batch_us, 6),
            }
            for kind, batch_us in fitted.batch_us.items()
        ],
        "speeds": {name: round(speed, 6) for name, speed in fitted.speeds.items()},
    }


def left_out(fitted: Fitted) -> list[str]:
    """Return a sentence about each cost that nothing in the log showed."""
    found = [
        f"{launch} is left out, because the log has no {words}: {_LEFT_OUT[launch]}"
        for launch, words in _WORDS.items()
        if launch not in fitted.launch_us
    ]
    if fitted.suspend_us is None:
        found.append(f"suspend is left out, because no job saved and left: {_NO_TIME}")
    return found


def _rate(fitted: Fitted, kind: FittedKind) -> float | None:
    batch_us = fitted.batch_us.get(kind)
    return None if batch_us is None else round(1e6 / batch_us, 6)


def _costs(fitted: Fitted) -> dict[str, float]:
    """Return the costs by their keys, in seconds; what nothing showed is left out."""
    found = {str(launch): fitted.cost_us(launch) for launch in fitted.launch_us}
    if fitted.suspend_us is not None:
        found["suspend"] = fitted.suspend_us
    if fitted.turn_us is not None:
        found["turn"] = fitted.turn_us
    order = ("start", "suspend", "resume", "migrate", "turn")
    return {key: found[key] / 1e6 for key in order if key in found}


def _head(observed: Observed, fitted: Fitted) -> Iterator[str]:
    yield f"# Measured in {observed.url}, {len(observed.jobs)} jobs; costs in seconds, of these:"
    for launch, words in _WORDS.items():
        yield f"# {launch}: {fitted.launches.get(launch, 0)} {words}"
    yield f"# suspend: {fitted.suspensions} times that a job saved and left"
    if fitted.turns:
        yield f"# turn: {fitted.turns} times that GPUs changed hands between jobs that share them"
    if fitted.wait_us:
        wait_s = f"{fitted.wait_us / 1e6:.3g}"
        yield f"# launches: {wait_s} s of each are its wait for who starts jobs instead, as Slurm"
    yield from (f"# {sentence}" for sentence in left_out(fitted))


def _toml(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: its values first, then the tables in it."""
    inner: list[tuple[str, str, list[dict[str, object]]]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            inner.append((key, "[{}]", [value]))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            inner.append((key, "[[{}]]", value))
        elif value is not None:
            yield f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}"
    for key, heading, tables in inner:
        name = ".".join(_key(part) for part in (*path, key))
        for each in tables:
            yield ""
            yield heading.format(name)
            yield from _toml(each, (*path, key))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


# Work is time at work without start-ups, suspensions and what was lost, which a simulation adds.
# Jobs that have not run to their ends are left out: nobody saw how long they run.

_ENDS = {
    Outcome.finished: JobEnd.finished,
    Outcome.failed: JobEnd.failed,
    Outcome.timeout: JobEnd.failed,
    Outcome.cancelled: JobEnd.cancelled,
}


async def observed_trace(reader: LogReader, advance: Advance | None = None) -> tuple[Trace, int]:
    """Return the trace of the jobs that ended, and how many others there were.

    Raises:
        TraceError: no job has run to its end.
    """
    observed = await observe_log(reader, advance)
    fitted = fit_costs(observed)
    seen = [
        _observed(job, observed, fitted)
        for job in sorted(observed.jobs, key=lambda job: job.ordinal)
        if job.has_run and job.outcome in _ENDS
    ]
    if not seen:
        raise TraceError(f"no job of {reader.url} has run to its end: there is nothing to export")
    ended = {job.job_id for job in seen}
    jobs = tuple(_without_others(job, ended) for job in seen)
    report = QualityReport(len(jobs), len(jobs), len(jobs))
    trace = Trace(reader.url, "observed", jobs, observed.digest, report)
    return trace, len(observed.jobs) - len(jobs)


def _observed(job: ObservedJob, observed: Observed, fitted: Fitted) -> TraceJob:
    assert job.outcome is not None, "a job that has ended has an outcome"
    spec, every_us = job.spec, checkpoint_interval_us(job)
    if every_us != spec.checkpoint_interval_us or spec.retries:  # all its attempts are in its work
        spec = replace(spec, checkpoint_interval_us=every_us, retries=0)
    duration_us = work_us(job, observed, fitted)
    return TraceJob(job.job_id, job.submitted.at_us, spec, duration_us, _ENDS[job.outcome])


def _without_others(job: TraceJob, ended: set[JobId]) -> TraceJob:
    """Return the job without dependencies on jobs that are left out."""
    kept = tuple(each for each in job.spec.depends_on if each.job_id in ended)
    if len(kept) < len(job.spec.depends_on):
        job.spec = replace(job.spec, depends_on=kept)
    return job
