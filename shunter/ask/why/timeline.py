"""The life of a job in order: when it waited and held GPUs, and why it waited in each part."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from shunter.ask.recorded_terms import Began, config_of
from shunter.ask.waits import told_apart
from shunter.ask.why.job_events import (
    JobEvents,
    Own,
    RecordedWait,
    Round,
    gives_gpus,
    proposal_wait,
)
from shunter.ask.words import clock
from shunter.core import Health, State, turn_of
from shunter.core.fold import apply
from shunter.events import (
    ARRAY,
    BACKING_OFF,
    CHECKPOINT,
    DISPLACED,
    HELD,
    JOB_ENDS,
    NOTHING,
    RESIZED,
    STAYS,
    Allocation,
    AllocationChanged,
    AllocationLearned,
    AttemptEnded,
    AttemptLost,
    Event,
    GpuQuarantined,
    GpuRestored,
    GpusReleased,
    GpusTaken,
    GpuType,
    JobHeld,
    JobId,
    JobReleased,
    JobRetried,
    JobSuspended,
    LaunchFailed,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeName,
    NodeReachable,
    NodeRemoved,
    NodeRestored,
    NodeUnreachable,
    Outcome,
    Reason,
    Wait,
    WaitReasonChanged,
    is_preemption,
    outcome_of,
)
from shunter.events.log import LogReader


def launches_of(own: Sequence[Own]) -> list[tuple[int, int]] | None:
    """Return when attempts began: (number, instant); None: events do not say.

    Where outcomes take no time, the decision is the launch. Otherwise a job may have to wait for
    others to leave its GPUs, and only the fold knows until when.
    """
    granted = [each for each in own if gives_gpus(each.event)]
    if any(not each.event.instant for each in granted):  # type: ignore[union-attr]  # all grants
        return None
    return [(each.seq, each.event.at_us) for each in granted]


def last_grant(own: Sequence[Own]) -> Own | None:
    """Return the last event that gave a job GPUs, of its own events."""
    return next((each for each in reversed(own) if gives_gpus(each.event)), None)


#     submitted ──wait──▶ launched ──run──▶ preempted ──wait──▶ launched ──run──▶ finished
#
# A job waits for its own reason, else for that of its class of equal jobs, which may be older than
# the wait, else for what its last attempt left for, or for a round (as in `waits.wait_of`).

_FIRST_ROUND = Wait(Reason.waiting_for_round)
_FIRST_RELEASE = Wait(Reason.waiting_for_release)
_HOLDERS = {
    BACKING_OFF: Reason.backing_off,
    ARRAY: Reason.array_limit,
    CHECKPOINT: Reason.checkpoint_unreachable,
    STAYS: Reason.checkpoint_stays,
}


@dataclass(frozen=True)
class RunSpan:
    """One attempt: where, from when to when (None: still), and what ended it."""

    attempt: int
    from_seq: int
    from_us: int
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
    """Follows a job from event to event, and keeps what it waits or runs since."""

    def __init__(self, submitted: Own) -> None:
        self.runs: list[RunSpan] = []
        self.waits: list[Waiting] = []
        self._waits_since: tuple[int, int, Own] | None = (
            submitted.seq,
            submitted.event.at_us,
            submitted,
        )
        self._runs_since: tuple[int, int] | None = None
        self._granted: Own | None = None
        self._holds: Own | None = None
        self._where = NOTHING
        self._told_to_leave: Own | None = None
        self._gone_us: int | None = None  # its processes, seen later where nobody watched
        self._left_us = -1

    def launch(self, seq: int, at_us: int) -> None:
        """Begin to hold GPUs."""
        self.stop(at_us, seq)
        self._runs_since, self._holds = (seq, at_us), self._granted
        self._waits_since = self._told_to_leave = self._gone_us = None
        self._where = _given_by(self._holds)

    def follow(self, own: Own) -> None:
        """Follow an event of its own."""
        event = own.event
        ends = isinstance(event, JOB_ENDS)
        if isinstance(event, AllocationChanged) and self._runs_since is not None:
            self._told_to_leave = own
        if isinstance(event, JobSuspended):
            self._told_to_leave = self._told_to_leave or own
        if isinstance(event, AllocationLearned):
            self._where = event.allocation
        if isinstance(event, AttemptEnded):
            self._gone_us = event.ended_us
        if self._runs_since is not None and _leaves(own):
            self._leave(own, ends=ends)
        elif ends and self._waits_since is not None:
            self._end_within(own)
        elif isinstance(event, JobRetried) and self.runs:
            self.runs[-1] = replace(self.runs[-1], ended_by=own)
        if gives_gpus(event):
            self._granted = own

    def stop(self, at_us: int | None = None, by_seq: int | None = None) -> None:
        """Close what is open, by an event at an instant or by the story's end (None)."""
        if self._waits_since is not None:
            seq, from_us, after = self._waits_since
            self.waits.append(Waiting(seq, from_us, at_us, after, by_seq))
        elif self._runs_since is not None and at_us is None:
            self.runs.append(self._run(None, None))

    def _leave(self, own: Own, *, ends: bool) -> None:
        by = own if ends or isinstance(own.event, AttemptLost) else self._told_to_leave or own
        assert self._runs_since is not None, "only a run can end here"
        self._left_us = to_us = own.event.at_us
        if self._gone_us is not None:  # up to its release nobody used what it held
            to_us = max(self._gone_us, self._runs_since[1])
        self.runs.append(self._run(to_us, by))
        self._runs_since = None
        self._waits_since = None if ends else (own.seq, to_us, by)

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

    def _run(self, to_us: int | None, by: Own | None) -> RunSpan:
        assert self._runs_since is not None, "only a run can end here"
        number = len(self.runs) + 1
        return RunSpan(number, *self._runs_since, to_us, self._where, self._holds, by)


