"""Planning once more at a point of the log, with all reasons: the evidence behind an answer.

The state right before the last round is folded (from the newest snapshot), the same planner is
asked that made the recorded decision, and what it says of the job's class is held against the
record. Nothing is emitted, so nothing changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shunter.app.collector import collector_off
from shunter.app.replaying.classing import classed, last_start
from shunter.app.replaying.folding import fold_events, state_of
from shunter.app.replaying.terms import Rebuild, Term
from shunter.app.replaying.why.story import Story
from shunter.core.fold import RULES
from shunter.core.planning.planner import RoundRules
from shunter.core.ports import Policy
from shunter.core.ranking import RankedPolicy, Ranking
from shunter.core.ranking.keys import rank_of
from shunter.core.state import Job, JobPhase, State
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events.facts.decisions import AllocationChanged, RoundPlanned, Trigger
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand
from shunter.events.values.reasons import Wait

AHEAD = 3


@dataclass(frozen=True)
class Place:
    """Where a waiting job stands: position, of how many, score, who is ahead."""

    position: int
    waiting: int
    score: tuple[int, ...]
    ahead: tuple[JobId, ...]


@dataclass(slots=True)
class Planned:
    """What planning again said: reason, whether it would start, who is pinned.

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
    place: Place | None = None
    pinned: tuple[tuple[JobId, int], ...] = ()
    starves_us: int | None = None
    problem: str = ""


@dataclass(slots=True)
class Folded:
    """The state at the point asked for, with what was looked at on the way."""

    state: State
    launches: list[tuple[int, int]] = field(default_factory=list)
    planned: Planned = field(default_factory=Planned)


def rules_of(story: Story, rebuild: Rebuild) -> tuple[RoundRules | None, str]:
    """Return the rules of rounds at the end of a story, or why there are none."""
    started = _started(story)
    if started is None:
        return None, "the log does not say which policy decided"
    try:
        return rebuild(started)[1], ""
    except (ConfigError, NotFoundError, UsageError) as error:
        return None, str(error)


async def fold_story(
    reader: LogReader, story: Story, rebuild: Rebuild, *, plan: bool, track: bool
) -> Folded:
    """Fold up to the story's end; plan again before its last round.

    Args:
        reader: the log.
        story: the job's story, which says where to stop.
        rebuild: makes the policy of a term.
        plan: whether to ask the policy again.
        track: whether to look for the instants at which the job's attempts began.
    """
    from_seq = story.own[0].seq - 1 if track else story.seq
    pause = _pause(story) if plan else story.seq
    snapshot = await reader.snapshot_at(min(from_seq, pause))
    folded = Folded(State() if snapshot is None else state_of(snapshot))
    job_id = story.job_id if track else None
    await _fold_upto(reader, folded, pause, job_id)
    if plan:
        folded.planned = plan_again(story, folded.state, rebuild)
    await _fold_upto(reader, folded, story.seq, job_id)
    job = folded.state.jobs.get(story.job_id)
    if plan and job is not None and job.phase is JobPhase.waiting:
        since_us = job.waiting_since_us or 0
        if since_us > folded.planned.at_us or not (folded.planned.waits or folded.planned.leaves):
            # That round was before this wait: what the next one will find is more to the point.
            folded.planned = plan_again(story, folded.state, rebuild)
    return folded


