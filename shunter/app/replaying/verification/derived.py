"""What must follow from the facts of a term, and by when it must have followed.

The reactor says it, as it does for the scheduler at work. Only where a step of the round loop ended
is not in the log, and is found here:

    live          all facts of a step have its instant, so a later fact is one of a later step
    a simulation  takes in what happens up to the end of a round, never past the next timer
    anywhere      a round ends its step

At the end of a step all is there that was due by then, but for what its round itself made due.
Where a backend says when its rounds are over, nothing but a round tells it.

Logs of live runs that an older Shunter wrote do not say that this may be expected of them. There
only refusals, cancelled dependants and withdrawals of lost servers are.
"""

import json
from collections import deque
from dataclasses import replace

from shunter.app.config.resolved import REACTOR
from shunter.app.replaying.recorded_terms import Term
from shunter.core.reactor import WATCHED, Before, Reactor, holds
from shunter.core.state import FoldResult, State
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import AttemptEnded, AttemptStarted, CheckpointDiscarded
from shunter.events.facts.jobs import (
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobRejected,
    JobReleased,
    TimeLimitReached,
)
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.values.allocation import NOTHING
from shunter.events.values.causes import DEPENDENCY, HELD, TIMEOUT

_TIMED = (TimeLimitReached, JobHeld, JobReleased)
_INSTANT_ENDS = (JobFinished, JobFailed, JobCancelled)