def segments_of(story: JobEvents, waiting: Waiting, *, blocked: bool) -> list[Segment]:
    """Return the parts of a wait, each with the reason that held then.

    Args:
        story: what the log says of the job.
        waiting: the stretch.
        blocked: whether the job still waits for others at the end of the story.
    """
    end_us = story.at_us if waiting.to_us is None else waiting.to_us
    reasons = _Reasons(story, waiting, blocked=blocked)
    found: list[Segment] = []
    cuts = sorted({at for at in reasons.cuts() if waiting.from_us <= at < end_us})
    for start_us, stop_us in pairwise([*cuts, end_us]):
        wait, told = reasons.at(start_us)
        last = found[-1] if found else None
        if last is not None and last.wait.reason is wait.reason:
            found[-1] = _going_on(last, stop_us, wait, told)
        else:
            found.append(Segment(start_us, stop_us, wait, told))
    if not found or waiting.to_us is None:
        wait, told = reasons.at_end()
        if not found or found[-1].wait.reason is not wait.reason:
            found.append(Segment(end_us, end_us, wait, told))
        else:
            found[-1] = _going_on(found[-1], found[-1].to_us, wait, told)
    return found


def _going_on(last: Segment, to_us: int, wait: Wait, told: Round | None) -> Segment:
    """Return a part that goes on; a reason that no round told is the last one."""
    latest = wait if told is None and last.told is None else last.wait
    return Segment(last.from_us, to_us, latest, last.told)


