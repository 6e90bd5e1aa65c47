"""One job's own events as its history: attempts with their instants, and how it ended.

An attempt is granted before it has a number: the number comes with the first fact that names it.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from shunter.api.job_rows import Dated
from shunter.ask import AttemptTurns, allocation_in_words
from shunter.counting import signal_in_words
from shunter.events import (
    EXITED,
    GIVEN_UP,
    JOB_ENDS,
    AllocationChanged,
    AllocationLearned,
    AttemptEnded,
    AttemptLost,
    AttemptSetAside,
    AttemptStarted,
    CheckpointDiscarded,
    CheckpointSaved,
    Event,
    GpusReleased,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobId,
    JobPriorityChanged,
    JobRejected,
    JobReshaped,
    JobSubmitted,
    JobSuspended,
    LaunchFailed,
    MessagesDropped,
    Outcome,
    ProfileSampled,
    Sharing,
    SuspendAcknowledged,
    SuspendEscalated,
    TurnEnded,
    TurnStarted,
    end_us_of,
    outcome_of,
)


@dataclass(slots=True)
class Attempt:
    """One launch; instants in microseconds, None: has not happened.

    `turns` are those that it had on GPUs which it shares; None: its GPUs are its own. `gone_us` is
    when its processes ended by themselves, which a scheduler that was away saw only later.
    """

    number: int
    where: str = ""
    gpus: int = 0
    rule: str = ""
    granted_us: int = 0
    started_us: int | None = None
    resumed_from: str = ""
    asked_us: int | None = None
    acknowledged_us: int | None = None
    escalated: tuple[str, ...] = ()
    saved_us: int | None = None
    suspended_us: int | None = None
    step: int | None = None
    ended_us: int | None = None
    ended_by: str = ""
    exit_code: int | None = None
    memory_kills: int = 0
    killed_by: str = ""
    gone_us: int | None = None
    released_us: int | None = None
    lost_us: int = 0
    discarded: CheckpointDiscarded | None = None
    dropped: int = 0
    dropped_because: str = ""
    set_aside_by: str = ""
    turns: AttemptTurns | None = None

    @property
    def service_gpu_us(self) -> int:
        """What it had, in GPU-microseconds, once it is over: its turns if it took any."""
        if self.started_us is None or self.released_us is None:
            return 0
        over_us = self.released_us if self.gone_us is None else self.gone_us
        if self.turns is not None:
            return self.turns.service_gpu_us(over_us)
        return self.gpus * max(0, over_us - self.started_us)

    def document(self, dated: Dated) -> dict[str, object]:
        """Return it with dates."""
        was_suspended = self.suspended_us is not None  # it may have ended before it had to leave
        return {
            "attempt": self.number,
            "where": self.where,
            "granted_at": dated(self.granted_us),
            "rule": self.rule,
            "started_at": date_or_none(self.started_us, dated),
            "resumed_from": self.resumed_from,
            "suspend_asked_at": date_or_none(self.asked_us, dated),
            "acknowledged_at": date_or_none(self.acknowledged_us, dated),
            "escalated_to": list(self.escalated),
            "saved_at": date_or_none(self.saved_us, dated),
            "step": self.step,
            "ended_at": date_or_none(self.ended_us, dated),
            "ended_by": self.ended_by,
            "exit_code": self.exit_code,
            **({"killed_by": self.killed_by} if self.killed_by else {}),
            "memory_kills": self.memory_kills,
            "released_at": date_or_none(self.released_us, dated),
            "lost_s": self.lost_us / 1e6,
            "suspend_s": _span_s(self.asked_us, self.released_us) if was_suspended else None,
            "discarded_at": None if self.discarded is None else dated(self.discarded.at_us),
            "discarded_because": "" if self.discarded is None else _because(self.discarded),
            "messages_dropped": self.dropped,
            "dropped_because": self.dropped_because,
            "set_aside_by": self.set_aside_by,
        }


@dataclass(slots=True)
class JobHistory:
    """A job from its submission on; no outcome: it has not ended."""

    submitted: JobSubmitted
    attempts: list[Attempt] = field(default_factory=list)
    outcome: Outcome | None = None
    cause: str = ""
    exit_code: int | None = None
    ended_us: int | None = None
    sample: ProfileSampled | None = None
    changed_priority: int | None = None
    _grant: Attempt | None = None

    @property
    def priority(self) -> int:
        """The priority that it has, or had at its end."""
        asked, changed = self.submitted.spec.priority, self.changed_priority
        return asked if changed is None else changed

    @property
    def killed_by(self) -> str:
        """The signal that its last processes were killed by, if it failed with that."""
        has_failed = self.outcome is Outcome.failed and self.cause == EXITED
        return self.attempts[-1].killed_by if has_failed and self.attempts else ""

    @property
    def started_us(self) -> int | None:
        """When its processes first ran."""
        return next((one.started_us for one in self.attempts if one.started_us is not None), None)

    @property
    def run_us(self) -> int:
        """How long its attempts ran, those that are over."""
        spans = [(one.started_us, one.ended_us or one.released_us) for one in self.attempts]
        return sum(end - start for start, end in spans if start is not None and end is not None)

    @property
    def service_gpu_us(self) -> int | None:
        """What its attempts had, in GPU-microseconds; None: none of them has started.

        Each from its start to the end of its processes, or else to the release of its GPUs: when
        it was launched, from when on the scheduler counts, its own events do not say. One that took
        turns had those.
        """
        if self.started_us is None:
            return None
        return sum([one.service_gpu_us for one in self.attempts])

    def upto(self, number: int) -> list[Attempt]:
        """Return its attempts, with the last one though nothing is known of it yet."""
        if self._grant is None or any(one.number >= number for one in self.attempts):
            return self.attempts
        return [*self.attempts, replace(self._grant, number=number)]

    def take(self, event: Event) -> None:
        """Go through the next event about the job."""
        if isinstance(event, AllocationChanged):
            self._allocate(event)
        elif isinstance(event, AllocationLearned):
            self._learn(event)
        elif isinstance(event, JobReshaped):
            self._rehome(event)
        elif isinstance(event, ProfileSampled):
            self.sample = event
        elif isinstance(event, JobPriorityChanged):
            self.changed_priority = event.priority
        elif isinstance(event, JOB_ENDS):
            self._end(event)
        elif isinstance(event, _EXECUTION):
            one = self._attempt(event.attempt, event.at_us)
            _execute(one, event)
            if one.turns is not None:
                one.turns.take(event)

    def row(self, dated: Dated) -> dict[str, object]:
        """Return it as a row of history; it has ended."""
        spec = self.submitted.spec
        assert self.outcome is not None, "it has ended"
        assert self.ended_us is not None, "it has ended"
        return {
            "id": self.submitted.job_id,
            "name": spec.name,
            "user": spec.user,
            "queue": spec.queue,
            "gpus": spec.gpus,
            "state": self.outcome.value,
            "cause": self.cause,
            "exit_code": self.exit_code,
            **({"killed_by": self.killed_by} if self.killed_by else {}),
            "submitted_at": dated(self.submitted.at_us),
            "started_at": date_or_none(self.started_us, dated),
            "ended_at": dated(self.ended_us),
            "attempts": len(self.attempts),
            "run_s": self.run_us / 1e6,
        }

    def _allocate(self, event: AllocationChanged) -> None:
        current = self.attempts[-1] if self.attempts else None
        if current is None or current.released_us is not None:
            current = self._grant  # it may have been launched, and not have begun yet
        if current is not None and current.asked_us is None:
            current.asked_us = event.at_us
        if event.allocation.shares:
            where = allocation_in_words(event.allocation)
            gpus = event.allocation.gpus
            self._grant = Attempt(0, where, gpus, event.because.rule, event.at_us)
            if event.allocation.sharing is Sharing.sliced:
                self._grant.turns = AttemptTurns(gang=gpus if event.allocation.is_spread else 0)

    def _learn(self, event: AllocationLearned) -> None:
        """Say of an attempt where it was found, which may be elsewhere than was granted."""
        attempt = self._attempt(event.attempt, event.at_us)
        attempt.where = allocation_in_words(event.allocation)
        attempt.gpus = event.allocation.gpus

    def _rehome(self, event: JobReshaped) -> None:
        """Say on which GPUs of its server it has its turns from now on."""
        going = self._grant or (self.attempts[-1] if self.attempts else None)
        if going is not None and going.turns is not None:
            going.where = allocation_in_words(event.allocation)

    def _attempt(self, number: int, at_us: int) -> Attempt:
        """Return an attempt by its number; a new one is what was granted last."""
        for known in self.attempts:
            if known.number == number:
                return known
        made = replace(self._grant or Attempt(0, granted_us=at_us), number=number)
        self._grant = None
        self.attempts.append(made)
        return made

    def _end(self, event: JobFinished | JobFailed | JobCancelled | JobRejected) -> None:
        self.outcome, self.ended_us = outcome_of(event), end_us_of(event)
        if isinstance(event, JobFinished):
            self.exit_code = 0
        elif isinstance(event, JobFailed):
            self.cause, self.exit_code = event.cause, event.exit_code
        elif isinstance(event, JobCancelled):
            self.cause = event.cause
        else:
            self.cause = f"{event.reason.value}: {event.detail}" if event.detail else event.reason
        if self.attempts and self.attempts[-1].released_us is None:
            last = self.attempts[-1]
            last.released_us = event.at_us
            if last.turns is not None:
                last.turns.take(event)


_EXECUTION = (
    AttemptStarted,
    SuspendAcknowledged,
    SuspendEscalated,
    CheckpointSaved,
    CheckpointDiscarded,
    JobSuspended,
    AttemptEnded,
    AttemptLost,
    LaunchFailed,
    GpusReleased,
    MessagesDropped,
    AttemptSetAside,
    TurnStarted,
    TurnEnded,
)


def history_of(events: Iterable[Event]) -> JobHistory | None:
    """Return the history that a job's events tell; None if it was never submitted."""
    history: JobHistory | None = None
    for event in events:
        if isinstance(event, JobSubmitted):
            history = JobHistory(event)
        elif history is not None:
            history.take(event)
    return history


