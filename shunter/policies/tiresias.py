"""Tiresias: least attained service over queues, with promotion of those that starve.

A job enters the last place of the first queue. When its attained service reaches a threshold, it
falls to the last place of the next queue, at that very instant; queues are served in order, each
first in, first out. A job that had to wait for long compared with what it could run is promoted to
the last place of the first queue, with its service counted from zero (Gu et al., NSDI 2019,
section 3.2: discretised 2D-LAS, STARVELIMIT = PROMOTEKNOB x executed time).

Attained service is GPUs x time (2D), or time alone (1D). What counts as waiting for a promotion is
all the time a job waited since its last one and after it first ran again; it is counted to the
microsecond, so a promotion has an exact instant as well: the first microsecond of its wait, if a
job had waited for long enough before it fell. Deviation: the thresholds are our default of one and
twenty GPU-hours and the knob is 100; the paper leaves both to the operator. A low knob shares the
cluster in turns once it is overloaded, which costs preemptions.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from shunter.core.planning.placement import Placement
from shunter.core.ranking import Measure, Misfit, Note, NotedRanks, Notes, RankedPolicy
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.ids import JobId
from shunter.policies.queues import QueueParams

_QUEUE_SHIFT = 56  # below it the instant of entry, up to two thousand years


@dataclass(frozen=True)
class FeedbackQueues:
    """Ranks jobs by queue, then by the instant at which they entered it.

    `bounds_us` are in GPU-microseconds, or in microseconds where `counts_gpus` is false.
    `knob` is how many times its executed time a job waits before it is promoted; 0: never.
    """

    bounds_us: tuple[int, ...]
    knob: float = 0.0
    counts_gpus: bool = True
    name: str = "tiresias"
    version: str = "1"
    oracle: bool = False
    preemptive: bool = True
    drifts: bool = False
    wanders: bool = False
    misfit: Misfit = Misfit.skipped

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return how a job stands of which nothing is known but its state."""
        return QueueRanks(self, {}).standing(job, view)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What its numbers count."""
        return Measure.queue, Measure.entered_us

    def numbers(self, rank: int) -> tuple[int, ...]:
        """Return the queue, and the instant of entry in microseconds."""
        return rank >> _QUEUE_SHIFT, rank & ((1 << _QUEUE_SHIFT) - 1)

    def ranks(self, notes: Notes) -> NotedRanks:
        """Return the ranks by notes of entries and promotions."""
        return QueueRanks(self, notes.jobs)


class QueueRanks:
    """The queues of one cluster: moves jobs between them as time passes."""

    __slots__ = (
        "_bounds",
        "_counts_gpus",
        "_knob",
        "_notes",
        "_per",
    )

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
        return (note.queue << _QUEUE_SHIFT) + note.entered_us, changes_at

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
