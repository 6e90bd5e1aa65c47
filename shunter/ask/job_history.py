"""The history of one job: its attempts with their instants, and how it ended.

    submitted ─▶ granted ─▶ launched ─▶ started ─ work ─▶ asked to leave ─▶ suspended ─▶ released
                    ▲                                                                       │
                    └───────────────────────────── next attempt ◀───────────────────────────┘

It is made of the job's own events, in order, so that a daemon keeps it for each of its jobs and the
index of a log is enough to read one. An attempt is granted before it has a number: the number comes
with the first event that names it. If the job is given other GPUs before that, only the state says
whether what it was granted first was launched (`JobHistory.is_unclear`): a daemon forgets such a
history, and `read_histories` folds the log up to there. `attempts.py` follows the whole fold.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import ClassVar

from shunter.ask.log_reading import LogFold, noted_us_of
from shunter.ask.words import allocation_in_words
from shunter.counting import signal_in_words
from shunter.events import (
    EXITED,
    GIVEN_UP,
    JOB_ENDS,
    NOTHING,
    Allocation,
    Event,
    JobId,
    NodeName,
    Share,
    Sharing,
    end_us_of,
    facts,
    outcome_of,
)
from shunter.events.log import LogReader

Dated = Callable[[int], str]
"""Turns an instant of the log into a date."""

# Turns count from when they really began to when they really ended, even if that was seen later. A
# gang's turn counts while the turns on all of its servers are on; how far they are apart is its
# *skew*.

_OVER = (
    facts.JobSuspended,
    facts.AttemptEnded,
    facts.AttemptLost,
    facts.LaunchFailed,
    facts.GpusReleased,
    *JOB_ENDS,
)


@dataclass(slots=True)
class AttemptTurns:
    """The turns so far of an attempt; times in microseconds.

    `changed_us` is when the last one began or ended (None: there was none), or its work began.
    `gpus` are those of the turn that it has, 0: it has none. `past_us` and `past_gpu_us` are of
    turns that are over. `gang` is how many GPUs a turn is on, where servers tell of parts (0: they
    do not), `parts` since when which of them are on, with their GPUs; `skews_us` how far apart they
    began. `places` is where its last turn was, by server.
    """

    count: int = 0
    changed_us: int | None = None
    gpus: int = 0
    past_us: int = 0
    past_gpu_us: int = 0
    gang: int = 0
    parts: dict[NodeName, tuple[int, int]] = field(default_factory=dict)
    skews_us: list[int] = field(default_factory=list)
    places: dict[NodeName, Share] = field(default_factory=dict)

    @property
    def is_on(self) -> bool:
        """Whether it has its turn."""
        return bool(self.gpus)

    def on_us(self, now_us: int) -> int:
        """Return for how long it had its turn, up to an instant."""
        return self.past_us + self._present_us(now_us)

    def service_gpu_us(self, now_us: int) -> int:
        """Return its service up to an instant, in GPU-microseconds."""
        return self.past_gpu_us + self.gpus * self._present_us(now_us)

    def take(self, event: Event) -> None:
        """Go through the next event about its job while it is under way."""
        if isinstance(event, facts.TurnStarted):
            self.parts |= {share.node: (happened_us(event), share.gpus) for share in event.shares}
            self.places |= {share.node: share for share in event.shares}
            gpus = sum([gpus for _, gpus in self.parts.values()])
            if gpus >= self.gang:
                self._begin(gpus)
        elif isinstance(event, facts.TurnEnded):
            for node in event.nodes or tuple(self.parts):
                self.parts.pop(node, None)
            if self.gpus or not self.gang:
                self._change(happened_us(event))
                at_us = self.changed_us or 0
                self.parts = {node: (at_us, gpus) for node, (_, gpus) in self.parts.items()}
        elif isinstance(event, facts.AttemptStarted):
            self._change(event.at_us if event.started_us is None else event.started_us)
        elif isinstance(event, _OVER):
            self.parts.clear()
            if self.gpus:
                self._change(happened_us(event))

    def _begin(self, gpus: int) -> None:
        """Begin a turn, that of a gang when the last of its parts did."""
        began = [began_us for began_us, _ in self.parts.values()]
        self._change(max(began))
        self.count += 1
        self.gpus = gpus
        if len(began) > 1:
            self.skews_us.append(max(began) - min(began))

    def _change(self, at_us: int) -> None:
        """End the turn that it has, if any; nothing changes before what changed last."""
        at_us = at_us if self.changed_us is None else max(at_us, self.changed_us)
        present_us = self._present_us(at_us)
        self.past_us += present_us
        self.past_gpu_us += self.gpus * present_us
        self.gpus, self.changed_us = 0, at_us

    def _present_us(self, now_us: int) -> int:
        """Return how long the turn lasts that it has."""
        return max(0, now_us - self.changed_us) if self.gpus and self.changed_us is not None else 0


def happened_us(event: Event) -> int:
    """Return when a turn changed or processes went, though that was seen later."""
    noted_us = noted_us_of(event)
    return event.at_us if noted_us is None else noted_us


@dataclass(slots=True)
class Attempt:
    """One launch; instants in microseconds, None: has not happened.

    `turns` are those that it had on GPUs which it shares; None: its GPUs are its own. `asked_us` is
    when it was told to leave them. `acknowledged_us` are when it saw that, first and last.
    `gone_us` is when its processes ended by themselves, which a scheduler that was away saw only
    later. It `has_exited` if they did, and `is_lost` if its server or supervisor was.
    """

    number: int
    allocation: Allocation = NOTHING
    rule: str = ""
    granted_us: int = 0
    started_us: int | None = None
    resumed_from: str = ""
    asked_us: int | None = None
    acknowledged_us: tuple[int, ...] = ()
    escalated: tuple[str, ...] = ()
    saved_us: int | None = None
    suspended_us: int | None = None
    step: int | None = None
    ended_us: int | None = None
    ended_by: str = ""
    has_exited: bool = False
    is_lost: bool = False
    exit_code: int | None = None
    memory_kills: int = 0
    killed_by: str = ""
    gone_us: int | None = None
    released_us: int | None = None
    lost_us: int = 0
    discarded: facts.CheckpointDiscarded | None = None
    dropped: int = 0
    dropped_because: str = ""
    set_aside_by: str = ""
    turns: AttemptTurns | None = None

    @property
    def where(self) -> str:
        """Its GPUs in words; empty: nothing was granted that is known."""
        return allocation_in_words(self.allocation) if self.allocation.shares else ""

    @property
    def began_us(self) -> int | None:
        """When its processes began; where that was seen only after their end, its grant."""
        began_us, ended_us = self.started_us, self.ended_us
        is_seen_late = self.has_exited and began_us is not None and began_us > (ended_us or 0)
        return self.granted_us if is_seen_late else began_us

    @property
    def service_gpu_us(self) -> int:
        """What it had, in GPU-microseconds, once it is over: its turns if it took any."""
        if self.began_us is None or self.released_us is None:
            return 0
        over_us = self.released_us if self.gone_us is None else self.gone_us
        if self.turns is not None:
            return self.turns.service_gpu_us(over_us)
        return self.allocation.gpus * max(0, over_us - self.began_us)

    def take(self, event: Event) -> None:
        """Go through the next event that names it."""
        at_us = event.at_us
        if isinstance(event, facts.AttemptStarted):
            self.started_us = at_us if event.started_us is None else event.started_us
            self.resumed_from = event.resumed_from
        elif isinstance(event, facts.SuspendAcknowledged):
            self.acknowledged_us = (*self.acknowledged_us[:1], at_us)
        elif isinstance(event, facts.SuspendEscalated):
            self.escalated = (*self.escalated, event.mode.value)
        elif isinstance(event, facts.CheckpointSaved):
            self.saved_us, self.step = at_us, self.step if event.step is None else event.step
        elif isinstance(event, facts.CheckpointDiscarded):
            self.discarded = event
        elif isinstance(event, facts.JobSuspended):
            self.ended_us, self.suspended_us, self.lost_us = at_us, at_us, event.lost_us
            self.ended_by = f"suspended: {event.cause}" if event.cause else "suspended"
            self.step = self.step if event.step is None else event.step
            self.exit_code = event.exit_code
        elif isinstance(event, facts.AttemptEnded):
            self._exit(event)
        elif isinstance(event, facts.AttemptLost):
            self.ended_us = self.released_us = at_us
            self.ended_by, self.is_lost, self.lost_us = f"lost: {event.cause}", True, event.lost_us
        elif isinstance(event, facts.LaunchFailed):
            self.ended_us = self.released_us = at_us
            self.ended_by = f"not launched: {event.cause}"
        elif isinstance(event, facts.GpusReleased):
            self.released_us = at_us
        elif isinstance(event, facts.MessagesDropped):
            self.dropped, self.dropped_because = max(self.dropped, event.count), event.cause
        elif isinstance(event, facts.AttemptSetAside):
            self.set_aside_by = event.by
        if self.turns is not None:
            self.turns.take(event)

    def document(self, dated: Dated) -> dict[str, object]:
        """Return it with dates."""
        was_suspended = self.suspended_us is not None  # it may have ended before it had to leave
        return {
            "attempt": self.number,
            "where": self.where,
            "granted_at": dated(self.granted_us),
            "rule": self.rule,
            "started_at": date_or_none(self.began_us, dated),
            "resumed_from": self.resumed_from,
            "suspend_asked_at": date_or_none(self.asked_us, dated),
            "acknowledged_at": date_or_none(next(reversed(self.acknowledged_us), None), dated),
            "escalated_to": list(self.escalated),
            "saved_at": date_or_none(self.saved_us, dated),
            "step": self.step,
            "ended_at": date_or_none(self.ended_us, dated),
            "ended_by": self.ended_by,
            "exit_code": self.exit_code,
            **({"killed_by": self.killed_by} if self.killed_by else {}),
            "memory_kills": self.memory_kills,
            "released_at": date_or_none(self.released_us, dated),
            "lost_s": 0.0 if self.is_lost else self.lost_us / 1e6,
            "suspend_s": _span_s(self.asked_us, self.released_us) if was_suspended else None,
            "discarded_at": None if self.discarded is None else dated(self.discarded.at_us),
            "discarded_because": "" if self.discarded is None else _because(self.discarded),
            "messages_dropped": self.dropped,
            "dropped_because": self.dropped_because,
            "set_aside_by": self.set_aside_by,
        }

    def _exit(self, event: facts.AttemptEnded) -> None:
        self.ended_us, self.gone_us, self.has_exited = happened_us(event), event.ended_us, True
        self.killed_by = "" if event.signal is None else signal_in_words(event.signal)
        self.ended_by, self.exit_code = "exit", event.exit_code
        self.memory_kills = event.memory_kills


WARNINGS_MOST = 32
"""So many warnings of a job are kept, the last ones."""


@dataclass(slots=True)
class JobHistory:
    """A job from its submission on; no outcome: it has not ended.

    `warnings` are those to its owner by their text, the one that was said last at the end.
    """

    attempt_type: ClassVar[type[Attempt]] = Attempt
    submitted: facts.JobSubmitted
    attempts: list[Attempt] = field(default_factory=list)
    outcome: facts.Outcome | None = None
    cause: str = ""
    exit_code: int | None = None
    ended_us: int | None = None
    sample: facts.ProfileSampled | None = None
    warnings: dict[str, facts.JobWarned] = field(default_factory=dict)
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
        has_failed = self.outcome is facts.Outcome.failed and self.cause == EXITED
        return self.attempts[-1].killed_by if has_failed and self.attempts else ""

    @property
    def started_us(self) -> int | None:
        """When its processes first ran."""
        return next((one.began_us for one in self.attempts if one.began_us is not None), None)

    @property
    def run_us(self) -> int:
        """How long its attempts ran, those that are over."""
        spans = [(one.began_us, one.ended_us or one.released_us) for one in self.attempts]
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
        known = self.attempts[-1].number if self.attempts else 0
        if self._grant is None or known >= number:
            return self.attempts
        return [*self.attempts, replace(self._grant, number=number)]

    def is_unclear(self, event: Event) -> bool:
        """Say whether it depends on the state if its last grant was launched.

        Its own events do not tell that where one gives it GPUs, and none was about that attempt.
        Where outcomes take no time, it was launched.
        """
        if not isinstance(event, facts.AllocationChanged) or not event.allocation.shares:
            return False
        is_open = bool(self.attempts) and self.attempts[-1].released_us is None
        return self._grant is not None and not is_open and not event.instant

    def launched(self, number: int) -> None:
        """Note that an attempt has what was granted last, if it is not known yet."""
        if self._grant is not None:
            self._attempt(number, self._grant.granted_us)

    def take(self, event: Event) -> None:
        """Go through the next event about the job."""
        if isinstance(event, facts.AllocationChanged):
            self._allocate(event)
        elif isinstance(event, facts.AllocationLearned):  # it may be elsewhere than was granted
            self._attempt(event.attempt, event.at_us).allocation = event.allocation
        elif isinstance(event, facts.JobReshaped):
            going = self._grant or (self.attempts[-1] if self.attempts else None)
            if going is not None:
                going.allocation = event.allocation
        elif isinstance(event, facts.ProfileSampled):
            self.sample = event
        elif isinstance(event, facts.JobPriorityChanged):
            self.changed_priority = event.priority
        elif isinstance(event, facts.JobWarned):
            self._warn(event)
        elif isinstance(event, JOB_ENDS):
            self._end(event)
        elif isinstance(event, _OF_ATTEMPTS):
            self._attempt(event.attempt, event.at_us).take(event)

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

    def warned(self, dated: Dated) -> list[dict[str, object]]:
        """Return the warnings to its owner, each when it was said last."""
        return [
            {
                "text": text,
                "attempt": event.attempt,
                "at": dated(event.at_us),
                "step": event.step,
            }
            for text, event in self.warnings.items()
        ]

    def _warn(self, event: facts.JobWarned) -> None:
        self.warnings.pop(event.text, None)
        self.warnings[event.text] = event
        while len(self.warnings) > WARNINGS_MOST:
            del self.warnings[next(iter(self.warnings))]

    def _allocate(self, event: facts.AllocationChanged) -> None:
        current = self.attempts[-1] if self.attempts else None
        if current is None or current.released_us is not None:
            current = self._grant  # it may have been launched, and not have begun yet
        if current is not None and current.asked_us is None:
            if _is_opened(current.allocation, event.allocation):
                current.allocation = event.allocation
                return
            current.asked_us = event.at_us
        granted = event.allocation
        if granted.shares:
            self._grant = self.attempt_type(0, granted, event.because.rule, event.at_us)
            self._grant.turns = turns_on(granted)

    def _attempt(self, number: int, at_us: int) -> Attempt:
        """Return an attempt by its number; a new one is what was granted last."""
        for known in self.attempts:
            if known.number == number:
                return known
        made = replace(self._grant or self.attempt_type(0, granted_us=at_us), number=number)
        self._grant = None
        self.attempts.append(made)
        return made

    def _end(
        self, event: facts.JobFinished | facts.JobFailed | facts.JobCancelled | facts.JobRejected
    ) -> None:
        self.outcome, self.ended_us = outcome_of(event), end_us_of(event)
        if isinstance(event, facts.JobFinished):
            self.exit_code = 0
        elif isinstance(event, facts.JobFailed):
            self.cause, self.exit_code = event.cause, event.exit_code
        elif isinstance(event, facts.JobCancelled):
            self.cause = event.cause
        else:
            self.cause = f"{event.reason.value}: {event.detail}" if event.detail else event.reason
        if self.attempts and self.attempts[-1].released_us is None:
            last = self.attempts[-1]
            last.released_us = event.at_us
            if last.turns is not None:
                last.turns.take(event)


_OF_ATTEMPTS = (
    *(
        facts.AttemptStarted,
        facts.SuspendAcknowledged,
        facts.SuspendEscalated,
        facts.CheckpointSaved,
        facts.CheckpointDiscarded,
    ),
    *(
        facts.JobSuspended,
        facts.AttemptEnded,
        facts.AttemptLost,
        facts.LaunchFailed,
        facts.GpusReleased,
        facts.MessagesDropped,
    ),
    *(facts.AttemptSetAside, facts.TurnStarted, facts.TurnEnded),
)


def turns_on(granted: Allocation) -> AttemptTurns | None:
    """Return the turns of an attempt at its start; None: its GPUs are its own."""
    if granted.sharing is not Sharing.sliced:
        return None
    return AttemptTurns(gang=granted.gpus if granted.is_spread else 0)


def _is_opened(held: Allocation, given: Allocation) -> bool:
    """Say whether an attempt is only to share its GPUs: see `Job.stays_for`."""
    is_packed = given.sharing is Sharing.packed and held.sharing is Sharing.exclusive
    return is_packed and held.shares == given.shares


async def read_histories(
    reader: LogReader, job_ids: Iterable[JobId], upto: int | None = None
) -> dict[JobId, JobHistory]:
    """Return the histories of jobs that were submitted, up to an event.

    The index finds their own events. The log is folded for those that are unclear alone, from the
    nearest snapshots on.

    Args:
        reader: the log.
        job_ids: which jobs.
        upto: the last event; None: that of the log.
    Raises:
        LogDamagedError: the bytes are not what was written.
        IllegalEventError: an event does not fit those before it.
    """
    found: dict[JobId, JobHistory] = {}
    fold = LogFold(reader)
    events = [
        (seq, job_id, event)
        for job_id in job_ids
        for seq, event in await reader.job_events(job_id, upto)
    ]
    for seq, job_id, event in sorted(events, key=itemgetter(0)):
        history = found.get(job_id)
        if isinstance(event, facts.JobSubmitted):
            found[job_id] = JobHistory(event)
        elif history is not None:
            if history.is_unclear(event):
                job = (await fold.reach(seq - 1)).jobs[job_id]
                if job.since_us is not None:
                    history.launched(job.attempt)
            history.take(event)
    return found


ENDED_MOST = 10_000


class JobHistories:
    """Histories by job: all that go on, and the newest of those that have ended.

    Fed with every durable event, in order. Jobs submitted before the daemon started, or of which an
    event was unclear, are not among them until somebody asked: the log has those.
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
        if isinstance(event, facts.JobSubmitted):
            self._going[job_id] = JobHistory(event)
        elif (history := self._going.get(job_id)) is not None:
            if history.is_unclear(event):
                del self._going[job_id]
                return
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


def date_or_none(at_us: int | None, dated: Dated) -> str | None:
    """Return the date of an instant that may not have come."""
    return None if at_us is None else dated(at_us)


def _because(event: facts.CheckpointDiscarded) -> str:
    """Return why a checkpoint was discarded: what was lost, or who gave it up."""
    nodes = ", ".join(event.nodes)
    if event.cause == GIVEN_UP:
        return f"{event.by or 'somebody'} gave it up while {nodes} did not answer"
    return f"{nodes} was lost"


def _span_s(from_us: int | None, to_us: int | None) -> float | None:
    return None if from_us is None or to_us is None else (to_us - from_us) / 1e6
