"""Deciding a recorded run once more, and comparing all that follows from its inputs.

`verify_log` goes through a log, and a `Verifier` through each of its terms: it decides again
whenever a round was due (`RoundWatch`), and expects what must follow from the facts.
"""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from shunter.ask.divergence import Answers, Divergence, Seen, seen_at
from shunter.ask.log_reading import Advance, cut, is_part, rules_of_log
from shunter.ask.recorded_terms import Rebuild, after_change, config_of
from shunter.ask.scores import used_by_jobs
from shunter.ask.staged_terms import Term
from shunter.ask.words import clock
from shunter.config import REACTOR
from shunter.core import (
    NO_RESULT,
    WATCHED,
    Before,
    FoldResult,
    Reactor,
    State,
    holds,
    leaves_work,
    only_counts,
    state_digest,
)
from shunter.core.ranking import RankedPolicy, Ranking
from shunter.errors import IllegalEventError, LogDamagedError, UsageError
from shunter.events import (
    DEPENDENCY,
    HELD,
    NOTHING,
    SOLVED,
    TIMEOUT,
    Event,
    FactClass,
    MemoryPastJobs,
    SolvedFact,
    class_of,
    encode_record,
    facts,
)
from shunter.events.log import Frame, LogReader, Snapshot
from shunter.gc_control import collector_off
from shunter.run import check_outcomes, check_state

#     recorded events ──▶ fold ──▶ tell the policy ──▶ ask it where a round was planned
#                           ▲                                   │
#                           └── next ◀── the same facts? ◀──────┘
#
# Observations and commands come from the log; decisions and what follows are made once more
# (`events/fact_classes.py` says which is which).
#
# A round is due on the grid (or at once, without one) if something happened that the policy has not
# settled, or if it wanted to be woken. What a log does not show is left alone: inputs that became
# no event, rounds that the backend ended, and how late a live loop came to an event.


class RoundWatch:
    """Follows one term and knows when its next round must have been planned."""

    def __init__(self, term: Term, start_us: int) -> None:
        self._term = term
        self._decidable = not term.rules.backend_rounds and (
            bool(term.rules.round_us) or term.started.simulated
        )
        self._replan_needed = True
        self._from_us = start_us + 1

    def heard(self, at_us: int) -> None:
        """Note an input, which may make a round due from now on."""
        self._replan_needed = True
        self._from_us = at_us

    def changed(self) -> None:
        """Note a change that came with the start, or a refusal: the next step may plan."""
        self._replan_needed = True

    def ran_out(self, at_us: int) -> None:
        """Note what a step saw by itself, such as a time limit: it may plan."""
        self._from_us = at_us

    def planned(self, at_us: int) -> None:
        """Note a round; without further inputs the next one is a step later."""
        self._replan_needed = False
        self._from_us = at_us + 1

    def missing_before(self, at_us: int) -> int | None:
        """Return when a round was due before `at_us` and not planned, if one was."""
        if not self._decidable:
            return None
        policy, memory, rules = self._term.asked, self._term.memory, self._term.rules
        due_us = policy.wake_at(memory)
        if self._replan_needed and not policy.settled(memory):
            due_us = self._from_us
        if due_us is None:
            return None
        due_us = rules.grid_at(max(due_us, self._from_us))
        if self._is_planned(due_us):
            due_us += rules.round_us
        return due_us if due_us < at_us else None

    def is_due(self, at_us: int, trigger: facts.Trigger) -> bool:
        """Say whether a round with this trigger may have been planned at an instant."""
        rules, policy, memory = self._term.rules, self._term.asked, self._term.memory
        if rules.backend_rounds:
            return True
        if rules.grid_at(at_us) != at_us or self._is_planned(at_us):
            return False
        wake_us = policy.wake_at(memory)
        if wake_us is not None and wake_us <= at_us:
            return True
        return trigger is not facts.Trigger.wake and not policy.settled(memory)

    def trigger(self, recorded: facts.Trigger) -> facts.Trigger:
        """Return what a round's trigger must be, given the recorded one.

        Where nothing was recorded since the last round, an input without an event may have come.
        """
        usual = facts.Trigger.round if self._term.rules.round_us else facts.Trigger.event
        return (
            usual
            if self._replan_needed or recorded is not facts.Trigger.wake
            else facts.Trigger.wake
        )

    def _is_planned(self, at_us: int) -> bool:
        """Say whether the round of an instant of the grid has been planned already."""
        round_us = self._term.rules.round_us
        return bool(round_us) and at_us // round_us == self._term.planner.state.round_number