class _Reasons:
    """Why a job waits at any instant of one stretch."""

    def __init__(self, story: JobEvents, waiting: Waiting, *, blocked: bool) -> None:
        self._story = story
        self._waiting = waiting
        self._told_us = [told.at_us for told in story.told]
        self._unblocked_us = _unblocked_us(story, blocked=blocked)
        self._initial = _initial(waiting)

    def cuts(self) -> list[int]:
        """Return the instants at which the reason may become another one."""
        own = [each.event.at_us for each in self._story.own]
        met = [] if self._unblocked_us is None else [self._unblocked_us]
        met += [planned.at_us for planned in self._planned_since_displaced()[:1]]
        met += [admission.at_us for admission in self._story.admissions]
        return [self._waiting.from_us, *self._told_us, *own, *met]

    def at(self, at_us: int) -> tuple[Wait, Round | None]:
        """Return the reason right after everything of an instant has happened."""
        return self._reason(at_us, bisect_right(self._told_us, at_us))

    def at_end(self) -> tuple[Wait, Round | None]:
        """Return the reason at the end of the stretch, which may end within an instant.

        Rounds after one that has ended say nothing of it, nor does the one that ended it.
        """
        to_us, to_seq = self._waiting.to_us, self._waiting.to_seq
        at_us = self._story.at_us if to_us is None else to_us
        told = self._story.told
        if to_seq is not None:
            ended = last_grant([own for own in self._story.own if own.seq <= to_seq])
            by = None if ended is None else ended.round
            told = [each for each in told if each.seq < to_seq and each.round != by]
        return self._reason(at_us, len(told))

    def _reason(self, at_us: int, told: int) -> tuple[Wait, Round | None]:
        own = self._own(at_us)
        if own is not None:
            return own
        latest: RecordedWait | None = self._story.told[told - 1] if told else None
        if latest is None or latest.wait is None:
            return self._initial
        return latest.wait, latest.round

    def _own(self, at_us: int) -> tuple[Wait, Round | None] | None:
        """Return a reason that is the job's alone."""
        held: Reason | None = None
        found: tuple[Wait, Round | None] | None = None
        after = self._waiting.from_seq
        for own in self._story.own:
            event = own.event
            if event.at_us > at_us:
                break
            if isinstance(event, JobHeld | JobReleased):
                held = _reason_of_hold(event)
            elif isinstance(event, AllocationChanged):
                # A grant on which the job is launched at once ends the wait.
                is_later = own.seq > self._waiting.from_seq and event.at_us != self._waiting.to_us
                after = own.seq if is_later else after
                found = (_FIRST_RELEASE, None) if is_later and gives_gpus(event) else None
                if is_later and is_displacement(event) and not self._was_planned(at_us):
                    found = _displaced_by(event), None
            elif isinstance(event, WaitReasonChanged) and own.seq > self._waiting.from_seq:
                found = event.wait, own.round
        if held is Reason.array_limit:
            return turn_of(self._story.spec), None
        if held is not None:
            return Wait(held), None
        if self._unblocked_us is None or at_us < self._unblocked_us:
            blockers = tuple(each.job_id for each in self._story.spec.depends_on)
            return Wait(Reason.dependency, blockers=blockers), None
        return self._proposed(at_us, after) or found

    def _proposed(self, at_us: int, after: int) -> tuple[Wait, Round | None] | None:
        """Return why it waits where its place is to be proposed, admitted after an event.

        That goes before a reason that was recorded for it alone, before or since.
        """
        events = ((own.seq, own.event) for own in self._story.own)
        wait = proposal_wait(events, self._story.admissions, after, at_us)
        return None if wait is None else (wait, None)

    def _planned_since_displaced(self) -> list[Round]:
        """Return the rounds since the GPUs promised to the job were others'."""
        displaced = [own.seq for own in self._story.own if is_displacement(own.event)]
        if not displaced or displaced[-1] <= self._waiting.from_seq:
            return []
        return [planned for planned in self._story.rounds if planned.seq > displaced[-1]]

    def _was_planned(self, at_us: int) -> bool:
        return any(planned.at_us <= at_us for planned in self._planned_since_displaced())


def _reason_of_hold(event: JobHeld | JobReleased) -> Reason | None:
    """Return why a job may not start from here on; None: it may."""
    if isinstance(event, JobReleased):
        return None
    return _HOLDERS.get(event.by, Reason.held)


def _initial(waiting: Waiting) -> tuple[Wait, Round | None]:
    """Return why a job waits before any round has looked at it."""
    event = waiting.after.event
    if isinstance(event, AllocationChanged):
        rule = event.because.rule
        if gives_gpus(event):  # it moves, and others have yet to leave where it goes
            return _FIRST_RELEASE, None
        if event.because in (RESIZED, HELD):  # released since: while held, that is its reason
            return _FIRST_ROUND, None
        if is_displacement(event):
            return _displaced_by(event), None
        reason = Reason(rule) if rule in Reason.__members__ else Reason.outranked
        return Wait(reason, blockers=event.because.beneficiaries), waiting.after.round
    if isinstance(event, AttemptLost):
        return Wait(Reason.node_lost, detail=event.cause), None
    return _FIRST_ROUND, None


