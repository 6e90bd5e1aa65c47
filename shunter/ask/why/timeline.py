"""The life of a job in order: when it waited and held GPUs, and why it waited in each part."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from shunter.ask.recorded_terms import Began, config_of
from shunter.ask.waits import told_apart, wait_to_count
from shunter.ask.why.job_events import JobEvents, Own, Round, gives_gpus, is_ordered
from shunter.ask.words import clock
from shunter.core import UNTIL_ROUND, Health, Job, JobPhase, State
from shunter.events import (
    DISPLACED,
    JOB_ENDS,
    NOTHING,
    Allocation,
    Demand,
    Event,
    JobId,
    NodeName,
    Wait,
    facts,
    is_preemption,
    outcome_of,
    row_encoder,
    row_fields,
)
from shunter.events.log import LogReader

if TYPE_CHECKING:
    from shunter.core.planning import Classing


def last_grant(own: Sequence[Own]) -> Own | None:
    """Return the last event that gave a job GPUs, of its own events."""
    return next((each for each in reversed(own) if gives_gpus(each.event)), None)


#     submitted ──wait──▶ launched ──run──▶ preempted ──wait──▶ launched ──run──▶ finished
#


@dataclass(frozen=True)
class RunSpan:
    """One attempt: where, from its launch to when (None: still), and what ended it.

    It holds what it was given from `held_from_us` on: later than its launch where that waited in a
    queue that is not ours; None: it never started there.
    """

    attempt: int
    from_seq: int
    from_us: int
    held_from_us: int | None
    to_us: int | None
    allocation: Allocation
    decision: Own | None
    ended_by: Own | None


@dataclass(frozen=True)
class Waiting:
    """A stretch of waiting: from when to when (None: still), after and up to what."""

    from_seq: int
    from_us: int
    to_us: int | None
    after: Own
    to_seq: int | None = None


@dataclass(frozen=True)
class Segment:
    """A part of a wait with one reason, and the round that recorded it, if one did."""

    from_us: int
    to_us: int
    wait: Wait
    told: Round | None


@dataclass(frozen=True, slots=True)
class ReasonChange:
    """Why a job waits from an event on, and the round that recorded it, if one did."""

    seq: int
    at_us: int
    wait: Wait
    told: Round | None


def runs_and_waits(
    story: JobEvents, launches: Sequence[tuple[int, int]]
) -> tuple[list[RunSpan], list[Waiting]]:
    """Return the runs and waits of a job, from its own events and its launches."""
    timeline = _Timeline(story.own[0])
    pending = [*launches]
    for own in story.own[1:]:
        while pending and pending[0][0] < own.seq:
            timeline.launch(*pending.pop(0))
        timeline.follow(own)
        if pending and pending[0][0] == own.seq:
            timeline.launch(*pending.pop(0))
    for seq, at_us in pending:
        timeline.launch(seq, at_us)
    timeline.stop()
    waits = [wait for wait in timeline.waits if wait.to_us != wait.from_us]
    return timeline.runs, waits or timeline.waits[:1]


class _Timeline:
    """Follows a job from event to event, and keeps what it waits or runs since.

    One that is ending and has left its GPUs does neither, until it has ended or is retried.
    """

    def __init__(self, submitted: Own) -> None:
        self.runs: list[RunSpan] = []
        self.waits: list[Waiting] = []
        self._waits_since: tuple[int, int, Own] | None = (
            submitted.seq,
            submitted.event.at_us,
            submitted,
        )
        self._runs_since: tuple[int, int] | None = None
        self._held_from_us: int | None = None
        self._has_started = False
        self._granted: Own | None = None
        self._holds: Own | None = None
        self._where = NOTHING
        self._told_to_leave: Own | None = None
        self._is_ending = False
        self._gone_us: int | None = None  # its processes, seen later where nobody watched
        self._left_us = -1

    def launch(self, seq: int, at_us: int) -> None:
        """Begin to hold GPUs."""
        self.stop(at_us, seq)
        self._runs_since, self._holds = (seq, at_us), self._granted
        self._held_from_us, self._has_started = at_us, False
        self._waits_since = self._told_to_leave = self._gone_us = None
        self._is_ending = False
        self._where = _given_by(self._holds)

    def follow(self, own: Own) -> None:
        """Follow an event of its own."""
        event = own.event
        ends = isinstance(event, JOB_ENDS)
        if isinstance(event, facts.AllocationChanged) and self._runs_since is not None:
            self._told_to_leave = own
        if isinstance(event, facts.JobSuspended):
            self._told_to_leave = self._told_to_leave or own
        if isinstance(event, facts.AllocationLearned):
            self._where = event.allocation
        if isinstance(event, facts.AttemptEnded):
            self._gone_us = event.ended_us
        if self._runs_since is not None:
            self._note_start(event)
            self._is_ending |= isinstance(event, _ENDINGS)
            if _leaves(own):
                self._leave(own, ends=ends)
        elif ends and self._waits_since is not None:
            self._end_within(own)
        elif self._is_ending and isinstance(event, (*JOB_ENDS, facts.JobRetried)):
            self._end_after(own, ends=ends)
        if gives_gpus(event):
            self._granted = own

    def stop(self, at_us: int | None = None, by_seq: int | None = None) -> None:
        """Close what is open, by an event at an instant or by the story's end (None)."""
        if self._waits_since is not None:
            seq, from_us, after = self._waits_since
            self.waits.append(Waiting(seq, from_us, at_us, after, by_seq))
        elif self._runs_since is not None and at_us is None:
            self.runs.append(self._run(None, None))

    def _note_start(self, event: Event) -> None:
        """Note since when an attempt holds its GPUs, as the fold counts it."""
        if isinstance(event, facts.AttemptStarted):
            self._has_started = True
            if event.waited:
                began_us = event.at_us if event.started_us is None else event.started_us
                self._held_from_us = max(began_us, self._held_from_us or 0)
        elif isinstance(event, facts.LaunchFailed):
            if event.waited:
                self._held_from_us = None
        elif is_displacement(event) and not self._has_started:
            self._held_from_us = event.at_us

    def _leave(self, own: Own, *, ends: bool) -> None:
        by = own if ends or isinstance(own.event, facts.AttemptLost) else self._told_to_leave or own
        assert self._runs_since is not None, "only a run can end here"
        self._left_us = to_us = own.event.at_us
        if self._gone_us is not None:  # up to its release nobody used what it held
            to_us = max(self._gone_us, self._runs_since[1])
        self.runs.append(self._run(to_us, by))
        self._runs_since = None
        self._waits_since = None if ends or self._is_ending else (own.seq, to_us, by)

    def _end_within(self, own: Own) -> None:
        """End a wait; one that began with the release of GPUs at this instant was none."""
        assert self._waits_since is not None, "only a wait can end here"
        seq, from_us, after = self._waits_since
        to_us = own.event.at_us
        if self.runs and self._left_us == to_us:
            self.runs[-1] = replace(self.runs[-1], ended_by=own)
            to_us = from_us
        self.waits.append(Waiting(seq, from_us, to_us, after, own.seq))
        self._waits_since = None

    def _end_after(self, own: Own, *, ends: bool) -> None:
        """Say what became of a job that was ending and has left its GPUs."""
        self.runs[-1] = replace(self.runs[-1], ended_by=own)
        to_us, self._is_ending = self.runs[-1].to_us, False
        assert to_us is not None, "its attempt is over"
        self._waits_since = None if ends else (own.seq, to_us, own)

    def _run(self, to_us: int | None, by: Own | None) -> RunSpan:
        assert self._runs_since is not None, "only a run can end here"
        number = len(self.runs) + 1
        held_from_us = self._held_from_us
        if held_from_us is not None and to_us is not None:
            held_from_us = min(held_from_us, to_us)
        return RunSpan(number, *self._runs_since, held_from_us, to_us, self._where, self._holds, by)