class DerivedFacts:
    """Follows one term; `expected` are the facts that must come next, in order.

    Without `is_strict` an older Shunter wrote the term.
    """

    def __init__(self, term: Term, state: State) -> None:
        self.expected: deque[Event] = deque()
        self.is_strict = _says_all(term.started)
        self._state = state
        self._rules = term.rules
        self._reactor = Reactor(state, term.rules)
        self._deadline_us = self._reactor.timers.next_us()
        self._begins = False
        self._is_settled = False
        self._starting: AttemptStarted | None = None

    def next_expected(self) -> Event | None:
        """Take the next fact that must follow; None: any input may."""
        while self.expected:
            expected = self.expected.popleft()
            if holds(expected, self._state):
                return expected
        return None

    def is_same(self, recorded: Event, expected: Event) -> bool:
        """Say whether a fact is the expected one.

        When the processes of a simulated job went that finished is seen, and told by no other fact.
        """
        if type(recorded) is type(expected) is JobFinished and not self._rules.is_live:
            return replace(expected, ended_us=recorded.ended_us) == recorded
        return recorded == expected

    def look(self, event: Event) -> Before | None:
        """Return what must be known of a fact's job before the fact is folded."""
        return self._reactor.look(event) if type(event) in WATCHED else None

    def folded(self, event: Event, result: FoldResult, before: Before | None) -> None:
        """Expect what follows from a fact that has just been folded."""
        kind, reactor = type(event), self._reactor
        for job in result.launched:
            reactor.timers.began(job)
        if isinstance(event, AttemptEnded):
            reactor.gone_us = event.ended_us
        if kind in reactor.kinds:
            found = reactor.react(event, result, before)
            if not self.is_strict:
                found = [each for each in found if _was_compared(each)]
            self.expected.extendleft(reversed(found))

    def missed_before(self, at_us: int) -> Event | None:
        """Return what was due before a fact that may begin a step, and is missing.

        Args:
            at_us: the instant of the fact.
        """
        rules, now_us, timers = self._rules, self._state.now_us, self._reactor.timers
        if not self.is_strict or rules.backend_rounds:
            return None
        is_settled, self._is_settled = self._is_settled, False
        if self._begins:
            self._begins, self._deadline_us = False, timers.next_us()
        if at_us == now_us:
            return None
        if rules.is_live:
            return None if is_settled else self._reactor.due(now_us)
        if at_us > rules.grid_at(now_us):
            upto_us = at_us - 1
        elif self._deadline_us is not None and at_us > self._deadline_us:
            upto_us = self._deadline_us
        else:
            return None
        missed = self._reactor.due(upto_us)
        self._deadline_us = timers.next_us()
        return missed

    def missed_by_round(self, at_us: int) -> Event | None:
        """Return what had to precede a round at an instant and is missing."""
        self._begins = self._is_settled = True
        return self._reactor.due(at_us) if self.is_strict else None

    def follows(self, event: Event) -> bool:
        """Say whether a derived fact is due where nothing was expected.

        Of older terms nothing is known of it unless it would have been expected.
        """
        if not self.is_strict:
            return not _was_compared(event)
        if isinstance(event, CheckpointDiscarded):
            return self._is_discarded(event)
        if isinstance(event, _TIMED):
            self._begins = True
            return self._reactor.due(event.at_us) == event
        return self._rules.instant and self._is_end(event)

    def untimed(self, event: Event) -> TimeLimitReached | None:
        """Return the time limit by which a job ended, if none was reached before."""
        if not self.is_strict or not isinstance(event, JobFailed) or event.cause != TIMEOUT:
            return None
        job = self._state.jobs.get(event.job_id)
        if job is None or job.end_cause == TIMEOUT or job.spec.time_limit_us is None:
            return None
        return TimeLimitReached(event.at_us, job.job_id, job.spec.time_limit_us)

    def contradicts(self, event: Event, before: Event | None) -> tuple[Event, str] | None:
        """Return what had to stand in an input's place, and why; None: nothing.

        Args:
            event: what was observed or commanded.
            before: the fact before it.
        """
        if not self.is_strict:
            return None
        if self._starting is not None:
            starting, self._starting = self._starting, None
            if not _is_start(event, starting):
                return starting, "a checkpoint was discarded, and no attempt starts without it"
        if isinstance(event, AttemptStarted):
            for lost in self._reactor.discards(event):
                return lost, "an attempt starts without a checkpoint that was not discarded"
            completed = self._reactor.completed(event)
            if completed != event:
                return completed, "the checkpoints of the attempt depend on something else"
        if isinstance(event, AllocationChanged):
            order = AllocationChanged(event.at_us, event.job_id, NOTHING, HELD, self._rules.instant)
            if event != order or not _is_hold(before, event):
                return order, "nobody has put the job on hold right before"
        return None

    def _is_discarded(self, event: CheckpointDiscarded) -> bool:
        """Say whether a checkpoint goes because its job starts without it."""
        job = self._state.jobs.get(event.job_id)
        if job is None:
            return False
        starting = AttemptStarted(event.at_us, job.job_id, job.attempt)
        found = self._reactor.discards(starting)
        if event not in found[:1]:
            return False
        self._starting = starting
        self.expected.extend(found[1:])
        return True

    def _is_end(self, event: Event) -> bool:
        """Say whether a job ends so whose end is seen with that of its attempt."""
        job = self._state.jobs.get(event.job_id) if isinstance(event, _INSTANT_ENDS) else None
        if job is None or not isinstance(event, _INSTANT_ENDS):
            return False
        code = 0 if isinstance(event, JobFinished) else getattr(event, "exit_code", None)
        return self._reactor.end_of(job, event.at_us, code, event.ended_us) == event


def _says_all(started: SchedulerStarted) -> bool:
    """Say whether all that follows from the facts of a term is in its log.

    That of a simulation always was.
    """
    if started.simulated:
        return True
    try:
        config = json.loads(started.config)
    except ValueError:
        return False
    return isinstance(config, dict) and bool(config.get(REACTOR))


def _was_compared(event: Event) -> bool:
    """Say whether a derived fact was one also to an older Shunter."""
    if isinstance(event, JobCancelled):
        return event.cause == DEPENDENCY
    return isinstance(event, JobRejected | AllocationChanged)


def _is_start(event: Event, starting: AttemptStarted) -> bool:
    if not isinstance(event, AttemptStarted):
        return False
    return (event.at_us, event.job_id) == (starting.at_us, starting.job_id)


def _is_hold(before: Event | None, event: AllocationChanged) -> bool:
    if not isinstance(before, JobHeld):
        return False
    return (before.at_us, before.job_id) == (event.at_us, event.job_id)
