"""Decide again on the recorded inputs, and compare every decision with the recorded one.

    recorded events ──▶ fold ──▶ tell the policy ──▶ ask it where a round was planned
                          ▲                                   │
                          └── next ◀── the same facts? ◀──────┘

Inputs are taken from the log as they are. What the scheduler decided (rounds and their changes,
rejections, withdrawals, and when it decided at all) is derived once more by the same code.
"""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from shunter.app.gc_control import collector_off
from shunter.app.replaying.divergence import Divergence, seen_at
from shunter.app.replaying.folding import Advance, cut
from shunter.app.replaying.instants import clock
from shunter.app.replaying.terms import Rebuild, Term, after_change
from shunter.app.replaying.timing import RoundWatch
from shunter.app.snapshots import check_outcomes, check_state
from shunter.core.digest import state_digest
from shunter.core.fold import RULES
from shunter.core.intake import reactions
from shunter.core.scheduler import leaves_work
from shunter.core.state import State
from shunter.errors import IllegalEventError, LogDamagedError, UsageError
from shunter.events.codec import encode_record
from shunter.events.facts.cluster import NodeAdded, NodeLost, NodeRemoved, QuotaChanged
from shunter.events.facts.decisions import (
    AllocationChanged,
    PlanRejected,
    PolicySetAside,
    ReservationSet,
    RoundPlanned,
    Target,
    TargetsSet,
    Trigger,
    WaitReasonChanged,
)
from shunter.events.facts.jobs import (
    JobCancelled,
    JobFailed,
    JobFinished,
    JobRejected,
    JobSubmitted,
    TimeLimitReached,
)
from shunter.events.facts.run import (
    ClockStepped,
    ConfigChanged,
    SchedulerStarted,
    SchedulerStopped,
    SegmentSealed,
)
from shunter.events.kinds import Event
from shunter.events.log import Frame, LogReader, Snapshot

TOLERANCE = 1e-6

_DECIDED = frozenset(
    (AllocationChanged, PlanRejected, ReservationSet, WaitReasonChanged, JobRejected)
)
_NO_INPUTS = frozenset((ClockStepped, SegmentSealed, SchedulerStopped))
_SETTING = frozenset((NodeAdded, NodeRemoved, QuotaChanged))
_ENDS = frozenset((JobFinished, JobFailed, JobCancelled, JobRejected))


@dataclass(frozen=True)
class Verdict:
    """What deciding again has shown; no `divergence`: all decisions are the same."""

    state: State
    decisions: int
    terms: int
    snapshots: int
    divergence: Divergence | None


