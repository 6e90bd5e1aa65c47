"""Planning once more at points of the log, with all reasons: the evidence behind an answer.

The state right before the last round is folded (from the newest snapshot), the planner of the
recorded decision is asked again, and its answer for the job's class is compared with the record.
Then the state is folded on to the point asked for, where the policy says how the job ranks. Nothing
is emitted, so nothing changes.

A policy that remembers what jobs did gets every event from the beginning of its term, or from a
snapshot of its memory: otherwise it would rank them differently.
"""

from bisect import bisect_right
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import orjson

from shunter.ask.log_reading import Rules, restored
from shunter.ask.recorded_terms import Rebuild, classing_of, last_start
from shunter.ask.scores import Measures, measures_of_terms
from shunter.ask.why.job_events import NO_JOB, WITHOUT_JOB, JobEvents
from shunter.ask.why.present import Planned, Present
from shunter.ask.why.timeline import WaitReasons
from shunter.core import NO_RESULT, JobPhase, State
from shunter.core.fold import RULES, depart, fall_back
from shunter.core.speeds import has_learnt_floor
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events import JOB_ENDS, SOLVED, TRIALS, Event, JobId, decode_event, facts
from shunter.events.log import LogReader, Snapshot
from shunter.gc_control import collector_off

if TYPE_CHECKING:
    from shunter.ask.staged_terms import Term
    from shunter.core.planning import RoundRules
    from shunter.core.sizing import Sizing

LONG_RUN = 20_000
"""A snapshot is gone on from where a job runs for so many events; ours."""


@dataclass(slots=True)
class PointAsked:
    """The state at the point asked for, with what was looked at on the way.

    `launches` are when its attempts began, `reasons` why it waited. `present` is how the job stands
    there, if it waits.
    """

    state: State
    reasons: WaitReasons
    launches: list[tuple[int, int]] = field(default_factory=list)
    planned: Planned = field(default_factory=Planned)
    present: Present | None = None


class Rebuilt(NamedTuple):
    """The rules of rounds and how jobs are sized; or why nobody knows."""

    rules: "RoundRules | None"
    sizing: "Sizing | None"
    problem: str


class RecordedPolicies:
    """What decided during a story; a policy is built when it is asked for.

    To build one, with all that checks its parameters, takes longer than to answer for most jobs
    that have ended.
    """

    def __init__(self, story: JobEvents, rebuild: Rebuild) -> None:
        self._story = story
        self._rebuild = rebuild

    @cached_property
    def last(self) -> Rebuilt:
        """By what was decided at the end of the story."""
        started = self._story.started
        if started is None:
            return Rebuilt(None, None, "the log does not say which policy decided")
        try:
            policy, rules = self._rebuild(started)
        except (ConfigError, NotFoundError, UsageError) as error:
            return Rebuilt(None, None, str(error))
        from shunter.core.ranking import RankedPolicy  # here a policy has been built

        return Rebuilt(rules, policy.sizing if isinstance(policy, RankedPolicy) else None, "")

    @cached_property
    def measures(self) -> Measures:
        """What the scores of its policies count, by the event of the term."""
        return measures_of_terms(self._story.terms, self._rebuild)


async def fold_story(
    reader: LogReader, story: JobEvents, rebuild: Rebuild, *, plan: bool
) -> PointAsked:
    """Fold a log for a story up to its end; plan again before its last round.

    Args:
        reader: the log.
        story: the job's story, which says where to stop.
        rebuild: makes the policy of a term.
        plan: whether to ask the policy again.
    """
    replay = _Replay(reader, story, rebuild)
    folded = replay.folded
    if not plan and replay.is_alone():
        await replay.fold_alone()
        return folded
    await replay.begin(plan=plan)
    if plan:
        await replay.fold_to_plan()
        folded.planned = replay.plan()
    await replay.fold_upto(story.seq)
    job = folded.state.jobs.get(story.job_id)
    if plan and job is not None and job.phase is JobPhase.waiting:
        since_us = job.waiting_since_us or 0
        if since_us > folded.planned.at_us or not (folded.planned.waits or folded.planned.leaves):
            # That round was before this wait: what the next one will find is more to the point.
            folded.planned = replay.plan()
        from shunter.ask.why.rank_now import present_of

        term, problem = replay.staged()
        folded.present = present_of(story, folded.state, term, problem)
    return folded