# What must follow from the facts of a term comes from the reactor. Where a step of the round loop
# ended is not in the log, and is found here:
#
#     live          all facts of a step have its instant, so a later fact is one of a later step
#     a simulation  takes in what happens up to the end of a round, never past the next timer
#     anywhere      a round ends its step
#
# At the end of a step all is there that was due, but for what its round itself made due. Where a
# backend ends its rounds, only a round ends a step. Of older live logs only refusals, cancelled
# dependants and withdrawals of lost servers are expected.

_TIMED = (facts.TimeLimitReached, facts.JobHeld, facts.JobReleased)
_INSTANT_ENDS = (facts.JobFinished, facts.JobFailed, facts.JobCancelled)


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
        self._starting: facts.AttemptStarted | None = None

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
        if type(recorded) is type(expected) is facts.JobFinished and not self._rules.is_live:
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
        if isinstance(event, facts.AttemptEnded):
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
        if isinstance(event, facts.CheckpointDiscarded):
            return self._is_discarded(event)
        if isinstance(event, _TIMED):
            self._begins = True
            return self._reactor.due(event.at_us) == event
        return self._rules.instant and self._is_end(event)

    def untimed(self, event: Event) -> facts.TimeLimitReached | None:
        """Return the time limit by which a job ended, if none was reached before."""
        if not self.is_strict or not isinstance(event, facts.JobFailed) or event.cause != TIMEOUT:
            return None
        job = self._state.jobs.get(event.job_id)
        if job is None or job.end_cause == TIMEOUT or job.spec.time_limit_us is None:
            return None
        return facts.TimeLimitReached(event.at_us, job.job_id, job.spec.time_limit_us)

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
        if isinstance(event, facts.AttemptStarted):
            for lost in self._reactor.discards(event):
                return lost, "an attempt starts without a checkpoint that was not discarded"
            completed = self._reactor.completed(event)
            if completed != event:
                return completed, "the checkpoints of the attempt depend on something else"
        if isinstance(event, facts.AllocationChanged):
            order = facts.AllocationChanged(
                event.at_us, event.job_id, NOTHING, HELD, self._rules.instant
            )
            if event != order or not _is_hold(before, event):
                return order, "nobody has put the job on hold right before"
        return None

    def _is_discarded(self, event: facts.CheckpointDiscarded) -> bool:
        """Say whether a checkpoint goes because its job starts without it."""
        job = self._state.jobs.get(event.job_id)
        if job is None:
            return False
        starting = facts.AttemptStarted(event.at_us, job.job_id, job.attempt)
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
        code = 0 if isinstance(event, facts.JobFinished) else getattr(event, "exit_code", None)
        return self._reactor.end_of(job, event.at_us, code, event.ended_us) == event


def _says_all(started: facts.SchedulerStarted) -> bool:
    """Say whether all that follows from the facts of a term is in its log.

    That of a simulation always was.
    """
    return started.simulated or bool(config_of(started).get(REACTOR))


def _was_compared(event: Event) -> bool:
    """Say whether a derived fact was one also to an older Shunter."""
    if isinstance(event, facts.JobCancelled):
        return event.cause == DEPENDENCY
    return isinstance(event, facts.JobRejected | facts.AllocationChanged)


def _is_start(event: Event, starting: facts.AttemptStarted) -> bool:
    if not isinstance(event, facts.AttemptStarted):
        return False
    return (event.at_us, event.job_id) == (starting.at_us, starting.job_id)


def _is_hold(before: Event | None, event: facts.AllocationChanged) -> bool:
    if not isinstance(before, facts.JobHeld):
        return False
    return (before.at_us, before.job_id) == (event.at_us, event.job_id)


TOLERANCE = 1e-6
MISSING = "something was due before, and is missing"

_NO_INPUTS = frozenset(
    (facts.ClockStepped, facts.EventsLost, facts.SegmentSealed, facts.SchedulerStopped)
)
_SETTING = frozenset((facts.NodeAdded, facts.NodeRemoved, facts.QuotaChanged))