def _execute(one: Attempt, event: Event) -> None:
    """Note in an attempt what happened to it."""
    at_us = event.at_us
    if isinstance(event, AttemptStarted):
        one.started_us = at_us if event.started_us is None else event.started_us
        one.resumed_from = event.resumed_from
    elif isinstance(event, SuspendAcknowledged):
        one.acknowledged_us = at_us
    elif isinstance(event, SuspendEscalated):
        one.escalated = (*one.escalated, event.mode.value)
    elif isinstance(event, CheckpointSaved):
        one.saved_us, one.step = at_us, event.step if event.step is not None else one.step
    elif isinstance(event, CheckpointDiscarded):
        one.discarded = event
    elif isinstance(event, JobSuspended):
        one.ended_us = one.suspended_us = at_us
        one.lost_us = event.lost_us
        one.ended_by = f"suspended: {event.cause}" if event.cause else "suspended"
        one.step = event.step if event.step is not None else one.step
    elif isinstance(event, AttemptEnded):
        one.ended_us = at_us if event.ended_us is None else event.ended_us
        if one.started_us is not None and one.started_us > one.ended_us:
            one.started_us = one.granted_us  # both were seen late; it began after this
        one.gone_us = event.ended_us
        one.killed_by = "" if event.signal is None else signal_in_words(event.signal)
        one.ended_by, one.exit_code = "exit", event.exit_code
        one.memory_kills = event.memory_kills
    elif isinstance(event, AttemptLost):
        one.ended_us = one.released_us = at_us
        one.ended_by = f"lost: {event.cause}"
    elif isinstance(event, LaunchFailed):
        one.ended_us = one.released_us = at_us
        one.ended_by = f"not launched: {event.cause}"
    elif isinstance(event, GpusReleased):
        one.released_us = at_us
    elif isinstance(event, MessagesDropped):
        one.dropped, one.dropped_because = max(one.dropped, event.count), event.cause
    elif isinstance(event, AttemptSetAside):
        one.set_aside_by = event.by


