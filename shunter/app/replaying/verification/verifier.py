"""Decide again on the recorded inputs, and compare every decision with the recorded one.

    recorded events ──▶ fold ──▶ tell the policy ──▶ ask it where a round was planned
                          ▲                                   │
                          └── next ◀── the same facts? ◀──────┘

What was observed and commanded is taken from the log as it is. What a policy decided (rounds and
their changes, and when they were due at all), and what followed from facts, from the state and from
time, is made once more by the same code. Which is which stands in `events/classes.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

from shunter.app.replaying.divergence import Answers, Divergence, Seen, seen_at
from shunter.app.replaying.folding import rules_of_log
from shunter.app.replaying.instants import clock
from shunter.app.replaying.recorded_terms import Rebuild, Term, after_change
from shunter.app.replaying.scores.measures import used_by_jobs
from shunter.app.replaying.verification.derived import DerivedFacts
from shunter.app.replaying.verification.rounds import RoundWatch
from shunter.core.proposals.repeats import only_counts
from shunter.core.ranking import RankedPolicy, Ranking
from shunter.core.scheduler import leaves_work
from shunter.core.state import NO_RESULT, State
from shunter.errors import IllegalEventError, UsageError
from shunter.events.fact_classes import FactClass, class_of
from shunter.events.facts.cluster import NodeAdded, NodeRemoved, QuotaChanged
from shunter.events.facts.decisions import (
    SOLVED,
    PolicySetAside,
    RoundPlanned,
    SizesSet,
    SolvedFact,
    Target,
    TargetsSet,
    Trigger,
)
from shunter.events.facts.jobs import (
    TimeLimitReached,
)
from shunter.events.facts.run import (
    ClockStepped,
    ConfigChanged,
    EventsLost,
    SchedulerStarted,
    SchedulerStopped,
    SegmentSealed,
)
from shunter.events.kinds import Event
from shunter.events.past_jobs import MemoryPastJobs

TOLERANCE = 1e-6
MISSING = "something was due before, and is missing"

_NO_INPUTS = frozenset((ClockStepped, EventsLost, SegmentSealed, SchedulerStopped))
_SETTING = frozenset((NodeAdded, NodeRemoved, QuotaChanged))


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
        self._aside: PolicySetAside | None = None
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
            if isinstance(event, PolicySetAside):
                self._aside = event

    def _compare(self, event: Event) -> Divergence | None:
        """Return how an event differs from what must happen here, if it does."""
        kind = type(event)
        if kind is SchedulerStarted or kind is ConfigChanged:
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
        if kind is RoundPlanned or kind in SOLVED:
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
        if isinstance(event, PolicySetAside):
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
        elif isinstance(event, TimeLimitReached) or only_counts(event):
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
            trigger = event.trigger if isinstance(event, RoundPlanned) else Trigger.round
            if not watch.is_due(at_us, trigger):
                self._answer, self._answer_seq = (), self.state.seq + 1
                return self._diverged(event, None, "no round is due here")
        if not follows:
            fault = event.fault if isinstance(event, RoundPlanned) and not self._resolve else ""
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
        assert isinstance(event, RoundPlanned), "only rounds and what is solved for are asked for"
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
        return self._compare_speed(event) if isinstance(event, SizesSet) else None

    def _compare_speed(self, event: SizesSet) -> Divergence | None:
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
        if isinstance(event, SchedulerStarted):
            started = event
            self.terms += 1
        else:
            assert isinstance(event, ConfigChanged), "a term begins with a start or a change"
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
        decisions = term.planner.decisions(due_us, watch.trigger(Trigger.wake))
        self._answer, self._answer_seq = tuple(decisions), None
        return self._diverged(recorded, decisions[0], f"a round was due at {clock(due_us)}")

    def _diverged(self, recorded: Event, replayed: Event | None, why: str) -> Divergence:
        term, _ = self._active()
        number = self.state.round_number
        if isinstance(replayed, RoundPlanned):
            number = replayed.number
        elif isinstance(recorded, RoundPlanned):
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
    return "target shares" if isinstance(solved, TargetsSet) else "sizes"


def _is_same(recorded: SolvedFact, solved: SolvedFact) -> bool:
    """Say whether an answer is as good as the recorded one.

    Of sizes that are equally fast together, each build of a solver may find others.
    """
    if isinstance(recorded, SizesSet) and isinstance(solved, SizesSet):
        return (
            abs(recorded.speed - solved.speed) <= TOLERANCE
            and abs(recorded.bound - solved.bound) <= TOLERANCE
        )
    if isinstance(recorded, SizesSet) or isinstance(solved, SizesSet):
        return False
    return same_targets(recorded.targets, solved.targets)


def same_targets(recorded: Sequence[Target], solved: Sequence[Target]) -> bool:
    """Say whether two solutions are the same but for the last digits."""
    return len(recorded) == len(solved) and all(
        (one.jobs, one.gpu_type) == (other.jobs, other.gpu_type)
        and abs(one.fraction - other.fraction) <= TOLERANCE
        for one, other in zip(recorded, solved, strict=True)
    )