class Verifier:
    """Replays a log event by event and stops at the first decision that differs."""

    def __init__(self, rebuild: Rebuild, *, resolve: bool = False) -> None:
        self.state = State()
        self.past = MemoryPastJobs()
        self.decisions = 0
        self.terms = 0
        self.lenient = 0
        self._rules = rules_of_log(self.past)
        self._rebuild = rebuild
        self._resolve = resolve
        self._term: Term | None = None
        self._watch: RoundWatch | None = None
        self._derived: DerivedFacts | None = None
        self._before: Event | None = None
        self._targets_us = -1
        self._aside: facts.PolicySetAside | None = None
        self._answer: tuple[Event, ...] = ()
        self._answer_seq: int | None = None

    @property
    def memory(self) -> object:
        """The memory of the policy at work."""
        return self._active()[0].memory

    def seen(self, divergence: Divergence, answers: Answers) -> Seen:
        """Return what the policy sees where events parted, with all jobs of two answers."""
        both = (*answers.recorded, *answers.replayed)
        named = divergence.recorded, divergence.replayed
        return seen_at(self._active()[0], self.state, divergence.at_us, *named, *both)

    def take(self, events: Sequence[Event]) -> Divergence | None:
        """Go through events; return where they part from what is decided now.

        Raises:
            IllegalEventError: an event does not fit those before it.
            UsageError: the log names no policy that could be asked.
        """
        for event in events:
            divergence = self._compare(event)
            if divergence is not None:
                return divergence
            self._fold(event)
        return None

    def look_ahead(self, events: Sequence[Event]) -> None:
        """Look for a policy that is set aside: it is told no more than it was then.

        Args:
            events: those of a frame that is to be gone through next, or of the one after it.
        """
        for event in events:
            if isinstance(event, facts.PolicySetAside):
                self._aside = event

    def _compare(self, event: Event) -> Divergence | None:
        """Return how an event differs from what must happen here, if it does."""
        kind = type(event)
        if kind is facts.SchedulerStarted or kind is facts.ConfigChanged:
            self._begin(event)
            return None
        derived = self._following()
        expected = derived.next_expected()
        if expected is not None:
            if derived.is_same(event, expected):
                return None
            untimed = derived.untimed(event)
            if untimed is not None:
                return self._diverged(event, untimed, MISSING)
            return self._diverged(event, expected, "another decision was recorded")
        if self._answer_seq is not None and class_of(event) is not FactClass.decided:
            self._answer, self._answer_seq = (), None  # that decision is over
        missed = derived.missed_before(event.at_us)
        if missed is not None:
            return self._diverged(event, missed, MISSING)
        if kind is facts.RoundPlanned or kind in SOLVED:
            missed = derived.missed_by_round(event.at_us)
            if missed is not None:
                return self._diverged(event, missed, MISSING)
            return self._ask(event)
        return self._compare_input(event, derived)

    def _compare_input(self, event: Event, derived: DerivedFacts) -> Divergence | None:
        """Return how an event differs from what may come where nothing must."""
        found = class_of(event)
        if found is FactClass.decided:
            return self._diverged(event, None, "nothing of the kind is decided here")
        contradicted = derived.contradicts(event, self._before)
        if contradicted is not None:
            return self._diverged(event, *contradicted)
        if found is FactClass.derived and not derived.follows(event):
            untimed = derived.untimed(event)
            why = "nothing of the kind follows here" if untimed is None else MISSING
            return self._diverged(event, untimed, why)
        if isinstance(event, facts.PolicySetAside):
            self._active()[0].asked.set_aside(event.cause)
            self._aside = None
            return None
        if type(event) in _NO_INPUTS:
            return None
        return self._heard(event)

    def _heard(self, event: Event) -> Divergence | None:
        """Note an input; a round that was due before it must be there already.

        The scheduler itself sees that a time limit is over, and tells how many rejections there
        were: these are no inputs.
        """
        _, watch = self._active()
        if event.at_us > self.state.now_us:
            due_us = watch.missing_before(event.at_us)
            if due_us is not None:
                return self._missed(event, due_us)
        if type(event) in _SETTING:
            watch.changed()
        elif isinstance(event, facts.TimeLimitReached) or only_counts(event):
            watch.ran_out(event.at_us)
        else:
            watch.heard(event.at_us)
        return None

    def _ask(self, event: Event) -> Divergence | None:
        """Have the policy decide where the log says that it did."""
        term, watch = self._active()
        at_us = event.at_us
        due_us = watch.missing_before(at_us)
        if due_us is not None:
            return self._missed(event, due_us)
        follows = self._targets_us == at_us
        if not follows:
            self.decisions += 1
            trigger = (
                event.trigger if isinstance(event, facts.RoundPlanned) else facts.Trigger.round
            )
            if not watch.is_due(at_us, trigger):
                self._answer, self._answer_seq = (), self.state.seq + 1
                return self._diverged(event, None, "no round is due here")
        if not follows:
            fault = (
                event.fault if isinstance(event, facts.RoundPlanned) and not self._resolve else ""
            )
            term.mend(at_us, fault)
        targets = None if follows else self._prepare(term, at_us)
        if isinstance(event, SOLVED):
            self._targets_us = at_us
            return self._compare_solved(event, targets)
        self._targets_us = -1
        if targets is not None:
            return self._diverged(
                event, targets, f"{_what(targets)} are due, and were not recorded"
            )
        assert isinstance(event, facts.RoundPlanned), (
            "only rounds and what is solved for are asked for"
        )
        expected_next = self._following().expected
        decisions = term.planner.decisions(at_us, watch.trigger(event.trigger))
        self._answer, self._answer_seq = tuple(decisions), self.state.seq + 1
        expected_next.extend(decisions)
        expected = expected_next.popleft()
        if event != expected:
            return self._diverged(event, expected, "the round came out otherwise")
        watch.planned(at_us)
        return None

    def _prepare(self, term: Term, at_us: int) -> SolvedFact | None:
        """Bring the policy up to an instant; solve again if asked."""
        if self._resolve:
            return term.planner.targets(at_us)
        term.view.now_us = at_us
        term.asked.advance(term.memory, term.view)
        return None

    def _compare_solved(self, event: SolvedFact, solved: SolvedFact | None) -> Divergence | None:
        if self._resolve:
            if solved is None:
                return self._diverged(event, None, f"no {_what(event)} are due here")
            if not _is_same(event, solved):
                return self._diverged(event, solved, f"other {_what(event)} were recorded")
        return self._compare_speed(event) if isinstance(event, facts.SizesSet) else None

    def _compare_speed(self, event: facts.SizesSet) -> Divergence | None:
        """Return how the speed of sizes differs from theirs, which needs no solver."""
        term, _ = self._active()
        policy, memory, is_asked = term.policy, term.memory, not term.asked.aside
        if not (is_asked and isinstance(policy, RankedPolicy) and isinstance(memory, Ranking)):
            return None  # a third party's, say, which solves by itself
        speed = policy.speed_of(event, memory, term.view)
        if speed is None:
            return self._diverged(event, None, f"no {_what(event)} are due here")
        if event.speed != speed:
            remade = replace(event, speed=speed)
            return self._diverged(event, remade, "these sizes have another speed")
        return None

    def _fold(self, event: Event) -> None:
        """Fold an event, tell the policy, and expect what the core itself must answer."""
        state, kind = self.state, type(event)
        if event.at_us < state.now_us:
            raise IllegalEventError(f"the event {state.seq + 1} is older than the one before it")
        derived = self._following()
        before = derived.look(event)
        try:
            result = self._rules[kind](state, event) or NO_RESULT
        except IllegalEventError as error:
            raise IllegalEventError(f"the event {state.seq + 1} does not fit: {error}") from error
        state.now_us = event.at_us
        state.seq += 1
        self._before = event
        term, watch = self._active()
        if self._is_told():
            term.tell(event, result)
        derived.folded(event, result, before)
        if term.rules.round_us and leaves_work(event):
            watch.changed()

    def _is_told(self) -> bool:
        """Say whether the policy was told of the last event; set it aside if not."""
        aside = self._aside
        if aside is None or self.state.seq <= aside.told:
            return True
        self._active()[0].asked.set_aside(aside.cause)
        return False

    def _begin(self, event: Event) -> None:
        """Start the policy that decides from here on; an unclosed term is over."""
        if isinstance(event, facts.SchedulerStarted):
            started = event
            self.terms += 1
        else:
            assert isinstance(event, facts.ConfigChanged), "a term begins with a start or a change"
            started = after_change(self._active()[0].started, event)
        self._targets_us = -1
        aside = "" if self._aside is None or self._aside.told > self.state.seq else "set aside"
        self._term = Term(started, self._rebuild, self.state, aside)
        self._watch = RoundWatch(self._term, event.at_us)
        self._derived = DerivedFacts(self._term, self.state)
        self.lenient += not self._derived.is_strict

    def _following(self) -> DerivedFacts:
        self._active()
        assert self._derived is not None, "a term begins with all that follows it"
        return self._derived

    def _active(self) -> tuple[Term, RoundWatch]:
        if self._term is None or self._watch is None:
            raise UsageError(
                f"the event {self.state.seq + 1} belongs to no term: the log does not say which "
                "policy decided, so its decisions cannot be compared"
            )
        return self._term, self._watch

    def _missed(self, recorded: Event, due_us: int) -> Divergence:
        """Return what is recorded where a round is missing, and what that round decides."""
        term, watch = self._active()
        self.decisions += 1
        term.stand_before(due_us)
        decisions = term.planner.decisions(due_us, watch.trigger(facts.Trigger.wake))
        self._answer, self._answer_seq = tuple(decisions), None
        return self._diverged(recorded, decisions[0], f"a round was due at {clock(due_us)}")

    def _diverged(self, recorded: Event, replayed: Event | None, why: str) -> Divergence:
        term, _ = self._active()
        number = self.state.round_number
        if isinstance(replayed, facts.RoundPlanned):
            number = replayed.number
        elif isinstance(recorded, facts.RoundPlanned):
            number = recorded.number
        return Divergence(
            self.decisions,
            number,
            self.state.seq + 1,
            recorded.at_us,
            recorded,
            replayed,
            why,
            term.started,
            term.policy,
            seen=seen_at(term, self.state, recorded.at_us, recorded, replayed, *self._answer),
            term=self.state.term,
            answer_seq=self._answer_seq,
            answers=Answers((), self._answer),
            used_gpu_us=used_by_jobs(self.state, recorded.at_us, self.state.jobs),
        )


