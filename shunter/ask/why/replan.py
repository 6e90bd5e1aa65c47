"""Planning once more at points of the log, with all reasons: the evidence behind an answer.

The state right before the last round is folded (from the newest snapshot), the planner of the
recorded decision is asked again, and its answer for the job's class is compared with the record.
Then the state is folded on to the point asked for, where the policy says how the job ranks. Nothing
is emitted, so nothing changes.

A policy that remembers what jobs did gets every event from the beginning of its term, or from a
snapshot of its memory: otherwise it would rank them differently.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from shunter.ask.log_reading import Rules, fold_events, restored
from shunter.ask.recorded_terms import Rebuild, Term, takes_notes
from shunter.ask.why.job_events import JobEvents
from shunter.ask.why.present import Present, demand_of, present_of
from shunter.core import NO_RESULT, AnyPolicy, JobPhase, State
from shunter.core.fold import RULES, SET_ASIDE
from shunter.core.planning import RoundRules
from shunter.core.ranking import RankedPolicy
from shunter.core.sizing import Sizing
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events import (
    AllocationChanged,
    Event,
    RoundPlanned,
    SchedulerStarted,
    Trigger,
    Wait,
    WaitReasonChanged,
)
from shunter.events.log import LogReader, Snapshot
from shunter.gc_control import collector_off

REMEMBERS = "it decides by what it remembers of the rounds before"


@dataclass(slots=True)
class Planned:
    """What planning again said: the reason, and what it does with the job.

    `seq` is the last event before it; `problem` says why the policy could not be asked.
    `waits` says that the job waited there; `starts` and `leaves` that the plan starts it, or takes
    its GPUs away.
    """

    seq: int = 0
    at_us: int = 0
    wait: Wait | None = None
    waits: bool = False
    starts: bool = False
    leaves: bool = False
    problem: str = ""


@dataclass(slots=True)
class PointAsked:
    """The state at the point asked for, with what was looked at on the way.

    `present` is how the job stands there, if it waits.
    """

    state: State
    launches: list[tuple[int, int]] = field(default_factory=list)
    planned: Planned = field(default_factory=Planned)
    present: Present | None = None


class Rebuilt(NamedTuple):
    """The rules of rounds and how jobs are sized; or why nobody knows."""

    rules: RoundRules | None
    sizing: Sizing | None
    problem: str


def rules_of(story: JobEvents, rebuild: Rebuild) -> Rebuilt:
    """Return by what was decided at the end of a story."""
    started = story.started
    if started is None:
        return Rebuilt(None, None, "the log does not say which policy decided")
    try:
        policy, rules = rebuild(started)
    except (ConfigError, NotFoundError, UsageError) as error:
        return Rebuilt(None, None, str(error))
    return Rebuilt(rules, policy.sizing if isinstance(policy, RankedPolicy) else None, "")


async def fold_story(
    reader: LogReader, story: JobEvents, rebuild: Rebuild, *, plan: bool, track: bool
) -> PointAsked:
    """Fold up to the end of a story; plan again before its last round.

    Args:
        reader: the log.
        story: the job's story, which says where to stop.
        rebuild: makes the policy of a term.
        plan: whether to ask the policy again.
        track: whether to look for the instants at which the job's attempts began.
    """
    pause = _pause(story) if plan else story.seq
    from_seq = story.own[0].seq - 1 if track else story.seq
    replay = _Replay(reader, story, rebuild, track=track)
    await replay.begin(min(from_seq, pause), plan=plan)
    await replay.fold_upto(pause)
    folded = replay.folded
    if plan:
        folded.planned = replay.plan()
    await replay.fold_upto(story.seq)
    job = folded.state.jobs.get(story.job_id)
    if plan and job is not None and job.phase is JobPhase.waiting:
        since_us = job.waiting_since_us or 0
        if since_us > folded.planned.at_us or not (folded.planned.waits or folded.planned.leaves):
            # That round was before this wait: what the next one will find is more to the point.
            folded.planned = replay.plan()
        term, problem = replay.staged()
        folded.present = present_of(story, folded.state, term, problem)
    return folded


class _Replay:
    """Folds a log up to the points where the policy is asked."""

    def __init__(
        self, reader: LogReader, story: JobEvents, rebuild: Rebuild, *, track: bool
    ) -> None:
        self.folded = PointAsked(State())
        self._reader = reader
        self._story = story
        self._rebuild = rebuild
        self._tracks = track
        self._told: Term | None = None
        self._rules: Rules = RULES

    async def begin(self, upto: int, *, plan: bool) -> None:
        """Start from a snapshot; the notes of a policy begin with its term."""
        began = self._began() if plan else None
        snapshot = await self._reader.snapshot_at(upto)
        if began is None:
            await self._restore(snapshot)
            return
        if snapshot is not None and snapshot.seq >= began and snapshot.memory:
            await self._restore(snapshot)
            self._told = self._remembering(snapshot)
            return
        await self._restore(await self._reader.snapshot_at(min(upto, began - 1)))
        await self.fold_upto(began - 1)
        self._told, _ = self._fresh()

    async def _restore(self, snapshot: Snapshot | None) -> None:
        self.folded.state, self._rules = await restored(self._reader, snapshot)

    async def fold_upto(self, seq: int) -> None:
        """Fold events up to a number."""
        state = self.folded.state
        with collector_off():
            async for frame in self._reader.frames(state.seq, seq):
                self._fold(frame.events(state.seq, seq))

    def plan(self) -> Planned:
        """Ask the policy on the state, at the round that follows or at once."""
        term, problem = self.staged()
        return plan_again(self._story, self.folded.state, term, problem)

    def staged(self) -> tuple[Term | None, str]:
        """Return the policy at work on the state; or None, and why there is none."""
        if self._told is not None:
            return self._told, ""
        return self._fresh()

    def _fold(self, events: Sequence[Event]) -> None:
        """Fold events, tell a policy that takes notes, and look for launches."""
        if not self._tracks and self._told is None:
            fold_events(self.folded.state, events, self._rules)
            return
        state, job_id = self.folded.state, self._story.job_id
        for event in events:
            if isinstance(event, RoundPlanned) and self._told is not None:
                self._told.stand_before(event.at_us)
            result = self._rules[type(event)](state, event) or NO_RESULT
            state.now_us = event.at_us
            state.seq += 1
            if self._told is not None:
                self._told.tell(event, result)
            if self._tracks and any(job.job_id == job_id for job in result.launched):
                self.folded.launches.append((state.seq, event.at_us))

    def _fresh(self) -> tuple[Term | None, str]:
        """Return the policy begun anew on the state."""
        started = self._story.started
        if started is None:
            return None, "the log does not say which policy decided"
        fault = self.folded.state.policy_fault
        if fault.startswith(SET_ASIDE):
            return None, f"the policy is {fault}"
        try:
            term = Term(started, _with_all_reasons(self._rebuild), self.folded.state)
        except (ConfigError, NotFoundError, UsageError) as error:
            return None, str(error)
        return (None, REMEMBERS) if getattr(term.policy, "remembers", False) else (term, "")

    def _began(self) -> int | None:
        """Return the event that began the term, if its policy takes notes from there on."""
        started = self._story.started
        if started is None:
            return None
        try:
            policy, _ = self._rebuild(started)
        except (ConfigError, NotFoundError, UsageError):
            return None
        return self._story.terms[-1][0] if takes_notes(policy) else None

    def _remembering(self, snapshot: Snapshot) -> Term | None:
        term, _ = self._fresh()
        if term is not None:
            term.restore(snapshot.memory)
        return term


def plan_again(story: JobEvents, state: State, term: Term | None, problem: str) -> Planned:
    """Ask a policy that stands on a state, at the round that follows or at once."""
    planned = Planned(state.seq, state.now_us, problem=problem)
    job = state.jobs.get(story.job_id)
    if job is None or term is None:
        planned.problem = problem or "the log does not say which policy decided"
        return planned
    last = story.last_round
    if last is not None and last.seq > state.seq:
        planned.at_us = last.at_us
    term.stand_before(planned.at_us)
    for fact in term.planner.decisions(planned.at_us, Trigger.round):
        if isinstance(fact, RoundPlanned):
            planned.problem = f"the policy fails: {fact.fault}" if fact.fault else ""
            told = {entry.demand: entry.wait for entry in fact.waits}
            planned.wait = told.get(demand_of(job, term))
        elif isinstance(fact, WaitReasonChanged) and fact.job_id == job.job_id:
            planned.wait = fact.wait
        elif isinstance(fact, AllocationChanged) and fact.job_id == job.job_id:
            planned.starts = bool(fact.allocation.shares)
            planned.leaves = not planned.starts
    planned.waits = job.phase is JobPhase.waiting
    return planned


def _pause(story: JobEvents) -> int:
    """Return the last event before the round whose reasons hold then.

    Where no round was planned since the job came, its class's reason holds for it too: rounds are
    skipped only where planning would have said the same as before. So its own coming is as good a
    point; and where the class has none either, what the next round will find is at the end.
    """
    last = story.last_round
    if last is not None:
        return last.seq - 1
    has_reason = bool(story.told) and story.told[-1].wait is not None
    return story.own[0].seq if has_reason else story.seq


def _with_all_reasons(rebuild: Rebuild) -> Rebuild:
    def rebuilt(started: SchedulerStarted) -> tuple[AnyPolicy, RoundRules]:
        policy, rules = rebuild(started)
        return policy, replace(rules, all_reasons=True)

    return rebuilt