def plan_again(story: Story, state: State, rebuild: Rebuild) -> Planned:
    """Ask the policy on a state, at the round that follows or at once."""
    planned = Planned(state.seq, state.now_us)
    job = state.jobs.get(story.job_id)
    started = _started(story)
    if job is None or started is None:
        planned.problem = "the log does not say which policy decided"
        return planned
    try:
        term = Term(started, _with_all_reasons(rebuild), state)
    except (ConfigError, NotFoundError, UsageError) as error:
        planned.problem = str(error)
        return planned
    if getattr(term.policy, "remembers", False):
        planned.problem = "it decides by what it remembers of the rounds before"
        return planned
    last = story.last_round
    if last is not None and last.seq > state.seq:
        planned.at_us = last.at_us
    term.view.now_us = planned.at_us
    term.asked.advance(term.memory, term.view)
    for fact in term.planner.decisions(planned.at_us, Trigger.round):
        if isinstance(fact, RoundPlanned):
            planned.problem = f"the policy fails: {fact.fault}" if fact.fault else ""
            told = {entry.demand: entry.wait for entry in fact.waits}
            planned.wait = told.get(_demand_of(job, term))
        elif isinstance(fact, AllocationChanged) and fact.job_id == job.job_id:
            planned.starts = bool(fact.allocation.shares)
            planned.leaves = not planned.starts
    planned.waits = job.phase is JobPhase.waiting
    planned.place = _place_of(job, term)
    planned.pinned = _pinned(term, planned.at_us)
    if planned.waits:
        planned.starves_us = term.rules.guards.changes_at(job, planned.at_us)
    return planned


async def _fold_upto(reader: LogReader, folded: Folded, seq: int, job_id: JobId | None) -> None:
    state = folded.state
    with collector_off():
        async for frame in reader.frames(state.seq, seq):
            _fold(folded, frame.events(state.seq, seq), job_id)


def _fold(folded: Folded, events: Sequence[Event], job_id: JobId | None) -> None:
    """Fold events, and look for the launches of a job if one is named."""
    state = folded.state
    if job_id is None:
        fold_events(state, events)
        return
    for event in events:
        RULES[type(event)](state, event)
        state.now_us = event.at_us
        state.seq += 1
        if state.launched:
            if any(job.job_id == job_id for job in state.launched):
                folded.launches.append((state.seq, event.at_us))
            state.launched.clear()


def _pause(story: Story) -> int:
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


def _started(story: Story) -> SchedulerStarted | None:
    """Return what started the policy that decided at the end of a story."""
    return last_start(event for _, event in story.terms)


def _with_all_reasons(rebuild: Rebuild) -> Rebuild:
    def rebuilt(started: SchedulerStarted) -> tuple[Policy[Any], RoundRules]:
        policy, rules = rebuild(started)
        return policy, replace(rules, all_reasons=True)

    return rebuilt


def _demand_of(job: Job, term: Term) -> Demand:
    """Return the demand of the class in which a job waits."""
    placement = term.policy.placement if isinstance(term.policy, RankedPolicy) else None
    classing = None if placement is None else placement.classing
    return classed(job.demand, job.spec, classing, term.view.messages)


def _place_of(job: Job, term: Term) -> Place | None:
    """Return where a job stands among those that wait, if the policy ranks them."""
    ranking = term.memory
    if not isinstance(ranking, Ranking) or job.phase is not JobPhase.waiting:
        return None
    mine = ranking.entries.get(job.job_id)
    if mine is None:
        return None
    keys = sorted(key for waiting in ranking.classes for key in waiting.in_order)
    ahead = [key for key in keys if key < mine.key]
    first = tuple(ranking.entry_at(key).job_id for key in ahead[:AHEAD])
    rank = rank_of(mine.key)
    score = term.policy.numbers(rank) if isinstance(term.policy, RankedPolicy) else (rank,)
    return Place(len(ahead) + 1, len(keys), score, first)


def _pinned(term: Term, at_us: int) -> tuple[tuple[JobId, int], ...]:
    """Return the jobs a guard keeps in place and until when, soonest first."""
    guards = term.rules.guards
    found: list[tuple[int, int, JobId]] = []
    for job in term.view.jobs.values():
        if guards.pinned_by(job, at_us) is not None:
            until_us = guards.changes_at(job, at_us)
            if until_us is not None:
                found.append((until_us, job.ordinal, job.job_id))
    return tuple((job_id, until_us) for until_us, _, job_id in sorted(found)[:AHEAD])