def _what(solved: SolvedFact) -> str:
    return "target shares" if isinstance(solved, facts.TargetsSet) else "sizes"


def _is_same(recorded: SolvedFact, solved: SolvedFact) -> bool:
    """Say whether an answer is as good as the recorded one.

    Of sizes that are equally fast together, each build of a solver may find others.
    """
    if isinstance(recorded, facts.SizesSet) and isinstance(solved, facts.SizesSet):
        return (
            abs(recorded.speed - solved.speed) <= TOLERANCE
            and abs(recorded.bound - solved.bound) <= TOLERANCE
        )
    if isinstance(recorded, facts.SizesSet) or isinstance(solved, facts.SizesSet):
        return False
    return same_targets(recorded.targets, solved.targets)


def same_targets(recorded: Sequence[facts.Target], solved: Sequence[facts.Target]) -> bool:
    """Say whether two solutions are the same but for the last digits."""
    return len(recorded) == len(solved) and all(
        (one.jobs, one.gpu_type) == (other.jobs, other.gpu_type)
        and abs(one.fraction - other.fraction) <= TOLERANCE
        for one, other in zip(recorded, solved, strict=True)
    )


@dataclass(frozen=True)
class Verdict:
    """What deciding again has shown; no `divergence`: all decisions are the same.

    Of `lenient` of the `terms` an older Shunter wrote the facts: what follows from time and from
    the ends of attempts was taken as recorded there. `past` is how jobs ended that the state has no
    more.
    """

    state: State
    decisions: int
    terms: int
    snapshots: int
    lenient: int
    divergence: Divergence | None
    past: MemoryPastJobs