def _because(event: CheckpointDiscarded) -> str:
    """Return why a checkpoint was discarded: what was lost, or who gave it up."""
    nodes = ", ".join(event.nodes)
    if event.cause == GIVEN_UP:
        return f"{event.by or 'somebody'} gave it up while {nodes} did not answer"
    return f"{nodes} was lost"


def date_or_none(at_us: int | None, dated: Dated) -> str | None:
    """Return the date of an instant that may not have come."""
    return None if at_us is None else dated(at_us)


def _span_s(from_us: int | None, to_us: int | None) -> float | None:
    return None if from_us is None or to_us is None else (to_us - from_us) / 1e6


ENDED_MOST = 10_000


class JobHistories:
    """Histories by job: all that go on, and the newest of those that have ended.

    Fed with every durable event, in order. Jobs submitted before the daemon started are not among
    them until somebody asked: the log has those.
    """

    def __init__(self) -> None:
        self._going: dict[JobId, JobHistory] = {}
        self._ended: OrderedDict[JobId, JobHistory] = OrderedDict()

    def of(self, job_id: JobId) -> JobHistory | None:
        """Return the history of a job up to the last event taken; None: not known here."""
        return self._going.get(job_id) or self._ended.get(job_id)

    def take(self, event: Event) -> None:
        """Go through the next durable event."""
        job_id = getattr(event, "job_id", None)
        if job_id is None:
            return
        if isinstance(event, JobSubmitted):
            self._going[job_id] = JobHistory(event)
        elif (history := self._going.get(job_id)) is not None:
            history.take(event)
            if isinstance(event, JOB_ENDS):
                del self._going[job_id]
                self.keep(job_id, history)

    def adopt(self, job_id: JobId, history: JobHistory) -> None:
        """Go on with a history read from the log, up to the last event taken."""
        if history.outcome is None:
            self._going[job_id] = history
        else:
            self.keep(job_id, history)

    def keep(self, job_id: JobId, history: JobHistory) -> None:
        """Keep the history of a job that has ended; the one kept longest may go for it."""
        self._ended[job_id] = history
        if len(self._ended) > ENDED_MOST:
            self._ended.popitem(last=False)