def _unblocked_us(story: JobEvents, *, blocked: bool) -> int | None:
    """Return from when on a job waited for no other one; None: it still does."""
    if blocked:
        return None
    return max((event.at_us for _, event in story.dependencies), default=story.submitted.at_us)


def is_displacement(event: Event) -> bool:
    """Say whether a job lost its GPUs because others have them."""
    return isinstance(event, AllocationChanged) and event.because.rule == DISPLACED.rule


def _displaced_by(event: AllocationChanged) -> Wait:
    because = event.because
    return Wait(Reason.displaced, blockers=because.beneficiaries, detail=because.detail)


def _given_by(own: Own | None) -> Allocation:
    event = None if own is None else own.event
    return event.allocation if isinstance(event, AllocationChanged) else NOTHING


def _leaves(own: Own) -> bool:
    """Say whether a job holds nothing any more after an event of its own."""
    event = own.event
    if isinstance(event, AllocationChanged):
        return event.instant
    return isinstance(event, (*JOB_ENDS, GpusReleased, AttemptLost, LaunchFailed))


def ended_as(own: Own | None) -> Outcome | None:
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
    if last is None or not isinstance(last.event, AllocationChanged):
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
) -> JobSuspended | AttemptLost | None:
    """Return what a job lost its GPUs by before an event; None: by nobody outside."""
    found: JobSuspended | AttemptLost | None = None
    for _, event in await reader.job_events(job_id, seq):
        if isinstance(event, JobSuspended | AttemptLost):
            found = event if event.cause else None
        elif isinstance(event, AllocationChanged) and event.at_us < at_us:
            found = None  # it was given others, or a plan took them
    return found


# A round records one reason for all. Where all missing servers are drained, the wait is said to be
# for that, since somebody ordered it; and for GPUs that others hold where these would be enough.

_KINDS = frozenset(
    kind.__name__
    for kind in (
        *(NodeAdded, NodeDrained, NodeRestored, NodeLost),
        *(NodeUnreachable, NodeReachable, NodeRemoved),
        *(GpuQuarantined, GpuRestored, GpusTaken),
    )
)


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


async def segments_told_apart(
    reader: LogReader, segments: Sequence[Segment], gpu_types: Sequence[GpuType], seq: int
) -> list[Segment]:
    """Return parts of waits, told as of drained servers or GPUs others hold.

    Args:
        reader: the log.
        segments: the parts.
        gpu_types: those that the job accepts; none: all.
        seq: the last event that counts.
    """
    if not any(_is_told_as_lost(part) for part in segments):
        return list(segments)
    events = [event for _, event in await reader.events_of(_KINDS, seq)]
    return [
        replace(part, wait=replace(part.wait, reason=_reason_of(events, gpu_types, part)))
        if _is_told_as_lost(part)
        else part
        for part in segments
    ]


def _is_told_as_lost(part: Segment) -> bool:
    """Say whether a round told it: the loss of its own server is the job's own."""
    is_of_servers = part.wait.reason in (Reason.node_lost, Reason.gpu_type_unavailable)
    return is_of_servers and part.told is not None and not part.wait.detail


def _reason_of(events: Sequence[Event], gpu_types: Sequence[GpuType], part: Segment) -> Reason:
    """Return why too few GPUs were in service when a part began.

    Nor may a server have been lost since that is to be told as drained, or as others': a part ends
    when servers are restored, or soon after.
    """
    state = State()
    for event in events:
        if event.at_us >= max(part.to_us, part.from_us + 1):
            break
        if event.at_us <= part.from_us or isinstance(event, NodeLost | NodeUnreachable):
            apply(state, event)
    reason = told_apart(part.wait, gpu_types, state.cluster)
    is_lost = reason is Reason.node_lost
    return part.wait.reason if is_lost else reason
