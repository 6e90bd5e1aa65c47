"""What Tiresias's paper ranks by: queues of attained service, Gittins index, expected rest."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from shunter.core import Job, View
from shunter.core.planning import Placement
from shunter.core.ranking import (
    Index,
    IndexDefaults,
    Measure,
    Note,
    NotedRanks,
    Notes,
    RankedPolicy,
)
from shunter.errors import ConfigError
from shunter.events import JobId
from shunter.policies.params import Duration, PolicyParams
from shunter.policies.tables import LOG, load_history


class QueueParams(PolicyParams):
    """The queues of a policy that demotes jobs by what they have used."""

    queues_gpu_s: tuple[Duration, ...] = Field(
        default=(3_600_000_000, 72_000_000_000),
        description="attained service at which a job falls to the next queue, in GPU-seconds "
        "(or written '1h'), strictly rising",
    )
    queues: int | None = Field(
        default=None,
        ge=1,
        description="how many queues there are: one more than thresholds; only a check",
    )

    @field_validator("queues_gpu_s")
    @classmethod
    def _rises(cls, bounds: tuple[int, ...]) -> tuple[int, ...]:
        if any(above <= below for below, above in pairwise((0, *bounds))):
            raise ValueError(
                "expected thresholds above 0 that strictly rise, such as ['1h', '20h']"
            )
        return bounds

    @model_validator(mode="after")
    def _counts(self) -> Self:
        expected = len(self.queues_gpu_s) + 1
        if self.queues is not None and self.queues != expected:
            raise ValueError(
                f"queues: {self.queues} queues need {self.queues - 1} thresholds, "
                f"but queues_gpu_s has {expected - 1}"
            )
        return self


# Tiresias: discretised 2D-LAS with promotion (Gu et al., NSDI 2019, section 3.2: STARVELIMIT =
# PROMOTEKNOB x executed time). A job falls to the next queue at the instant its service reaches a
# threshold; one that waited too long returns to the first, with its service counted from zero.
#
# Attained service is GPUs x time (2D), or time (1D). The wait for a promotion counts since the last
# one, after the job first ran again, to the microsecond. Deviation: thresholds are one and twenty
# GPU-hours and the knob is 100; the paper leaves both open. A low knob costs preemptions.

_INSTANT_BITS = 56  # below it the instant of entry, up to two thousand years


@dataclass(frozen=True)
class FeedbackQueues(IndexDefaults):
    """Ranks jobs by queue, then by the instant at which they entered it.

    `bounds_us` are in GPU-microseconds, or in microseconds where `counts_gpus` is false.
    `knob` is how many times its executed time a job waits before it is promoted; 0: never.
    """

    bounds_us: tuple[int, ...]
    knob: float = 0.0
    counts_gpus: bool = True
    name: str = "tiresias"
    measures = (Measure.queue, Measure.entered_us)

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return how a job stands of which nothing is known but its state."""
        return QueueRanks(self, {}).standing(job, view)

    def numbers(self, rank: int) -> tuple[int, ...]:
        """Return the queue, and the instant of entry in microseconds."""
        return rank >> _INSTANT_BITS, rank & ((1 << _INSTANT_BITS) - 1)

    def ranks(self, notes: Notes) -> NotedRanks:
        """Return the ranks by notes of entries and promotions."""
        return QueueRanks(self, notes.jobs)


