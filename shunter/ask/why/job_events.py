"""Everything a log says about one job, collected in one pass over rows that stay undecoded.

Its own events, the rounds that said why its class of equal jobs waits, the ends of the jobs it
depends on, and the jobs that were preempted for it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from shunter.ask.recorded_terms import TERMS, Began, Rebuild, classing_of, last_start, terms_up_to
from shunter.ask.words import allocation_in_words, clock, names_partners
from shunter.core import Rejection, State, admitted_wait, rejected_wait
from shunter.core.fold import demand_with, note_messages, split_of
from shunter.core.planning import Classing
from shunter.core.speeds import MeasuredPlacement, has_learnt_floor, with_placement
from shunter.counting import counted
from shunter.events import (
    JOB_ENDS,
    NOTHING,
    TRIALS,
    Allocation,
    AllocationChanged,
    AllocationLearned,
    AttemptStarted,
    CheckpointDiscarded,
    Demand,
    Event,
    FactClass,
    GangRejected,
    JobId,
    JobResized,
    JobSpec,
    JobSubmitted,
    ProfileSampled,
    QuotaChanged,
    RoundPlanned,
    SchedulerStarted,
    Share,
    ToleranceLearnt,
    TrialStarted,
    Wait,
    class_of,
    decode_event,
    decoder_of,
    row_encoder,
    row_fields,
    stored_fields,
)
from shunter.events.log import Frame, LogReader
from shunter.run import state_of

# Reading begins at the newest snapshot before the job came. It knows why the class of equal jobs
# waits; the round that said so is looked for backwards from there.

_ROUND = RoundPlanned.__name__
_NUMBER = row_fields(RoundPlanned).index("number")
_WAITS = row_fields(RoundPlanned).index("waits")


@dataclass(frozen=True)
class Round:
    """A round that was planned: its event's number, its own number, and when."""

    seq: int
    number: int
    at_us: int


