"""Everything a log says about one job, collected in one pass over rows that stay undecoded.

Beside the job's own events these are the rounds that said why its class of equal jobs waits, the
ends of the jobs it depends on, and the jobs that were preempted for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from shunter.ask.replaying.consolidated_gangs import classing_of, last_start
from shunter.ask.replaying.formatting import names_partners
from shunter.ask.replaying.recorded_terms import Rebuild
from shunter.ask.replaying.why.proposals import Admission, admission_of
from shunter.ask.replaying.why.scan_start import Round, ScanStart, scan_start_of
from shunter.core.fold.attempts import demand_with, split_of
from shunter.core.fold.jobs import note_messages
from shunter.core.planning.placement import Classing
from shunter.core.speeds.measured import with_placement
from shunter.events.codec import decode_event, row_fields
from shunter.events.fact_classes import FactClass, class_of
from shunter.events.facts.cluster import QuotaChanged
from shunter.events.facts.decisions import (
    TRIALS,
    AllocationChanged,
    RoundPlanned,
    TrialStarted,
)
from shunter.events.facts.execution import AllocationLearned, AttemptStarted, CheckpointDiscarded
from shunter.events.facts.jobs import (
    JobCancelled,
    JobFailed,
    JobFinished,
    JobRejected,
    JobResized,
    JobSubmitted,
)
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.facts.run import ConfigChanged, SchedulerStarted
from shunter.events.facts.tolerance import ToleranceLearnt
from shunter.events.kinds import Event
from shunter.events.log import Frame, LogReader
from shunter.events.rows import decoder_of, row_encoder, stored_fields
from shunter.events.values.allocation import NOTHING
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand, JobSpec
from shunter.events.values.reasons import Wait

_ENDS = frozenset(kind.__name__ for kind in (JobFinished, JobFailed, JobCancelled, JobRejected))
_ROUND = RoundPlanned.__name__
_ALLOCATED = AllocationChanged.__name__
_SUBMITTED = JobSubmitted.__name__
_TRIALS = frozenset(kind.__name__ for kind in TRIALS)
_QUOTA = QuotaChanged.__name__
_TERMS = frozenset((SchedulerStarted.__name__, ConfigChanged.__name__))
_SAMPLED = ProfileSampled.__name__
_LEARNT = ToleranceLearnt.__name__
_TELLING = frozenset(kind.encode() for kind in (_ROUND, _QUOTA, _LEARNT, *_TERMS))
_OF_CLASSING = frozenset(kind.encode() for kind in (_SUBMITTED, _SAMPLED))
_SPEC = row_fields(JobSubmitted).index("spec")
_MODEL = [each.name for each in stored_fields(JobSpec)].index("model")
_NUMBER = row_fields(RoundPlanned).index("number")
_WAITS = row_fields(RoundPlanned).index("waits")
_CONSOLIDATED = row_fields(RoundPlanned).index("consolidated")
_SPREAD = row_fields(RoundPlanned).index("spread")

Row = list[Any]


@dataclass(frozen=True)
class Told:
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
    told: list[Told] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    terms: list[tuple[int, SchedulerStarted | ConfigChanged]] = field(default_factory=list)
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
        return last if type(last.event).__name__ in _ENDS else None

    @property
    def spec(self) -> JobSpec:
        """What it asked for."""
        return self.submitted.spec

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
            elif kind in _TERMS:
                event = decode_event(row)
                assert isinstance(event, SchedulerStarted | ConfigChanged), "the row says so"
                story.terms.append((seq, event))
                self._class_anew()
            elif kind in _TRIALS and row[2] != story.job_id:
                self._try(Own(seq, decode_event(row), self._round))
            elif row[2] == story.job_id or kind == _ALLOCATED:
                self._mention(seq, row)
                if self.over:
                    return
            elif kind in _ENDS and row[2] in self._dependencies:
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
            self.over = type(event).__name__ in _ENDS
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
        started = last_start(event for _, event in self._story.terms)
        self._classing = classing_of(started, self._rebuild)
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
        self._story.told.append(Told(planned, wait, self._seq, self._at_us))


def _decode_wait() -> Callable[[Row], Wait]:
    decode = decoder_of(Wait)
    assert decode is not None, "a wait is a record"
    return decode


_DECODE_WAIT = _decode_wait()


def _is_ordered(event: Event) -> bool:
    """Say whether an allocation was changed by no round."""
    return isinstance(event, AllocationChanged) and class_of(event) is not FactClass.decided