_ENDINGS = (facts.AttemptEnded, facts.JobCancelRequested, facts.TimeLimitReached)
"""After these an attempt that is under way leaves its GPUs for good."""

_OF_ALL = frozenset(
    (
        *(
            facts.RoundPlanned,
            facts.QuotaChanged,
            facts.ToleranceLearnt,
            facts.ProfileSampled,
            *JOB_ENDS,
        ),
        *(
            facts.NodeAdded,
            facts.NodeDrained,
            facts.NodeRestored,
            facts.NodeLost,
            facts.NodeUnreachable,
            facts.NodeReachable,
        ),
        *(facts.NodeRemoved, facts.GpuQuarantined, facts.GpuRestored, facts.GpusTaken),
    )
)
"""The kinds of events by which the reason of a job may change that they are not about."""


class WaitReasons:
    """Why one job waits, by `wait_of` the state after each event of its log.

    `changes` has a part for each reason, or recorded numbers, that differ from those before. A
    class of equal jobs may wait since before the first event that is followed (`begin`): which
    round said so is looked for backwards from there (`with_rounds`).
    """

    def __init__(self, job_id: JobId) -> None:
        self.changes: list[ReasonChange] = []
        self._job_id = job_id
        self._begin_seq = 0
        self.last_round: Round | None = None
        self._of_classes: dict[Demand, Round] = {}
        self._of_own: Round | None = None
        self._is_unseen = False
        self._of_leaving: Round | None = None
        self._classing: Classing | None = None
        self._last: tuple[Wait, Round | None] | None = None
        self._is_recorded = False
        self._unknown: dict[Round | None, tuple[Demand, int]] = {}

    def begin(self, state: State) -> None:
        """Follow events from a state on; others may have been followed before."""
        self._begin_seq = state.seq
        self._of_classes.clear()
        self._is_recorded |= any(job.must_consolidate for job in state.jobs.values())

    def begin_term(self, classing: "Classing | None") -> None:
        """Tell gangs apart from here on as the policy of a new term does."""
        self._classing = classing

    async def with_rounds(self, reader: LogReader, parts: Sequence[Segment]) -> list[Segment]:
        """Return parts with the rounds of before that said why classes waited."""
        found: dict[Round | None, Round | None] = {}
        for part in parts:
            if part.told in self._unknown and part.told not in found:
                found[part.told] = await _round_that_told(reader, *self._unknown[part.told])
        return [replace(part, told=found.get(part.told, part.told)) for part in parts]

    def follow(self, event: Event, state: State) -> None:
        """Note why the job waits right after an event, which is folded."""
        kind = type(event)
        if kind is facts.RoundPlanned:
            self._note_round(event, state.seq)
        elif getattr(event, "job_id", None) == self._job_id:
            self._note_own(event)
        elif kind not in _OF_ALL:
            return
        job = state.jobs.get(self._job_id)
        if job is None or job.phase not in (JobPhase.waiting, JobPhase.granted):
            self._last, self._is_unseen = None, False
            return
        if self._is_unseen and job.left_for is None:
            self._of_own = self.last_round  # it found again what was recorded before
        self._is_unseen = job.is_unseen
        demand = self._class_of(job, state)
        wait = wait_to_count(job, state, demand)
        assert wait is not None, "a job that waits has a reason"
        told = self._recorded_by(wait, job, state, demand)
        reason = told_apart(wait, job.demand.gpu_types, state.cluster)
        wait = wait if reason is wait.reason else replace(wait, reason=reason)
        if self._last != (wait, told):
            self._last = wait, told
            self.changes.append(ReasonChange(state.seq, event.at_us, wait, told))

    def _note_round(self, event: Event, seq: int) -> None:
        assert isinstance(event, facts.RoundPlanned), "its kind was looked at"
        self.last_round = Round(seq, event.number, event.at_us)
        self._is_recorded |= bool(event.consolidated or event.spread)
        self._of_classes.update(
            dict.fromkeys([each.demand for each in event.waits], self.last_round)
        )

    def _note_own(self, event: Event) -> None:
        if isinstance(event, facts.WaitReasonChanged):
            self._of_own = self.last_round
        elif isinstance(event, facts.AllocationChanged):
            self._of_leaving = None if is_ordered(event) else self.last_round
        elif isinstance(event, facts.AttemptLost):
            self._of_leaving = None

    def _class_of(self, job: Job, state: State) -> Demand:
        """Return the class that the job waits in; logs of before do not say it of gangs."""
        if self._classing is None or self._is_recorded or job.must_consolidate:
            return job.waits_as
        return replace(job.demand, tight=self._classing.is_tight(job.spec, state.messages))

    def _recorded_by(self, wait: Wait, job: Job, state: State, demand: Demand) -> Round | None:
        """Return the round that recorded why the job waits; None: none did."""
        if wait is job.wait:
            return self._of_own
        if wait is job.left_for:
            return None if wait == UNTIL_ROUND else self._of_leaving
        if wait is not state.class_waits.get(demand):
            return None
        if demand not in self._of_classes:
            stand_in = Round(-1 - len(self._unknown), 0, 0)
            self._of_classes[demand] = stand_in
            self._unknown[stand_in] = demand, self._begin_seq
        return self._of_classes[demand]