class QueueRanks:
    """The queues of one cluster: moves jobs between them as time passes."""

    drifts = False
    wanders = False

    def __init__(self, rules: FeedbackQueues, notes: dict[JobId, Note]) -> None:
        self._bounds = rules.bounds_us
        self._counts_gpus = rules.counts_gpus
        self._knob, self._per = rules.knob.as_integer_ratio()
        self._notes = notes

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return queue and entry as a rank, and the next demotion or promotion."""
        now_us = view.now_us
        note = self._notes.get(job.job_id)
        if note is None:
            note = self._notes[job.job_id] = Note(job.submitted_us)
        since_us = job.since_us
        if since_us is not None:
            changes_at = self._serve(note, job, since_us, now_us)
        elif job.held_us != note.held_us:
            changes_at = self._keep_waiting(note, job, now_us)
        else:
            changes_at = None
        return (note.queue << _INSTANT_BITS) + note.entered_us, changes_at

    def ended(self, job: Job, *, finished: bool) -> bool:
        """Forget a job; nobody else's place depends on it."""
        self._notes.pop(job.job_id, None)
        return False

    def _serve(self, note: Note, job: Job, since_us: int, now_us: int) -> int | None:
        """Demote a job that holds GPUs as far as it has come; return when it falls next."""
        if note.waits_from_us is not None:
            self._promote(note, job, since_us)  # nobody may have looked since
        if note.waits_from_us is not None:
            note.waited_us += since_us - note.waits_from_us
            note.waits_from_us = None
        if self._counts_gpus:
            return self._demote(note, job.service_gpu_us, job.gpus, since_us, now_us)
        return self._demote(note, job.held_us, 1, since_us, now_us)

    def _demote(self, note: Note, done: int, pace: int, from_us: int, now_us: int) -> int | None:
        """Let a job fall from queue to queue, each time at the instant of its threshold.

        It had attained `done` at `from_us` and attains `pace` a microsecond. Returns when it will
        fall next.
        """
        bounds = self._bounds
        while note.queue < len(bounds) and pace:
            missing = bounds[note.queue] + note.service_us - done
            at_us = from_us - (-missing // pace)
            if at_us > now_us:
                return at_us
            note.entered_us = at_us
            note.queue += 1
        return None

    def _keep_waiting(self, note: Note, job: Job, now_us: int) -> int | None:
        """Note how a job that has run waits; promote it once that is too long.

        Returns when it will be, None if it is never.
        """
        since_us = job.waiting_since_us
        if since_us is None:
            return None
        if note.waits_from_us is None:
            # It held GPUs until this instant, and may have passed a threshold on its way out.
            note.waits_from_us = since_us
            done, pace = self._attained(job)
            self._demote(note, done, pace, since_us, since_us)
        return self._promote(note, job, now_us)

    def _promote(self, note: Note, job: Job, now_us: int) -> int | None:
        """Promote a job that has waited too long by now; return when it will, if ever."""
        executed_us = job.held_us - note.held_us
        if note.waits_from_us is None or not (note.queue and self._knob and executed_us):
            return None
        limit_us = -(-self._knob * executed_us // self._per)
        at_us = note.waits_from_us + max(1, limit_us - note.waited_us)
        if at_us > now_us:
            return at_us
        note.queue, note.entered_us = 0, at_us
        note.service_us, note.held_us = self._attained(job)[0], job.held_us
        note.waited_us, note.waits_from_us = 0, None
        return None

    def _attained(self, job: Job) -> tuple[int, int]:
        """Return what a waiting job has attained, and at which pace it did."""
        if self._counts_gpus:
            return job.service_gpu_us, job.spec.gpus
        return job.held_us, 1


class TiresiasParams(QueueParams):
    """The queues of Tiresias and when it promotes."""

    promote_knob: float = Field(
        default=100.0,
        ge=0,
        allow_inf_nan=False,
        strict=False,
        description="a preempted job is promoted to the first queue once it has waited this many "
        "times as long as it has run since its last promotion; 0 never promotes",
    )
    attained: Literal["gpu_time", "time"] = Field(
        default="gpu_time",
        description="what counts as attained service: GPUs x time (2D) or time alone (1D)",
    )


class Tiresias:
    """Discretised two-dimensional least attained service with promotion."""

    name = "tiresias"
    oracle = False
    Params = TiresiasParams

    @staticmethod
    def build(params: TiresiasParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        counts_gpus = params.attained == "gpu_time"
        return RankedPolicy(
            FeedbackQueues(params.queues_gpu_s, params.promote_knob, counts_gpus), placement
        )


# `gittins` is discretised 2D-Gittins (Gu et al., Tiresias, NSDI 2019, section 3.2.2): in a queue
# the highest index is first. `shortest_expected` ranks by the service still expected.
#
# The history is given, or is the log itself: the index follows when its jobs grew by a tenth.

# Three curves over attained service, constant between quantiles of the history, so that ranks
# change at few instants, known beforehand:
#
# - the Gittins index G(a) = sup over D of P(D, a) / E(D, a), where P is the chance that a job which
#   has attained `a` finishes within D more, and E the service it is expected to use of D (Gittins,
#   1979; Gu et al., Tiresias, NSDI 2019, section 3.2.2);
# - the same with one fixed quantum D;
# - the expected service still to come, E[X - a | X > a].

POINTS = 32
"""At so many points of attained service at most a curve changes."""

INDEX_ONE = 1 << 50
"""A Gittins index of one, which is certain completion within one GPU-microsecond."""

LARGEST_INDEX_US = 1 << 50
"""The rest expected of a job that has outlived the whole history."""


@dataclass(frozen=True)
class Steps:
    """A function of attained service: `values[i]` from `points[i]` on."""

    points: tuple[int, ...]
    values: tuple[int, ...]

    def at(self, attained_us: int) -> tuple[int, int | None]:
        """Return the value, and the attained service at which it becomes another one."""
        place = bisect_right(self.points, attained_us)
        following = self.points[place] if place < len(self.points) else None
        return self.values[place - 1], following


def gittins_index(
    history: Sequence[int], quantum_us: int | None = None, points: int = POINTS
) -> Steps:
    """Return the Gittins index, in units of 1 / (INDEX_ONE GPU-microseconds).

    Args:
        history: GPU time of jobs in GPU-microseconds, ascending; empty: nothing is known.
        quantum_us: the service D a job is thought to get at once; None: the best one.
        points: at how many points at most the index changes.
    """
    sums = [0, *accumulate(history)]

    def index(point: int) -> int:
        first = bisect_right(history, point)
        if quantum_us is not None:
            lasts = [bisect_right(history, point + quantum_us)]
        else:
            lasts = [*range(first + 1, len(history) + 1)]
        best_done, best_used = 0, 1
        for last in lasts:
            quantum = history[last - 1] - point if quantum_us is None else quantum_us
            done = last - first
            used = sums[last] - sums[first] - done * point + quantum * (len(history) - last)
            if done * best_used > best_done * used:
                best_done, best_used = done, used
        return min(INDEX_ONE, best_done * INDEX_ONE // best_used)

    return _steps(history, points, index)


def expected_rest(history: Sequence[int], points: int = POINTS) -> Steps:
    """Return the service a job is expected to need still.

    In GPU-microseconds, rounded down. The arguments are those of `gittins_index`.
    """
    sums = [0, *accumulate(history)]

    def rest(point: int) -> int:
        first = bisect_right(history, point)
        left = len(history) - first
        return (sums[-1] - sums[first]) // left - point if left else LARGEST_INDEX_US

    return _steps(history, points, rest)


def _steps(history: Sequence[int], points: int, value_of: Callable[[int], int]) -> Steps:
    """Evaluate a curve at zero and at quantiles of the history, the last one too."""
    count = len(history)
    chosen = {history[(part + 1) * count // points - 1] for part in range(points)} if count else ()
    places = [0, *sorted(chosen)]
    found: list[tuple[int, int]] = []
    for place in places:
        value = value_of(place)
        if not found or found[-1][1] != value:
            found.append((place, value))
    return Steps(tuple(place for place, _ in found), tuple(value for _, value in found))


_INDEX_BITS = 52  # above INDEX_ONE and LARGEST_INDEX_US


@dataclass(frozen=True)
class ServiceSteps(IndexDefaults):
    """Ranks jobs by queue, then by a curve over attained service in GPU-microseconds.

    `highest` says that high values go first. Queues are those of attained service between bounds.
    """

    name: str
    steps: Steps
    highest: bool
    bounds_gpu_us: tuple[int, ...] = ()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What its numbers count."""
        return Measure.queue, Measure.gittins if self.highest else Measure.expected_gpu_us

    def numbers(self, rank: int) -> tuple[int, ...]:
        """Return the queue, and the value of the curve."""
        queue, value = rank >> _INDEX_BITS, rank & ((1 << _INDEX_BITS) - 1)
        return queue, INDEX_ONE - value if self.highest else value

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the rank by attained service, and when the next step of it is reached."""
        now_us, gpus, bounds = view.now_us, job.gpus, self.bounds_gpu_us
        service_us = job.service_us(now_us)
        value, following = self.steps.at(service_us)
        queue = bisect_right(bounds, service_us)
        rank = (queue << _INDEX_BITS) + (INDEX_ONE - value if self.highest else value)
        if queue < len(bounds) and (following is None or bounds[queue] < following):
            following = bounds[queue]
        if not gpus or following is None:
            return rank, None
        return rank, now_us - (service_us - following) // gpus


@dataclass(frozen=True)
class LearnedFromLog(ServiceSteps):
    """The same over the jobs that finished so far; `curve` makes the steps."""

    curve: Callable[[Any], Steps] = gittins_index

    def ranks(self, notes: Notes) -> NotedRanks:
        """Return the ranks by what has finished so far."""
        return _Learner(self, notes)


class _Learner:
    """Ranks by the service of finished jobs, and learns from each that finishes."""

    drifts = False
    wanders = False

    def __init__(self, rules: LearnedFromLog, notes: Notes) -> None:
        self._rules = rules
        self._notes = notes
        self._ranks = self._learned()

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the rank by attained service, and when it changes next."""
        return self._ranks.standing(job, view)

    def ended(self, job: Job, *, finished: bool) -> bool:
        """Learn from a job that finished; say whether that was reason to rank all anew."""
        notes = self._notes
        if not finished or job.service_gpu_us <= 0:
            return False
        notes.finished.append(job.service_gpu_us)
        if len(notes.finished) * 10 < notes.learned * 11:
            return False
        notes.learned = len(notes.finished)
        self._ranks = self._learned()
        return True

    def _learned(self) -> ServiceSteps:
        rules, notes = self._rules, self._notes
        steps = rules.curve(sorted(notes.finished[: notes.learned]))
        return ServiceSteps(rules.name, steps, rules.highest, rules.bounds_gpu_us)


History = str | tuple[Duration, ...]


class HistoryParams(PolicyParams):
    """Where the samples come from."""

    history: History = Field(
        default="builtin:yarn-gput1000",
        description="GPU time of earlier jobs: 'builtin:yarn-gput1000', a file of ascending "
        "GPU-seconds, a distribution such as 'exponential:3600', a list of GPU-seconds, or "
        "'log' to learn from the jobs that finish",
    )
    points: int = Field(
        default=POINTS,
        ge=1,
        le=1024,
        description="at how many points of attained service a rank changes at most",
    )

    @field_validator("history")
    @classmethod
    def _is_known(cls, history: History) -> History:
        if history != LOG:
            samples_of(history)
        return history


def samples_of(history: History) -> tuple[int, ...]:
    """Return the samples a parameter stands for, in GPU-microseconds.

    Raises:
        ValueError: there is no such history; files are read where the config is.
    """
    if isinstance(history, str):
        try:
            return load_history(history, _no_file)
        except ConfigError as error:
            raise ValueError(str(error)) from error
    if not history:
        raise ValueError("the history is empty: expected at least one number of GPU-seconds")
    if history[0] <= 0 or list(history) != sorted(history):
        raise ValueError("expected ascending GPU-seconds above 0: sort them")
    return history


def _no_file(path: str) -> str:
    raise ConfigError(f"there is no file {path}; check the path")


def built(
    name: str,
    params: HistoryParams,
    curve: Callable[[Any], Steps],
    placement: Placement,
    *,
    highest: bool,
    bounds_gpu_us: tuple[int, ...] = (),
) -> RankedPolicy:
    """Return the policy of a curve over a history, given or learned from the log."""
    index: Index
    if params.history == LOG:
        index = LearnedFromLog(name, curve(()), highest, bounds_gpu_us, curve=curve)
    else:
        index = ServiceSteps(name, curve(samples_of(params.history)), highest, bounds_gpu_us)
    return RankedPolicy(index, placement)


class GittinsParams(QueueParams, HistoryParams):
    """Queues, history and quantum of 2D-Gittins."""

    quantum_gpu_s: Duration | None = Field(
        default=None,
        gt=0,
        description="the service a job is thought to get at once; by default the best one, which "
        "is the index as Gittins defines it",
    )


class Gittins:
    """Discretised 2D-Gittins: the highest chance of finishing per service goes first."""

    name = "gittins"
    oracle = False
    Params = GittinsParams

    @staticmethod
    def build(params: GittinsParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""

        def curve(history: Any) -> Steps:
            return gittins_index(history, params.quantum_gpu_s, params.points)

        bounds = params.queues_gpu_s
        return built("gittins", params, curve, placement, highest=True, bounds_gpu_us=bounds)


class ShortestExpected:
    """The least expected service still to come goes first."""

    name = "shortest_expected"
    oracle = False
    Params = HistoryParams

    @staticmethod
    def build(params: HistoryParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""

        def curve(history: Any) -> Steps:
            return expected_rest(history, params.points)

        return built("shortest_expected", params, curve, placement, highest=False)