@dataclass(slots=True)
class ScanStart:
    """What was true at `seq`, after which a story is read; at 0, nothing was.

    `terms` is who decided when, `models` those of jobs, `bounded` the queues with a quota,
    `messages` the measured sizes by model. `round` is the last one, `told` what rounds last said of
    the classes to which the job may come to belong, as rows. `records_classes` says that rounds
    record which jobs wait for the fewest servers; False: perhaps not. `learnt` are the speeds of
    gangs by placement, by model.
    """

    seq: int = 0
    terms: tuple[tuple[int, Began], ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    messages: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    bounded: frozenset[str] = frozenset()
    round: Round | None = None
    told: dict[bytes, tuple[Round, list[object] | None]] = field(default_factory=dict)
    records_classes: bool = False
    learnt: Mapping[str, tuple[MeasuredPlacement, ...]] = field(default_factory=dict)


async def scan_start_of(reader: LogReader, job_id: JobId) -> ScanStart:
    """Return from where on to read the story of a job.

    Raises:
        LogDamagedError: the bytes of the log are not what was written.
    """
    came = await reader.first_about(job_id)
    if came is None:
        return ScanStart()
    seq, submitted = came
    if not isinstance(submitted, JobSubmitted):
        return ScanStart()
    snapshot = await reader.snapshot_at(seq - 1)
    if snapshot is None:
        return ScanStart()
    return await _at(reader, await state_of(reader, snapshot, with_outcomes=False), submitted.spec)


async def _at(reader: LogReader, state: State, spec: JobSpec) -> ScanStart:
    start = ScanStart(
        state.seq,
        tuple(await terms_up_to(reader, state.seq)),
        {job.job_id: job.spec.model for job in state.jobs.values()},
        state.messages,
        frozenset(name for name, queue in state.queues.items() if queue.quota_gpus is not None),
        records_classes=any(job.must_consolidate for job in state.jobs.values()),
        learnt=state.learnt,
    )
    wanted = {orjson.dumps(row_encoder(Demand)(demand)) for demand in _waiting(state, spec)}
    if state.rounds_planned:
        async for frame in reader.frames_before(state.seq):
            _look_back(start, frame, wanted)
            if start.round is not None and not wanted:
                break
    return start


def _waiting(state: State, spec: JobSpec) -> list[Demand]:
    """Return the classes that wait and to which the job may come to belong."""
    return [demand for demand in state.class_waits if _may_be_of(demand, spec)]


def _may_be_of(demand: Demand, spec: JobSpec) -> bool:
    """Say whether a class asks for what a job does, or could once it was resized."""
    fewest, most = spec.sizes
    if demand.gpus != spec.gpus:
        if not spec.gpus or not fewest <= demand.gpus <= most:
            return False
        spec = spec.resized(demand.gpus)
    plain = (spec.demand(), spec.demand(spec.queue))
    return replace(_as_asked(demand, spec), tight=False) in plain


def _as_asked(demand: Demand, spec: JobSpec) -> Demand:
    """Return what a class asks for, but for checkpoints and learnt bounds."""
    if has_learnt_floor(spec):
        demand = replace(demand, max_level=spec.max_level)
        return replace(demand, shapes=spec.shapes_accepted, keeps_split=False)
    if not demand.keeps_split:
        return demand
    return replace(demand, shapes=spec.shapes_accepted, keeps_split=False)


def _look_back(start: ScanStart, frame: Frame, wanted: set[bytes]) -> None:
    """Note the last round of a frame, and what rounds said of wanted classes."""
    # As a round says why a class waits: demand and reason. A job's demand alone is in many events.
    words = [b"[%b,[" % key for key in wanted]
    kinds = {_ROUND.encode()} if start.round is None else ()
    for seq, row in reversed([*frame.rows_with(kinds, words)]):
        if row[0] != _ROUND or seq > start.seq:
            continue
        planned = Round(seq, row[_NUMBER], row[1])
        start.round = start.round or planned
        for demand, wait in row[_WAITS] if len(row) > _WAITS else ():
            key = orjson.dumps(demand)
            if key in wanted:
                wanted.remove(key)
                start.told[key] = (planned, wait)


# What became of a job's proposals.

_ADMITTED = row_fields(RoundPlanned).index("admitted")
_DISMISSED = row_fields(RoundPlanned).index("dismissed")
GPUS_NAMED = 4


@dataclass(frozen=True)
class Admission:
    """From when on a job may be proposed, or no longer may."""

    seq: int
    at_us: int
    is_admitted: bool


def admission_of(seq: int, row: Sequence[Any], job_id: JobId) -> Iterable[Admission]:
    """Yield what the row of a round says of whether a job may be proposed."""
    if len(row) > _ADMITTED and job_id in row[_ADMITTED]:
        yield Admission(seq, row[1], is_admitted=True)
    if len(row) > _DISMISSED and job_id in row[_DISMISSED]:
        yield Admission(seq, row[1], is_admitted=False)


def proposal_wait(
    events: Iterable[tuple[int, Event]], admissions: Sequence[Admission], after: int, at_us: int
) -> Wait | None:
    """Return why a job waits that may be proposed at an instant; None: it may not.

    Args:
        events: those of the job, by number.
        admissions: when it might be proposed, in order.
        after: the event with which the wait began.
        at_us: the instant; all of it has happened.
    """
    known = [one for one in admissions if one.at_us <= at_us and one.seq > after]
    if not known or not known[-1].is_admitted:
        return None
    rejections = [
        event
        for seq, event in events
        if seq > known[-1].seq and isinstance(event, GangRejected) and event.at_us <= at_us
    ]
    return rejected_wait(rejections[-1].conflicts) if rejections else admitted_wait()


def proposal_rejection_in_words(last: Rejection) -> str:
    """Return when, how often, and by which GPUs the proposals of a job were rejected."""
    times = "" if last.count == 1 else f", {counted(last.count, 'time')} in a row by then"
    words = f"its proposal was rejected at {clock(last.at_us)}{times}"
    if last.conflicts:
        taken = Allocation(tuple(Share(node, mask) for node, mask in last.conflicts))
        words += f": GPUs {allocation_in_words(taken, GPUS_NAMED)} were not free for it"
    words += f" ({last.reason}: {last.detail})" if last.detail else f" ({last.reason})"
    return (
        words if last.retry_us is None else f"{words}; proposed again from {clock(last.retry_us)}"
    )


END_KINDS = frozenset(kind.__name__ for kind in JOB_ENDS)
_ALLOCATED = AllocationChanged.__name__
_SUBMITTED = JobSubmitted.__name__
_TRIALS = frozenset(kind.__name__ for kind in TRIALS)
_QUOTA = QuotaChanged.__name__
_SAMPLED = ProfileSampled.__name__
_LEARNT = ToleranceLearnt.__name__
_TELLING = frozenset(kind.encode() for kind in (_ROUND, _QUOTA, _LEARNT, *TERMS))
_OF_CLASSING = frozenset(kind.encode() for kind in (_SUBMITTED, _SAMPLED))
_SPEC = row_fields(JobSubmitted).index("spec")
_MODEL = [each.name for each in stored_fields(JobSpec)].index("model")
_CONSOLIDATED = row_fields(RoundPlanned).index("consolidated")
_SPREAD = row_fields(RoundPlanned).index("spread")

Row = list[Any]


@dataclass(frozen=True)
class RecordedWait:
    """What a round recorded for a class of equal jobs; no wait: it waits no more.

    It is told of the job from event `seq` on, the round, or, if it was later, what made the job one
    of the class: its submission, another size or split, or a quota of its queue.
    """

    round: Round
    wait: Wait | None
    seq: int
    at_us: int


@dataclass(frozen=True)
class Own:
    """An event about the job itself, and the last round before it.

    None also of an allocation that no round changed, but a person, the loss of a server, or that
    others have its GPUs.
    """

    seq: int
    event: Event
    round: Round | None


@dataclass(slots=True)
class JobEvents:
    """What was found about a job up to `seq`, from its submission on.

    `told` begins with what was true of its class when it came. `rounds` are all rounds since its
    submission, `dependencies` the ends of those it waits for, `victims` who left for its sake.
    `tried_beside` are trials of others that it was a partner in. `admissions` say when it might be
    proposed.
    """

    job_id: JobId
    seq: int
    at_us: int
    own: list[Own] = field(default_factory=list)
    told: list[RecordedWait] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    terms: list[tuple[int, Began]] = field(default_factory=list)
    dependencies: list[tuple[int, Event]] = field(default_factory=list)
    victims: list[Own] = field(default_factory=list)
    tried_beside: list[Own] = field(default_factory=list)
    admissions: list[Admission] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        """Whether the job had been submitted by then."""
        return bool(self.own)

    @property
    def submitted(self) -> JobSubmitted:
        """Its submission."""
        event = self.own[0].event
        assert isinstance(event, JobSubmitted), "a job's story begins with its submission"
        return event

    @property
    def end(self) -> Own | None:
        """The event that ended it, if it has ended."""
        last = self.own[-1]
        return last if isinstance(last.event, JOB_ENDS) else None

    @property
    def spec(self) -> JobSpec:
        """What it asked for."""
        return self.submitted.spec

    @property
    def started(self) -> SchedulerStarted | None:
        """What started the policy that decided at its end; None: the log does not say."""
        return last_start(event for _, event in self.terms)

    @property
    def last_round(self) -> Round | None:
        """The last round up to `seq`, since its submission."""
        return self.rounds[-1] if self.rounds else None


async def read_story(
    reader: LogReader, job_id: JobId, seq: int, at_us: int, rebuild: Rebuild
) -> JobEvents:
    """Collect the story of a job up to an event; empty if it came later or never.

    Args:
        reader: the log.
        job_id: the job.
        seq: the last event that counts.
        at_us: the instant at which the story ends.
        rebuild: makes the policy of a term, which may tell gangs apart.
    """
    story = JobEvents(job_id, seq, at_us)
    start = await scan_start_of(reader, job_id)
    if start.seq >= seq:
        return story  # it came later
    scan = _Scan(story, rebuild, start)
    async for frame in reader.frames(start.seq, seq):
        scan.take(frame)
        if scan.over:
            break
    return story


class _Scan:
    """Goes through frames and fills a story."""

    def __init__(self, story: JobEvents, rebuild: Rebuild, start: ScanStart) -> None:
        self.over = False
        self._story = story
        self._rebuild = rebuild
        self._after = start.seq
        self._classing: Classing | None = None
        self._models = dict(start.models)
        self._messages = dict(start.messages)
        self._placements = dict(start.learnt)
        self._round = start.round
        self._latest: dict[bytes, tuple[Round, Row | None]] = dict(start.told)
        self._class, self._spec = b"", JobSpec(1)
        self._seq, self._at_us = start.seq, 0
        self._is_recorded = start.records_classes
        self._must_consolidate = False
        self._bounded = set(start.bounded)
        self._dependencies: frozenset[str] = frozenset()
        self._kinds = set(_TELLING)
        self._words = [orjson.dumps(story.job_id)]
        self._granted = NOTHING
        self._split: tuple[int, ...] = ()
        self._places: list[int] = []
        self._followed: set[str] = set()
        story.terms += start.terms
        self._class_anew()

    def take(self, frame: Frame) -> None:
        """Look through one frame, up to the end of the story."""
        story = self._story
        for seq, row in frame.rows_with(self._kinds, self._words):
            if seq > story.seq:
                return
            if seq <= self._after:
                continue
            kind, self._seq, self._at_us = row[0], seq, row[1]
            if self._classing is not None:
                self._learn(kind, row)
            if kind == _LEARNT:
                self._note_placement(decode_event([*row]))
            if kind == _ROUND:
                self._plan(seq, row)
            elif kind == _QUOTA:
                self._bound(decode_event(row))
            elif kind in TERMS:
                event = decode_event(row)
                assert isinstance(event, Began), "the row says so"
                story.terms.append((seq, event))
                self._class_anew()
            elif kind in _TRIALS and row[2] != story.job_id:
                self._try(Own(seq, decode_event(row), self._round))
            elif row[2] == story.job_id or kind == _ALLOCATED:
                self._mention(seq, row)
                if self.over:
                    return
            elif kind in END_KINDS and row[2] in self._dependencies:
                story.dependencies.append((seq, decode_event(row)))

    def _mention(self, seq: int, row: Row) -> None:
        story = self._story
        event = decode_event(row)
        if event.job_id == story.job_id:  # type: ignore[union-attr]  # a row with a job's id
            story.own.append(Own(seq, event, None if _is_ordered(event) else self._round))
            if isinstance(event, JobSubmitted):
                self._begin(event)
            elif isinstance(event, JobResized):
                self._spec = story.spec.resized(event.gpus)
                self._join_class()
            self._keep_split(event)
            if isinstance(event, TrialStarted):
                self._try(story.own[-1])
            self.over = isinstance(event, JOB_ENDS)
        elif isinstance(event, AllocationChanged):
            because = event.because
            if story.job_id in because.beneficiaries and not names_partners(because):
                story.victims.append(Own(seq, event, self._round))

    def _try(self, tried: Own) -> None:
        """Follow what is tried of others that were ever tried beside this job.

        So it is known when a trial was over that ended without a verdict.
        """
        event = tried.event
        assert isinstance(event, TRIALS), "the row says so"
        names = {event.job_id, *getattr(event, "partners", ())}
        if self._story.job_id in names:
            for name in sorted(names - self._followed - {self._story.job_id}):
                self._words.append(orjson.dumps(name))
            self._followed |= names
        if names & self._followed and event.job_id != self._story.job_id:
            self._story.tried_beside.append(tried)

    def _begin(self, event: JobSubmitted) -> None:
        """From here on, follow the job's class of equal jobs."""
        self._dependencies = frozenset(each.job_id for each in event.spec.depends_on)
        self._words += [orjson.dumps(job_id) for job_id in sorted(self._dependencies)]
        self._spec = event.spec
        self._join_class()

    def _keep_split(self, event: Event) -> None:
        """Follow the split that its checkpoints bind the job to, which sets it apart."""
        before = self._split
        if isinstance(event, AllocationChanged) and event.allocation.shares:
            self._granted = event.allocation
        elif isinstance(event, AllocationLearned):
            self._granted = event.allocation
            self._split = split_of(self._granted) if self._split else ()
        elif isinstance(event, AttemptStarted):
            self._places.append(event.attempt)
            if event.keeps_split:
                self._split = split_of(self._granted)
        elif isinstance(event, CheckpointDiscarded):
            self._places = [number for number in self._places if number != event.attempt]
            self._split = self._split if self._places else ()
        if self._split != before:
            self._join_class()

    def _class_anew(self) -> None:
        """Note what tells gangs apart from here on; the job may be classed anew."""
        self._classing = classing_of(self._story.started, self._rebuild)
        if self._classing is not None:
            self._kinds |= _OF_CLASSING
        if self._class:
            self._join_class()

    def _learn(self, kind: str, row: Row) -> None:
        """Note what samples say of models, where gangs are told apart by that."""
        if kind == _SUBMITTED:
            spec = row[_SPEC]
            self._models[row[2]] = spec[_MODEL] if len(spec) > _MODEL else ""
        elif kind == _SAMPLED:
            sample = decode_event([*row])
            assert isinstance(sample, ProfileSampled), "the row says so"
            note_messages(self._messages, self._models.get(row[2], ""), sample)
            if self._class:
                self._join_class()

    def _note_placement(self, event: Event) -> None:
        """Note what is learnt of a model: the floor of the job may rest on that."""
        assert isinstance(event, ToleranceLearnt), "the row says so"
        known = self._placements.get(event.model, ())
        self._placements[event.model] = with_placement(known, event)
        if self._class:
            self._join_class()

    def _bound(self, event: Event) -> None:
        """Note which queues have a quota: jobs of those are classes of their own."""
        assert isinstance(event, QuotaChanged), "the row says so"
        if event.quota_gpus is None:
            self._bounded.discard(event.queue)
        else:
            self._bounded.add(event.queue)
        if self._class:
            self._join_class()

    def _join_class(self) -> None:
        """Follow the class of the job now; what a round last said of that holds for it."""
        spec = self._spec
        demand = spec.demand(spec.queue) if spec.queue in self._bounded else spec.demand()
        split = self._split if sum(self._split) == spec.gpus else ()  # resized, it loads any
        demand = demand_with(demand, spec, self._placements.get(spec.model, ()), split)
        is_tight = self._must_consolidate
        if not self._is_recorded and self._classing is not None:
            is_tight = self._classing.is_tight(spec, self._messages)
        demand = replace(demand, tight=True) if is_tight else demand
        key = orjson.dumps(row_encoder(Demand)(demand))
        if key != self._class:
            self._class = key
            if key in self._latest:
                self._tell(*self._latest[key])
            elif self._round is not None:
                self._tell(self._round, None)

    def _plan(self, seq: int, row: Row) -> None:
        self._round = Round(seq, row[_NUMBER], row[1])
        if self._class:
            self._story.rounds.append(self._round)
        if len(row) > _CONSOLIDATED:
            self._regroup(row)
            self._story.admissions += admission_of(seq, row, self._story.job_id)
        for demand, wait in row[_WAITS] if len(row) > _WAITS else ():
            key = orjson.dumps(demand)
            self._latest[key] = (self._round, wait)
            if key == self._class:
                self._tell(self._round, wait)

    def _regroup(self, row: Row) -> None:
        """Follow which jobs wait for the fewest servers, as a round records it."""
        self._is_recorded = True
        job_id = self._story.job_id
        if job_id in row[_CONSOLIDATED]:
            self._must_consolidate = True
        elif len(row) > _SPREAD and job_id in row[_SPREAD]:
            self._must_consolidate = False
        if self._class:
            self._join_class()

    def _tell(self, planned: Round, row: Row | None) -> None:
        wait = None if row is None else _DECODE_WAIT([*row])
        self._story.told.append(RecordedWait(planned, wait, self._seq, self._at_us))


def _decode_wait() -> Callable[[Row], Wait]:
    decode = decoder_of(Wait)
    assert decode is not None, "a wait is a record"
    return decode


_DECODE_WAIT = _decode_wait()


def gives_gpus(event: Event) -> bool:
    """Say whether an event of a job gives it GPUs, the same or others."""
    return isinstance(event, AllocationChanged) and bool(event.allocation.shares)


def _is_ordered(event: Event) -> bool:
    """Say whether an allocation was changed by no round."""
    return isinstance(event, AllocationChanged) and class_of(event) is not FactClass.decided