def segments_of(story: JobEvents, waiting: Waiting, reasons: WaitReasons) -> list[Segment]:
    """Return the parts of a wait, each with the reason that held then.

    Within an instant only the last reason counts. Where the whole wait lies within one, that is
    the last reason before the round that ended it.
    """
    end_us = story.at_us if waiting.to_us is None else waiting.to_us
    changes = [
        each
        for each in reasons.changes
        if waiting.from_seq <= each.seq and (waiting.to_seq is None or each.seq < waiting.to_seq)
    ]
    if waiting.to_us is not None and waiting.to_us > waiting.from_us:
        changes = [each for each in changes if each.at_us < end_us]
    elif waiting.to_seq is not None:
        grant = last_grant([own for own in story.own if own.seq <= waiting.to_seq])
        planned = None if grant is None else grant.round
        changes = [each for each in changes if planned is None or each.seq < planned.seq][-1:]
    found: list[Segment] = []
    for each in {change.at_us: change for change in changes}.values():
        last = found[-1] if found else None
        if last is None:
            found.append(Segment(waiting.from_us, end_us, each.wait, each.told))
        elif last.wait.reason is not each.wait.reason:
            found[-1] = replace(last, to_us=each.at_us)
            found.append(Segment(each.at_us, end_us, each.wait, each.told))
        elif last.told is None and each.told is None:  # numbers of a round stay those of the first
            found[-1] = replace(last, wait=each.wait)
    assert found, "a job that waits has a reason"
    return found


