"""What a log tells of the past of its jobs: when they came and started, and what they worked.

    events ─▶ submissions, launches, ends ─▶ what was known at a moment

Nothing of a job that a scheduler could not know at a moment is in what `worked_before` and
`submitted_before` return for it: run times that a trace declares are not read.
"""

from dataclasses import dataclass, field

from shunter.ask.cost_fitting import NOT_SLOWED, Slowed
from shunter.ask.forking.remaining import Worked
from shunter.ask.replaying.folding import fold_events, restored
from shunter.core.state import Job, State
from shunter.events.facts.jobs import (
    JOB_ENDS,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobRejected,
    JobSubmitted,
    end_us_of,
)
from shunter.events.facts.jobs import Outcome as JobOutcome
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId
from shunter.gc_control import collector_off

EVENTS_MOST = 1_000_000
"""So many of the last events are read, back to the snapshot before them; ours."""


@dataclass
class History:
    """The past of a log's jobs, up to `state`, its end; instants in microseconds.

    `submissions` come with the numbers of their events, in order; those that were rejected are
    left out. `launches` are when a job was given GPUs, `ends` when it ended. `worked` is, in the
    order of their ends, when jobs ended and what they had worked, `outcomes` is how. `slowed` are
    those that were slower by their contracts; what that took counts in `worked` as the state counts
    it, as work.
    """

    state: State
    submissions: dict[JobId, tuple[int, JobSubmitted]] = field(default_factory=dict)
    launches: dict[JobId, list[int]] = field(default_factory=dict)
    worked: list[tuple[int, JobId, Worked]] = field(default_factory=list)
    outcomes: dict[JobId, JobOutcome] = field(default_factory=dict)
    ends: dict[JobId, int] = field(default_factory=dict)
    slowed: Slowed = NOT_SLOWED

    def take(self, event: Event, launched: tuple[Job, ...], departed: Job | None) -> None:
        """Note an event, and whose attempts began with it and who ended."""
        for job in launched:
            self.launches.setdefault(job.job_id, []).append(event.at_us)
        if isinstance(event, JobSubmitted):
            self.submissions[event.job_id] = self.state.seq, event
        elif departed is not None and isinstance(event, JOB_ENDS):
            self._ended(event, departed)

    def submitted_before(self, at_us: int) -> list[JobSubmitted]:
        """Return who had been submitted by an instant, in order."""
        return [event for _, event in self.submissions.values() if event.at_us <= at_us]

    def worked_before(self, state: State, now_us: int, start_us: int) -> list[Worked]:
        """Return what jobs were known to have worked, those last that are there yet.

        Args:
            state: that of the moment.
            now_us: the instant it is; nothing has happened since the state.
            start_us: what an attempt counts as work before it has any effect.
        """
        found = [
            self._at_full_speed(work, job_id, at_us)
            for at_us, job_id, work in self.worked
            if at_us <= state.now_us
        ]
        for job in state.jobs.values():
            done_us = job.done_us(now_us)
            if done_us:
                work = _worked(job, done_us, is_whole=False)
                found.append(self._at_full_speed(work, job.job_id, now_us))
        if not start_us:
            return found
        return [_without_start(each, start_us) for each in found]

    def _at_full_speed(self, worked: Worked, job_id: JobId, at_us: int) -> Worked:
        """Return what a job worked, without the time that its contract took."""
        slowed_us = self.slowed.by_us(job_id, at_us)
        return worked._replace(work_us=max(1, worked.work_us - slowed_us)) if slowed_us else worked

    def _ended(self, event: JobFinished | JobFailed | JobCancelled | JobRejected, job: Job) -> None:
        self.ends[job.job_id] = end_us_of(event)
        if job.outcome is not None:
            self.outcomes[job.job_id] = job.outcome
        if isinstance(event, JobRejected):
            self.submissions.pop(job.job_id, None)
        if job.work_us:
            is_whole = (
                isinstance(event, JobFinished | JobFailed) and job.outcome is not JobOutcome.timeout
            )
            work = _worked(job, job.work_us, is_whole=is_whole)
            self.worked.append((event.at_us, job.job_id, work))


async def read_history(reader: LogReader, events_most: int = EVENTS_MOST) -> History:
    """Fold a log, or its last part, and return what it tells of its jobs.

    Raises:
        LogDamagedError: the bytes of the log are not what was written.
    """
    head = await reader.head()
    begins = await reader.snapshot_at(max(0, head.seq - events_most))
    state, rules = await restored(reader, begins)
    history = History(state)
    with collector_off():
        async for frame in reader.frames(state.seq, head.seq):
            for event in frame.events(state.seq, head.seq):
                result = fold_events(state, (event,), rules)
                history.take(event, tuple(result.launched), result.departed)
    return history


def _worked(job: Job, work_us: int, *, is_whole: bool) -> Worked:
    spec = job.spec
    return Worked(
        spec.user, spec.gpus, work_us, spec.model, is_whole, job.attempt, spec.time_limit_us
    )


def _without_start(worked: Worked, start_us: int) -> Worked:
    """Return what a job worked without the start-ups of its attempts."""
    return worked._replace(work_us=max(1, worked.work_us - worked.attempts * start_us))