class Verifier:
    """Replays a log event by event and stops at the first decision that differs."""

    def __init__(self, rebuild: Rebuild, *, resolve: bool = False) -> None:
        self.state = State()
        self.decisions = 0
        self.terms = 0
        self._rebuild = rebuild
        self._resolve = resolve
        self._term: Term | None = None
        self._watch: RoundWatch | None = None
        self._expected: deque[Event] = deque()
        self._targets_us = -1
        self._aside: PolicySetAside | None = None

    @property
    def memory(self) -> object:
        """The memory of the policy at work."""
        return self._active()[0].memory

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
        expected = self._next_expected()
        if expected is not None:
            if event == expected:
                return None
            return self._diverged(event, expected, "another decision was recorded")
        if kind is RoundPlanned or kind is TargetsSet:
            return self._ask(event)
        if kind in _DECIDED and not _is_order(event):
            return self._diverged(event, None, "nothing of the kind is decided here")
        if isinstance(event, JobCancelled) and event.cause == reactions.DEPENDENCY:
            return self._diverged(event, None, "its dependencies can still be met")
        if isinstance(event, PolicySetAside):
            self._active()[0].asked.set_aside(event.cause)
            self._aside = None
            return None
        if kind in _NO_INPUTS:
            return None
        return self._heard(event)

    def _next_expected(self) -> Event | None:
        """Take the next fact that must follow.

        A job that is gone is not cancelled once more.
        """
        while self._expected:
            expected = self._expected.popleft()
            if not isinstance(expected, JobCancelled) or expected.job_id in self.state.jobs:
                return expected
        return None

    def _heard(self, event: Event) -> Divergence | None:
        """Note an input; a round that was due before it must be there already.

        A time limit is no input: the scheduler itself saw that it was over.
        """
        _, watch = self._active()
        if event.at_us > self.state.now_us:
            due_us = watch.missing_before(event.at_us)
            if due_us is not None:
                return self._missed(event, due_us)
        if type(event) in _SETTING:
            watch.changed()
        elif isinstance(event, TimeLimitReached):
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
                return self._diverged(event, None, "no round is due here")
        if not follows:
            fault = event.fault if isinstance(event, RoundPlanned) and not self._resolve else ""
            term.mend(at_us, fault)
        targets = None if follows else self._prepare(term, at_us)
        if isinstance(event, TargetsSet):
            self._targets_us = at_us
            return self._compare_targets(event, targets)
        self._targets_us = -1
        if targets is not None:
            return self._diverged(event, targets, "target shares are due, and were not recorded")
        assert isinstance(event, RoundPlanned), "only rounds and targets are asked for"
        self._expected.extend(term.planner.decisions(at_us, watch.trigger(event.trigger)))
        expected = self._expected.popleft()
        if event != expected:
            return self._diverged(event, expected, "the round came out otherwise")
        watch.planned(at_us)
        return None

    def _prepare(self, term: Term, at_us: int) -> TargetsSet | None:
        """Bring the policy up to an instant; solve for its targets again if asked."""
        if self._resolve:
            return term.planner.targets(at_us)
        term.view.now_us = at_us
        term.asked.advance(term.memory, term.view)
        return None

    def _compare_targets(self, event: TargetsSet, solved: TargetsSet | None) -> Divergence | None:
        if not self._resolve:
            return None
        if solved is None:
            return self._diverged(event, None, "no target shares are due here")
        if not same_targets(event.targets, solved.targets):
            return self._diverged(event, solved, "other target shares were recorded")
        return None

    def _fold(self, event: Event) -> None:
        """Fold an event, tell the policy, and expect what the core itself must answer."""
        state, kind = self.state, type(event)
        if event.at_us < state.now_us:
            raise IllegalEventError(f"the event {state.seq + 1} is older than the one before it")
        try:
            RULES[kind](state, event)
        except IllegalEventError as error:
            raise IllegalEventError(f"the event {state.seq + 1} does not fit: {error}") from error
        state.now_us = event.at_us
        state.seq += 1
        term, watch = self._active()
        if self._is_told():
            term.tell(event)
        if state.launched:
            state.launched.clear()
        if kind is JobSubmitted:
            job = state.jobs[event.job_id]  # type: ignore[union-attr]  # the kind was just compared
            answer = reactions.to_submission(state, term.admission, event.at_us, job)
            if answer is not None:
                self._expected.append(answer)
        elif kind in _ENDS and state.stranded:
            self._expected.extendleft(reversed(reactions.to_end(state, event.at_us)))
        elif isinstance(event, NodeLost):
            self._expected.extend(reactions.to_lost_node(state, event))
        elif term.rules.round_us and leaves_work(event):
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
        self._expected.clear()
        self._targets_us = -1
        aside = "" if self._aside is None or self._aside.told > self.state.seq else "set aside"
        self._term = Term(started, self._rebuild, self.state, aside)
        self._watch = RoundWatch(self._term, event.at_us)

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
        term.mend(due_us)
        term.view.now_us = due_us
        term.asked.advance(term.memory, term.view)
        planned = term.planner.decisions(due_us, watch.trigger(Trigger.wake))[0]
        return self._diverged(recorded, planned, f"a round was due at {clock(due_us)}")

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
            seen=seen_at(term, self.state, recorded.at_us, recorded, replayed),
        )


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
    verifier = Verifier(rebuild, resolve=resolve)
    snapshots = [
        snapshot for snapshot in await reader.snapshots() if to is None or snapshot.seq <= to
    ]
    pending = snapshots[::-1]
    last = (await reader.head()).seq if to is None else to
    checked, chain = 0, ""
    divergence: Divergence | None = None
    with collector_off():
        async for frame, following in _with_next(reader.frames(0, to)):
            chain = frame.chain.hex()
            verifier.look_ahead(frame.events(0, to))
            if following is not None:
                verifier.look_ahead(following.events(0, to))
            for events in cut(frame, pending, to):
                divergence = verifier.take(events)
                if divergence is not None:
                    break
                while pending and pending[-1].seq == verifier.state.seq:
                    check_snapshot(verifier, pending.pop())
                    checked += 1
            if divergence is not None:
                break
            if advance is not None:
                advance(verifier.state.seq, last)
    if divergence is not None:
        digest = state_digest(verifier.state)
        sources = (await reader.sources()).get(verifier.state.term, {})
        divergence = replace(divergence, chain=chain, state_digest=digest, sources=sources)
    else:
        await check_outcomes(reader, verifier.state, snapshots)
    return Verdict(verifier.state, verifier.decisions, verifier.terms, checked, divergence)


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
    check_state(verifier.state, snapshot)
    if snapshot.memory and encode_record(verifier.memory) != snapshot.memory:
        raise LogDamagedError(
            f"the policy's memory in the snapshot at sequence number {snapshot.seq} is not the "
            "one that the events up to there lead to",
            snapshot.seq,
        )


def _is_order(event: Event) -> bool:
    """Say whether a decision is that of a person, who put a job on hold."""
    return isinstance(event, AllocationChanged) and event.because == reactions.HELD


def same_targets(recorded: Sequence[Target], solved: Sequence[Target]) -> bool:
    """Say whether two solutions are the same but for the last digits."""
    return len(recorded) == len(solved) and all(
        (one.jobs, one.gpu_type) == (other.jobs, other.gpu_type)
        and abs(one.fraction - other.fraction) <= TOLERANCE
        for one, other in zip(recorded, solved, strict=True)
    )