_NUMBER, _WAITS = (row_fields(facts.RoundPlanned).index(name) for name in ("number", "waits"))


async def _round_that_told(reader: LogReader, demand: Demand, seq: int) -> Round | None:
    """Return the last round up to an event that said why a class waits."""
    key = orjson.dumps(row_encoder(Demand)(demand))
    # As a round says it: demand and reason. A job's demand alone is in many events.
    words = [b"[%b,[" % key]
    async for frame in reader.frames_before(seq):
        for number, row in reversed([*frame.rows_with(words=words)]):
            is_round = row[0] == facts.RoundPlanned.__name__ and number <= seq
            if is_round and any(orjson.dumps(each) == key for each, _ in row[_WAITS]):
                return Round(number, row[_NUMBER], row[1])
    return None


def is_displacement(event: Event) -> bool:
    """Say whether a job lost its GPUs because others have them."""
    return isinstance(event, facts.AllocationChanged) and event.because.rule == DISPLACED.rule


def _given_by(own: Own | None) -> Allocation:
    event = None if own is None else own.event
    return event.allocation if isinstance(event, facts.AllocationChanged) else NOTHING


def _leaves(own: Own) -> bool:
    """Say whether a job holds nothing any more after an event of its own."""
    event = own.event
    if isinstance(event, facts.AllocationChanged):
        return event.instant
    return isinstance(event, (*JOB_ENDS, facts.GpusReleased, facts.AttemptLost, facts.LaunchFailed))


def ended_as(own: Own | None) -> facts.Outcome | None:
    """Return how a job ended, by the event that ended it; None: by none of that kind."""
    if own is None or not isinstance(own.event, JOB_ENDS):
        return None
    return outcome_of(own.event)


# An order to Slurm, such as the scancel of one pilot, moves its jobs, and these preempt others.

GAINERS_ASKED = 8


async def losses_before(reader: LogReader, runs: list[RunSpan]) -> list[str]:
    """Return for whom the last attempt was preempted that had lost its own GPUs.

    Each in words, with when and by what; none: it was not preempted, or nobody had.
    """
    last = next((run.ended_by for run in reversed(runs) if run.ended_by is not None), None)
    if last is None or not isinstance(last.event, facts.AllocationChanged):
        return []
    if not is_preemption(last.event):
        return []
    found = []
    for job_id in last.event.because.beneficiaries[:GAINERS_ASKED]:
        loss = await _loss(reader, job_id, last.seq, last.event.at_us)
        if loss is not None:
            found.append(f"{job_id} had lost its own GPUs at {clock(loss.at_us)}: {loss.cause}")
    return found


async def _loss(
    reader: LogReader, job_id: JobId, seq: int, at_us: int
) -> facts.JobSuspended | facts.AttemptLost | None:
    """Return what a job lost its GPUs by before an event; None: by nobody outside."""
    found: facts.JobSuspended | facts.AttemptLost | None = None
    for _, event in await reader.job_events(job_id, seq):
        if isinstance(event, facts.JobSuspended | facts.AttemptLost):
            found = event if event.cause else None
        elif isinstance(event, facts.AllocationChanged) and event.at_us < at_us:
            found = None  # it was given others, or a plan took them
    return found


def unheld_by_log(terms: Sequence[tuple[int, Began]], state: State) -> frozenset[NodeName]:
    """Return the nodes that Slurm has not given, by what a log says.

    No answer is expected of them: in pilot mode nodes that nothing needs are given back, and are
    silent from then on. One on which something of ours runs is held, and has to answer.
    """
    backend = config_of(terms[-1][1] if terms else None).get("backend", {})
    if backend.get("kind") != "slurm":
        return frozenset()
    used = {share.node for job in state.jobs.values() for share in job.held.shares}
    servers = state.cluster.servers.values()
    silent = (each.name for each in servers if each.health is Health.unreachable)
    return frozenset(name for name in silent if name not in used)