async def verify_log(
    reader: LogReader,
    rebuild: Rebuild,
    to: int | None = None,
    *,
    resolve: bool = False,
    advance: Advance | None = None,
) -> Verdict:
    """Decide a whole log again, or the events up to `to`, up to the first difference.

    Raises:
        LogDamagedError: the bytes are not what was written, or a snapshot differs.
        UsageError: the log's policy has other rules here, or the log names none.
        NotFoundError: the log's policy is not installed.
    """
    snapshots = [
        snapshot for snapshot in await reader.snapshots() if to is None or snapshot.seq <= to
    ]
    verifier = Verifier(rebuild, resolve=resolve)
    passed = await _go_through(reader, verifier, to, snapshots, advance)
    divergence = passed.divergence
    if divergence is not None:
        divergence = await _explained(reader, verifier, divergence, passed.chain)
        again = Verifier(rebuild, resolve=resolve)
        other = (await _go_through(reader, again, to, ())).divergence
        divergence = replace(divergence, repeats=_whole_log_is_same(divergence, other))
    else:
        await check_outcomes(reader, verifier.past, snapshots)
    return Verdict(
        verifier.state,
        verifier.decisions,
        verifier.terms,
        passed.snapshots,
        verifier.lenient,
        divergence,
        verifier.past,
    )


