"""Why a job is where it is: what the log recorded, what planning again says, and its whole life.

An explanation holds numbers and ids only; `document` gives them names, `sentences` words.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson

from shunter.ask.log_reading import end_of_decision, noted_us_of, unknown_job
from shunter.ask.recorded_terms import Rebuild
from shunter.ask.scores import measures_at
from shunter.ask.waits import holding_back
from shunter.ask.why.job_events import END_KINDS, JobEvents, Own, Round, gives_gpus, read_story
from shunter.ask.why.present import NAMED, Planned, Present
from shunter.ask.why.replan import RecordedPolicies, fold_story
from shunter.ask.why.timeline import (
    RunSpan,
    Segment,
    Waiting,
    ended_as,
    is_displacement,
    last_grant,
    losses_before,
    runs_and_waits,
    segments_of,
    unheld_by_log,
)
from shunter.ask.words import clock, is_short_when_empty
from shunter.core import PROPOSING, Cluster, Job, JobPhase, State, under_way
from shunter.core.fold import release_wait
from shunter.core.ranking import Measure
from shunter.errors import NotFoundError
from shunter.events import (
    DEPENDENCY,
    JOB_ENDS,
    Event,
    JobId,
    NodeName,
    Reason,
    Sharing,
    Wait,
    decode_event,
    end_us_of,
    facts,
    outcome_of,
)
from shunter.events.log import LogReader

# One look through the frames that name a job or its dependencies, up to its GPUs or its end.

_ALLOCATED = facts.AllocationChanged.__name__
_OF_TURNS = (facts.TurnStarted, facts.TurnEnded, facts.AttemptEnded)
_CUTS = (
    facts.AttemptStarted,
    facts.AttemptLost,
    facts.JobSuspended,
    facts.JobStopped,
    facts.GpusReleased,
    facts.AllocationChanged,
)
"""After these nothing of before is told any more."""


@dataclass(slots=True)
class Later:
    """What a log says after the point asked for, up to `upto_seq`.

    `event` is what gave the job GPUs or ended it; None: it still waited at the end of the log.
    `ends` are those of the jobs that were named, as far as they came before it.
    """

    upto_seq: int
    upto_us: int
    seq: int = 0
    event: Event | None = None
    ends: dict[JobId, tuple[int, Event]] = field(default_factory=dict)


async def later_of(reader: LogReader, story: JobEvents, named: Sequence[JobId]) -> Later | None:
    """Return what became of a job after its story; None where the log ends with it.

    Raises:
        LogDamagedError: the bytes of the log are not what was written.
    """
    head = await reader.head()
    if head.seq <= story.seq:
        return None
    later = Later(head.seq, story.at_us)
    words = [orjson.dumps(job_id) for job_id in (story.job_id, *named)]
    async for frame in reader.frames(story.seq, head.seq):
        later.upto_us = frame.at_us
        for seq, row in frame.rows_with(words=words):
            if story.seq < seq <= head.seq:
                later.upto_us = row[1]
                _take(later, story.job_id, named, seq, row)
            if later.event is not None:
                return later
        if frame.last_seq >= head.seq:
            later.upto_us = frame.rows()[head.seq - frame.first_seq][1]
    return later


def _take(later: Later, job_id: JobId, named: Sequence[JobId], seq: int, row: list[object]) -> None:
    kind, about = row[0], row[2]
    if about == job_id and kind in (_ALLOCATED, *END_KINDS):
        event = decode_event(row)
        if not isinstance(event, facts.AllocationChanged) or event.allocation.shares:
            later.seq, later.event = seq, event
    elif kind in END_KINDS and about in named:
        later.ends[JobId(str(about))] = (seq, decode_event(row))


async def seen_later(reader: LogReader, story: JobEvents) -> list[Event]:
    """Return what happened to a job's turns before a point and was seen after it.

    A scheduler that was away sees then what its servers noted, with the instants of that.
    """
    found: list[Event] = []
    for seq, event in await reader.job_events(story.job_id):
        if seq <= story.seq or not isinstance(event, (*_OF_TURNS, *_CUTS)):
            continue
        noted_us = noted_us_of(event)
        if noted_us is None or noted_us > story.at_us:
            break
        found.append(event)
    return found


# A phase begins with the decision that grants GPUs, the order to leave them, the start of the
# processes, or their end.

NumberedEvents = Sequence[tuple[int, Event]]
"""The events about a job, up to some point, with their numbers."""


async def ended_of(
    reader: LogReader, job_ids: Iterable[JobId], seq: int
) -> dict[JobId, facts.Outcome]:
    """Return how those jobs ended that had by an event."""
    return {
        job_id: outcome_of(event)
        for job_id in job_ids
        for _, event in await reader.job_events(job_id, seq)
        if isinstance(event, JOB_ENDS)
    }


async def came_of(reader: LogReader, blockers: Iterable[JobId], state: State) -> dict[JobId, int]:
    """Return since when the blockers that a state has are in their phases."""
    found: dict[JobId, int] = {}
    for job_id in blockers:
        job = state.jobs.get(job_id)
        if job is None:
            continue
        own: NumberedEvents = ()
        if job.phase not in (JobPhase.waiting, JobPhase.launching):  # the state says when
            own = await reader.job_events(job_id, state.seq)
        since_us = phase_since_us(job, own)
        if since_us is not None:
            found[job_id] = since_us
    return found


def phase_since_us(job: Job, own: NumberedEvents) -> int | None:
    """Return since when a job is in its phase; None: nobody knows.

    One that was granted GPUs was so by the last decision, though it has left others since.
    """
    began_us = job.attempt_began_us
    if job.phase is JobPhase.granted:
        granted = [event.at_us for _, event in own if gives_gpus(event)]
        return granted[-1] if granted else job.waiting_since_us
    if job.phase is JobPhase.ending:
        return min((event.at_us for event in _ends(job, own)), default=began_us)
    if began_us is None:
        return job.waiting_since_us
    if job.phase is JobPhase.suspending:
        order = order_to_leave(job, own)
        return began_us if order is None else order[1].at_us
    for _, event in own if job.phase is JobPhase.running else ():
        if isinstance(event, facts.AttemptStarted) and event.attempt == job.attempt:
            return event.at_us if event.started_us is None else max(event.started_us, began_us)
    return began_us


def order_to_leave(job: Job, own: NumberedEvents) -> tuple[int, Event] | None:
    """Return what made an attempt leave its GPUs, with its number; None: nothing has.

    That is the first decision since its launch that takes them away, or that it left by itself.
    """
    began_us = job.attempt_began_us
    if began_us is None:
        return None
    granted = [told for told in own if gives_gpus(told[1]) and told[1].at_us <= began_us]
    if not granted:
        return None
    seq, event = granted[-1]
    assert isinstance(event, facts.AllocationChanged), "only such grant"
    shares = event.allocation.shares
    for after, told in own:
        if after <= seq:
            continue
        if isinstance(told, facts.AllocationChanged):
            target = told.allocation
            if target.sharing is not Sharing.packed or target.shares != shares:
                return after, told
        elif isinstance(told, facts.JobSuspended) and told.attempt == job.attempt:
            return after, told
    return None


def _ends(job: Job, own: NumberedEvents) -> list[Event]:
    """Return what made an attempt end: its own end, or that somebody wants it."""
    ends: list[Event] = []
    for _, event in own:
        if gives_gpus(event):
            ends = []  # it was asked of an attempt before
        if isinstance(event, facts.AttemptEnded) and event.attempt == job.attempt:
            ends.append(event)
        if isinstance(event, facts.JobCancelRequested | facts.TimeLimitReached):
            ends.append(event)
    return ends


_NOT_OF_GPUS = (
    Reason.held,
    Reason.dependency,
    Reason.backing_off,
    Reason.checkpoint_unreachable,
    Reason.checkpoint_stays,
    Reason.array_limit,
    Reason.displaced,
)
_OF_SERVERS = (
    *(Reason.node_lost, Reason.node_drained, Reason.gpus_quarantined),
    *(Reason.gpu_type_unavailable, Reason.gpus_taken),
)


@dataclass(frozen=True)
class Agreement:
    """Whether planning again gives the recorded reason, if it can be `checked`."""

    checked: bool
    agrees: bool
    replanned: Reason | None
    problem: str


@dataclass(slots=True)
class Explanation:
    """What is known about one job at one point of a log.

    `job` and `state` are there while it has not ended; `reasons` are the parts of all its waits.
    `cluster` are the servers of then, of a job that could never run though there are enough GPUs.
    `asked_seq` is the event that was asked for, which may lie within the decision that ends at
    the story's. `policies` are what decided in its life. `is_brief` says that what stands in a
    document alone is left out.
    `ended` are blockers that have ended, with how they did, `came_us` since when the others are in
    their phases. `told_later` is what happened to its turns up to this point, and was seen later.
    `unheld` are nodes that Slurm has not given, of which no answer is expected. `losses` say how
    those had lost their GPUs for whom its last attempt was preempted.
    """

    url: str
    asked_seq: int
    policy: str
    story: JobEvents
    runs: Sequence[RunSpan]
    waits: Sequence[Waiting]
    reasons: Sequence[Segment]
    policies: RecordedPolicies
    is_brief: bool = False
    state: State | None = None
    job: Job | None = None
    planned: Planned = field(default_factory=Planned)
    present: Present = field(default_factory=lambda: Present(0, 0))
    later: Later | None = None
    cluster: Cluster | None = None
    ended: Mapping[JobId, facts.Outcome] = field(default_factory=dict)
    came_us: Mapping[JobId, int] = field(default_factory=dict)
    told_later: Sequence[Event] = ()
    unheld: Collection[NodeName] = ()
    losses: Sequence[str] = ()

    @property
    def there(self) -> State:
        """The state at this point, where the job waits."""
        assert self.state is not None, "only a job that has ended has no state"
        return self.state

    def measures_at(self, seq: int) -> tuple[Measure, ...]:
        """Return what the scores counted that were recorded with an event."""
        return measures_at(self.policies.measures, seq)

    def used_gpu_us(self, at_us: int) -> int:
        """Return what the job had used of GPUs by an instant, in GPU-microseconds."""
        return sum(
            max(0, min(to_us, at_us) - from_us) * run.allocation.gpus
            for run, from_us, to_us in self._held()
        )

    @property
    def outcome(self) -> facts.Outcome | None:
        """How it ended, if it has."""
        return ended_as(self.story.end)

    @property
    def phase(self) -> str:
        """Where it is in its life: a phase, or its outcome."""
        if self.outcome is not None:
            return str(self.outcome)
        if self.job is not None and self.job.phase is JobPhase.running and self.job.speed == 0:
            return "running" if self.job.awaits_turn and not self._was_stopped else "stopped"
        job = self.job
        if job is None:
            return str(JobPhase.waiting)
        is_over = bool(job.end_cause) or job.exit_code is not None
        if is_over and job.phase is JobPhase.waiting:  # it has lost its GPUs, its end comes next
            return str(JobPhase.ending)
        return str(job.phase)

    @property
    def _was_stopped(self) -> bool:
        """Whether somebody stopped it and nobody let it go on since."""
        kinds = (facts.JobStopped, facts.JobContinued)
        last = [own.event for own in self.story.own if isinstance(own.event, kinds)]
        return bool(last) and isinstance(last[-1], facts.JobStopped)

    @property
    def waits_now(self) -> Segment | None:
        """The reason it waits for at this point; None: it does not wait."""
        if self.phase not in (JobPhase.waiting, JobPhase.granted) or not self.reasons:
            return None
        return self.reasons[-1]

    @property
    def told(self) -> Round | None:
        """The round that recorded the reason it waits for."""
        return None if self.waits_now is None else self.waits_now.told

    @property
    def reason_us(self) -> int:
        """When its reason was told: by a round, or else at the instant asked for."""
        return self.story.at_us if self.told is None else self.told.at_us

    @property
    def evidence(self) -> Wait | None:
        """The numbers of the instant asked for; blockers are still there.

        A policy that cannot be asked again leaves the recorded blockers, without those that hold
        nothing any more.
        """
        now, present = self.waits_now, self.present
        if now is None or self.job is None:
            return None
        if (for_release := release_wait(self.there, self.job)) is not None:
            return for_release
        wait, after = now.wait, self.waits[-1].after
        if isinstance(after.event, facts.AllocationChanged) and now.told == after.round:
            # The round that took its GPUs said why it waits, and the order for whom.
            wait = replace(wait, blockers=wait.blockers or after.event.because.beneficiaries)
        if wait.reason is Reason.array_limit:
            return replace(wait, blockers=under_way(self.there.jobs, self.story.spec))
        if wait.reason in _NOT_OF_GPUS:
            return replace(wait, blockers=self._still(wait.blockers, waiting=True))
        if wait.reason in (*_OF_SERVERS, *PROPOSING):
            return replace(wait, needed=present.needed, free=present.gpus.free, blockers=())
        room = present.room(wait.reason)
        blockers = room.holders if present.place else self._still(wait.blockers, waiting=False)
        blockers = holding_back(blockers, wait.reason, self.story.spec, self.there)[:NAMED]
        return replace(wait, needed=present.needed, free=room.free, blockers=blockers)

    @property
    def agreement(self) -> Agreement:
        """Whether planning again says the same."""
        now, planned = self.waits_now, self.planned
        replanned = planned.wait.reason if planned.wait else None
        problem = "" if self.outcome else self.policies.last.problem or planned.problem
        # What no round has told is not the policy's reason: held, a dependency, a lost server.
        if now is None or now.told is None or problem or not self._was_asked(now):
            return Agreement(checked=False, agrees=True, replanned=replanned, problem=problem)
        # In the midst of a round's facts, the one that starts the job may be still to come.
        within = self.there.now_us == planned.at_us
        told: tuple[Reason, ...] = (now.wait.reason,)
        if now.wait.reason in (Reason.node_drained, Reason.gpus_quarantined, Reason.gpus_taken):
            told = (Reason.node_lost, Reason.gpu_type_unavailable)
        agrees = replanned in told or planned.leaves or (planned.starts and within)
        return Agreement(checked=True, agrees=agrees, replanned=replanned, problem=problem)

    @property
    def is_of_class(self) -> bool:
        """Whether its reason is one of its class, from before this wait or this size."""
        told = self.told
        if told is None:
            return False
        after = self.waits[-1].after
        took_its_gpus = isinstance(after.event, facts.AllocationChanged) and told == after.round
        resized = (own.seq for own in self.story.own if isinstance(own.event, facts.JobResized))
        return told.seq < max(after.seq, *resized, 0) and not took_its_gpus

    def _still(self, blockers: Sequence[JobId], *, waiting: bool) -> tuple[JobId, ...]:
        """Return the blockers that have not ended and hold GPUs, or, if asked for, wait."""
        jobs = self.there.jobs
        return tuple(
            job_id
            for job_id in blockers
            if job_id in jobs and (waiting or jobs[job_id].allocation.shares)
        )

    def _was_asked(self, now: Segment) -> bool:
        """Say whether the plan that was made again is the one that gave a reason."""
        after = self.waits[-1].after
        if isinstance(after.event, facts.AllocationChanged) and now.told == after.round:
            return self.planned.leaves
        return self.planned.waits

    @property
    def leaves_because(self) -> Own | None:
        """Why it has to leave, if others have its GPUs and it has not left."""
        leaves = self.job is not None and self.job.phase is JobPhase.suspending
        last = next(
            (
                own
                for own in reversed(self.story.own)
                if isinstance(own.event, facts.AllocationChanged)
            ),
            None,
        )
        return last if leaves and last is not None and is_displacement(last.event) else None

    @property
    def grant(self) -> Own | None:
        """What gave the job the GPUs that it has, or waits for others to leave."""
        if self.phase == JobPhase.granted:
            return last_grant(self.story.own)
        return None if self.last_run is None else self.last_run.decision

    @property
    def last_run(self) -> RunSpan | None:
        """Its present or last attempt."""
        return self.runs[-1] if self.runs else None

    @property
    def over_us(self) -> int:
        """When its processes were gone, which may have been seen later."""
        event = None if self.story.end is None else self.story.end.event
        assert isinstance(event, JOB_ENDS), "it has not ended"
        return end_us_of(event)

    @property
    def waited_us(self) -> int:
        """How long it has waited for a reason."""
        return sum(self._upto(wait.to_us) - wait.from_us for wait in self.waits)

    @property
    def unheld_us(self) -> int:
        """How long it has held nothing: while its launches waited, too."""
        return self.waited_us + sum(from_us - run.from_us for run, from_us, _ in self._held())

    def held_from_us(self, run: RunSpan) -> int | None:
        """Return since when an attempt holds its GPUs; None: it never has, up to now."""
        job = self.job
        if run.to_us is not None or job is None or job.phase is not JobPhase.launching:
            return run.held_from_us
        rules = self.policies.last.rules  # for which the policy is built
        return None if rules and rules.launches_wait else run.held_from_us

    def _held(self) -> Iterator[tuple[RunSpan, int, int]]:
        """Yield attempts with the span in which they held GPUs, which may be empty."""
        for run in self.runs:
            from_us, to_us = self.held_from_us(run), self._upto(run.to_us)
            yield run, to_us if from_us is None else from_us, to_us

    @property
    def held_us(self) -> int:
        """How long it has held GPUs, up to its end: that may have been seen later."""
        held = [(from_us, to_us) for _, from_us, to_us in self._held()]
        if self.story.end is not None:
            held = [(from_us, min(to_us, self.over_us)) for from_us, to_us in held]
        return sum(to_us - from_us for from_us, to_us in held)

    def shares(self) -> list[tuple[Reason, int]]:
        """Return how long each reason held in all waits together, the longest first."""
        sums: dict[Reason, int] = {}
        for part in self.reasons:
            reason = part.wait.reason
            sums[reason] = sums.get(reason, 0) + part.to_us - part.from_us
        return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))

    def _upto(self, to_us: int | None) -> int:
        """Return an end, or where what still lasts has come to."""
        if to_us is not None:
            return to_us
        end = self.story.end
        return self.story.at_us if end is None else end.event.at_us


async def explain(
    reader: LogReader,
    job_id: JobId,
    seq: int,
    at_us: int,
    rebuild: Rebuild,
    *,
    is_brief: bool = False,
) -> Explanation:
    """Explain a job at a point of a log.

    Args:
        reader: the log.
        job_id: the job.
        seq: the last event that counts; within a decision, all of that counts.
        at_us: the instant that is asked for, not before that event.
        rebuild: makes the policy and rules of a term.
        is_brief: whether to leave out what stands in a document alone: which rounds recorded the
            reasons of the past, and what the scores of the last decision say.
    Raises:
        NotFoundError: there is no such job, or not yet.
        LogDamagedError: the bytes of the log are not what was written.
    """
    asked_seq, seq = seq, await end_of_decision(reader, seq)
    if await reader.first_about(job_id) is None:  # by the index: nothing else is read
        raise unknown_job(job_id, await reader.job_ids(), reader.url)
    story = await read_story(reader, job_id, seq, at_us)
    if not story.is_known:
        raise await _missing(reader, job_id, seq)
    ended = story.end is not None
    upto = story if not ended else _cut_at_end(story)
    folded = await fold_story(reader, upto, rebuild, plan=not ended)
    runs, waits = runs_and_waits(story, folded.launches)
    job = folded.state.jobs.get(job_id)
    parts = [part for wait in waits for part in segments_of(story, wait, folded.reasons)]
    waits_now = job is not None and job.phase in (JobPhase.waiting, JobPhase.granted)
    past = len(parts) - waits_now if is_brief else 0
    reasons = [*parts[:past], *await folded.reasons.with_rounds(reader, parts[past:])]
    policy = story.terms[-1][1].policy if story.terms else ""
    policies = RecordedPolicies(story, rebuild)
    explanation = Explanation(
        reader.url, asked_seq, policy, story, runs, waits, reasons, policies, is_brief
    )
    explanation.losses = await losses_before(reader, runs)
    end = story.end
    if end is not None and _was_stranded(story):
        explanation.ended = await ended_of(reader, _needed(story), end.seq)
    if (
        end is not None
        and isinstance(end.event, facts.JobRejected)
        and is_short_when_empty(end.event)
    ):
        explanation.cluster = folded.state.cluster
    if not ended:
        explanation.unheld = unheld_by_log(story.terms, folded.state)
        explanation.state, explanation.job = folded.state, job
        explanation.planned = folded.planned
        explanation.present = folded.present or explanation.present
        if explanation.phase == JobPhase.waiting:
            explanation.later = await later_of(reader, story, _named(explanation))
        blockers = () if explanation.evidence is None else explanation.evidence.blockers
        run = explanation.last_run
        if run is not None and run.to_us is None and run.allocation.sharing is Sharing.sliced:
            explanation.told_later = await seen_later(reader, story)
        gone = [job_id for job_id in blockers if job_id not in folded.state.jobs]
        explanation.ended = await ended_of(reader, gone, folded.state.seq)
        explanation.came_us = await came_of(reader, blockers, folded.state)
    return explanation


def _named(found: Explanation) -> tuple[JobId, ...]:
    """Return the other jobs that an explanation names: those ahead, and the blockers."""
    evidence, place = found.evidence, found.present.place
    ahead = () if place is None else place.ahead
    blockers = () if evidence is None else evidence.blockers
    return tuple(dict.fromkeys((*ahead, *blockers)))


async def _missing(reader: LogReader, job_id: JobId, seq: int) -> NotFoundError:
    for number, event in await reader.job_events(job_id):
        if number > seq and isinstance(event, facts.JobSubmitted):
            return NotFoundError(
                f"job {job_id} was submitted at {clock(event.at_us)} only, after the moment asked "
                "for"
            )
    return unknown_job(job_id, await reader.job_ids(), reader.url)


def _cut_at_end(story: JobEvents) -> JobEvents:
    """Return the story with its end as its last event: nothing after it matters."""
    end = story.end
    assert end is not None, "only the story of a job that has ended is cut"
    return replace(story, seq=end.seq, at_us=end.event.at_us)


def _needed(story: JobEvents) -> list[JobId]:
    return [each.job_id for each in story.spec.depends_on]


def _was_stranded(story: JobEvents) -> bool:
    end = story.end
    return (
        end is not None
        and isinstance(end.event, facts.JobCancelled)
        and end.event.cause == DEPENDENCY
    )