class _Replay:
    """Folds a log up to the points where the policy is asked."""

    def __init__(self, reader: LogReader, story: JobEvents, rebuild: Rebuild) -> None:
        self.folded = PointAsked(State(), WaitReasons(story.job_id))
        self._reader = reader
        self._story = story
        self._rebuild = rebuild
        self._told: Term | None = None
        self._rules: Rules = RULES

    async def begin(self, *, plan: bool) -> None:
        """Start from a snapshot; the notes of a policy begin with its term."""
        upto = self._story.own[0].seq - 1
        began = self._began() if plan else None
        snapshot = await self._reader.snapshot_at(upto)
        if began is None:
            await self._restore(snapshot)
        elif snapshot is not None and snapshot.seq >= began and snapshot.memory:
            await self._restore(snapshot)
            self._told = self._remembering(snapshot)
        else:
            earlier = await self._reader.snapshot_at(min(upto, began - 1))
            await self._restore(earlier)
            await self.fold_upto(began - 1)
            self._told, _ = self._fresh()

    async def fold_to_plan(self) -> None:
        """Fold up to the last event before the round whose reasons hold at the end.

        Where no round was planned since the job came, its class's reason holds for it too: rounds
        are skipped only where planning would have said the same as before. So its own coming is as
        good a point; and where the class has none either, what the next round will find is at the
        end.
        """
        story = self._story
        last = story.last_round
        if last is not None:
            await self.fold_upto(last.seq - 1)
            return
        await self.fold_upto(story.own[0].seq)
        state = self.folded.state
        job = state.jobs.get(story.job_id)
        if job is None or job.waits_as not in state.class_waits:
            await self.fold_upto(story.seq)

    async def _restore(self, snapshot: Snapshot | None, *, with_jobs: bool = True) -> None:
        self.folded.state, self._rules = await restored(self._reader, snapshot, with_jobs=with_jobs)
        self.folded.reasons.begin(self.folded.state)
        self._begin_term()

    async def fold_upto(self, seq: int) -> None:
        """Fold events up to a number, but for those while the job only runs."""
        own = [each for each in self._story.own if each.seq > self.folded.state.seq]
        ends = [*(each.seq for each in own), self._story.seq + 1]
        for each, end in zip(own, ends[1:], strict=True):
            if each.seq <= seq and min(end, seq) - each.seq > LONG_RUN:
                await self._fold_frames(each.seq)
                await self._skip(min(end - 1, seq))
        await self._fold_frames(seq)

    async def _fold_frames(self, seq: int) -> None:
        state = self.folded.state
        with collector_off():
            async for frame in self._reader.frames(state.seq, seq):
                self._fold(frame.events(state.seq, seq))

    async def fold_alone(self) -> None:
        """Fold to the end of the story, without jobs that it does not depend on."""
        story = self._story
        alone = {story.job_id, *(each.job_id for each in story.spec.depends_on)}
        came = story.own[0].seq
        snapshot = await self._reader.snapshot_at(came - 1)
        await self._restore(snapshot, with_jobs=len(alone) > 1)
        state = self.folded.state
        for job in [*state.jobs.values()]:
            if job.job_id not in alone:
                depart(state, job, state.now_us, facts.Outcome.cancelled)
            elif job.phase is not JobPhase.waiting:
                # How it leaves these GPUs is not folded; they would be in use for ever.
                fall_back(state, job, state.now_us)
        words = [orjson.dumps(job_id) for job_id in sorted(alone)]
        before: list[tuple[int, Event]] = []
        async for frame in self._reader.frames(state.seq, came - 1):
            for seq, row in frame.rows_with(WITHOUT_JOB, words, NO_JOB):
                if state.seq < seq < came and (row[2] is None or row[2] in alone):
                    before.append((seq, decode_event(row)))
        since = [*story.shared, *((each.seq, each.event) for each in story.own)]
        rounds = {each.seq: each.round for each in story.own if each.round is not None}
        for seq, event in (*before, *sorted(since, key=lambda each: each[0])):
            if not _counts_alone(event, story.job_id):
                continue
            state.seq = seq - 1
            if seq in rounds:  # that may be one that was left out
                self.folded.reasons.last_round = rounds[seq]
            own = _without_others(event, alone) if isinstance(event, facts.RoundPlanned) else event
            self._fold([own])

    async def _skip(self, seq: int) -> None:
        """Go on from the newest snapshot up to an event, while the job only runs.

        Not with the notes of a policy, which takes them of others too.
        """
        state = self.folded.state
        job = state.jobs.get(self._story.job_id)
        if self._told is not None or job is None or job.phase is not JobPhase.running:
            return
        rounds = self._story.rounds  # one that decides of the job next has to be folded
        planned = bisect_right(rounds, seq, key=lambda each: each.seq) - 1
        upto = min(seq, rounds[planned].seq - 1) if planned >= 0 else seq
        snapshot = await self._reader.snapshot_at(upto)
        if snapshot is not None and snapshot.seq > state.seq:
            await self._restore(snapshot)

    def plan(self) -> Planned:
        """Ask the policy on the state, at the round that follows or at once."""
        from shunter.ask.why.rank_now import plan_again

        term, problem = self.staged()
        return plan_again(self._story, self.folded.state, term, problem)

    def staged(self) -> "tuple[Term | None, str]":
        """Return the policy at work on the state; or None, and why there is none."""
        if self._told is not None:
            return self._told, ""
        return self._fresh()

    def _fold(self, events: Iterable[Event]) -> None:
        """Fold events, tell a policy that takes notes, and look for launches and reasons."""
        folded, job_id = self.folded, self._story.job_id
        state, follow = folded.state, folded.reasons.follow
        for event in events:
            kind = type(event)
            if kind is facts.RoundPlanned and self._told is not None:
                self._told.stand_before(event.at_us)
            result = self._rules[kind](state, event) or NO_RESULT
            state.now_us = event.at_us
            state.seq += 1
            if self._told is not None:
                self._told.tell(event, result)
            if kind is facts.SchedulerStarted or kind is facts.ConfigChanged:
                self._begin_term()
            if result.launched and any(job.job_id == job_id for job in result.launched):
                folded.launches.append((state.seq, event.at_us))
            follow(event, state)

    def is_alone(self) -> bool:
        """Say whether the reasons of an ended job follow without the other jobs.

        They do where outcomes take no time, so that it waits for nobody to leave, and where what it
        needs and how gangs are told apart does not follow from samples of others. That is a fifth
        of the work.
        """
        own = [each.event for each in self._story.own]
        terms = [event for _, event in self._story.terms]
        starts = [last_start(terms[:count]) for count in range(1, len(terms) + 1)]
        return (
            all(each.instant for each in own if isinstance(each, facts.AllocationChanged))
            and not any(isinstance(each, TRIALS) for each in own)
            and not has_learnt_floor(self._story.spec)
            and all(classing_of(each, self._rebuild) is None for each in starts)
        )

    def _begin_term(self) -> None:
        """Let gangs be told apart as the policy does that decides from here on."""
        state, terms = self.folded.state, self._story.terms
        started = last_start(event for seq, event in terms if seq <= state.seq)
        self.folded.reasons.begin_term(classing_of(started, self._rebuild))

    def _fresh(self) -> "tuple[Term | None, str]":
        """Return the policy begun anew on the state."""
        from shunter.ask.why.rank_now import term_now

        return term_now(self._story, self.folded.state, self._rebuild)

    def _began(self) -> int | None:
        """Return the event that began the term, if its policy takes notes from there on."""
        from shunter.ask.staged_terms import takes_notes

        started = self._story.started
        if started is None:
            return None
        try:
            policy, _ = self._rebuild(started)
        except (ConfigError, NotFoundError, UsageError):
            return None
        return self._story.terms[-1][0] if takes_notes(policy) else None

    def _remembering(self, snapshot: Snapshot) -> "Term | None":
        term, _ = self._fresh()
        if term is not None:
            term.restore(snapshot.memory)
        return term


def _counts_alone(event: Event, job_id: JobId) -> bool:
    """Say whether an event is folded for a job without others.

    Of a job that it depends on its coming and its end have. How that ran follows from jobs that are
    not there, and what is solved for all names them.
    """
    if isinstance(event, SOLVED):
        return False
    about: JobId | None = getattr(event, "job_id", None)
    return about in (None, job_id) or isinstance(event, (facts.JobSubmitted, *JOB_ENDS))


def _without_others(event: facts.RoundPlanned, alone: Container[str]) -> facts.RoundPlanned:
    """Return a round that names no jobs but some."""
    if not (event.consolidated or event.spread or event.admitted or event.dismissed):
        return event

    def own(job_ids: Iterable[JobId]) -> tuple[JobId, ...]:
        return tuple(job_id for job_id in job_ids if job_id in alone)

    return replace(
        event,
        consolidated=own(event.consolidated),
        spread=own(event.spread),
        admitted=own(event.admitted),
        dismissed=own(event.dismissed),
    )