@dataclass(frozen=True)
class _Passed:
    """How far a verifier came: where events part, the chain, and agreeing snapshots."""

    divergence: Divergence | None
    chain: str
    snapshots: int


async def _go_through(
    reader: LogReader,
    verifier: Verifier,
    to: int | None,
    snapshots: Sequence[Snapshot],
    advance: Advance | None = None,
) -> _Passed:
    """Go through a log up to the first difference, or up to `to`."""
    pending = [*snapshots][::-1]
    last = (await reader.head()).seq if to is None else to
    checked, chain = 0, ""
    with collector_off():
        async for frame, following in _with_next(reader.frames(0, to)):
            chain = frame.chain.hex()
            verifier.look_ahead(frame.events(0, to))
            if following is not None:
                verifier.look_ahead(following.events(0, to))
            for events in cut(frame, pending, to):
                divergence = verifier.take(events)
                if divergence is not None:
                    return _Passed(divergence, chain, checked)
                while pending and pending[-1].seq == verifier.state.seq:
                    check_snapshot(verifier, pending.pop())
                    checked += 1
            if advance is not None:
                advance(verifier.state.seq, last)
    return _Passed(None, chain, checked)


async def _explained(
    reader: LogReader, verifier: Verifier, divergence: Divergence, chain: str
) -> Divergence:
    """Return a divergence with what the log says beside it."""
    recorded = await _recorded_answer(reader, divergence.answer_seq)
    answers = Answers(recorded, divergence.answers.replayed)
    return replace(
        divergence,
        chain=chain,
        state_digest=state_digest(verifier.state),
        sources=(await reader.sources()).get(verifier.state.term, {}),
        answers=answers,
        seen=verifier.seen(divergence, answers),
    )


def _whole_log_is_same(one: Divergence, other: Divergence | None) -> bool:
    """Say whether two ways through a log parted from it alike."""
    return other is not None and (
        (one.seq, one.replayed, one.answers.replayed)
        == (other.seq, other.replayed, other.answers.replayed)
    )


async def _recorded_answer(reader: LogReader, seq: int | None) -> tuple[Event, ...]:
    """Return a round of a log and what came of it; nothing where there is none."""
    found: list[Event] = []
    if seq is None:
        return ()
    async for event in reader.events(seq - 1):
        if found and (event.at_us != found[0].at_us or not is_part(event)):
            break
        if not found and not isinstance(event, facts.RoundPlanned):
            break
        found.append(event)
    return tuple(found)


async def _with_next(frames: AsyncIterator[Frame]) -> AsyncIterator[tuple[Frame, Frame | None]]:
    """Yield each frame with the one after it."""
    before: Frame | None = None
    async for frame in frames:
        if before is not None:
            yield before, frame
        before = frame
    if before is not None:
        yield before, None


def check_snapshot(verifier: Verifier, snapshot: Snapshot) -> None:
    """Raise LogDamagedError unless state and policy memory are those of a snapshot."""
    check_state(verifier.state, snapshot, verifier.past)
    if snapshot.memory and encode_record(verifier.memory) != snapshot.memory:
        raise LogDamagedError(
            f"the policy's memory in the snapshot at sequence number {snapshot.seq} is not the "
            "one that the events up to there lead to",
            snapshot.seq,
        )
