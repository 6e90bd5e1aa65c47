"""Everything a log says about one job, collected in one pass over rows that stay undecoded.

Its own events, the rounds since it came, and the jobs that were preempted for it. Why it waited
follows from the state (`timeline.WaitReasons`).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from shunter.ask.recorded_terms import Began, last_start, terms_up_to
from shunter.ask.words import allocation_in_words, clock, names_partners
from shunter.core import Rejection
from shunter.counting import counted
from shunter.events import (
    JOB_ENDS,
    KINDS,
    SOLVED,
    TRIALS,
    Allocation,
    Event,
    FactClass,
    JobId,
    JobSpec,
    Share,
    class_of,
    decode_event,
    facts,
    row_fields,
    stored_fields,
)
from shunter.events.log import Frame, LogReader


class Round(NamedTuple):
    """A round that was planned: its event's number, its own number, and when."""

    seq: int
    number: int
    at_us: int


GPUS_NAMED = 4


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
_ALLOCATED = facts.AllocationChanged.__name__
_PLANNED = facts.RoundPlanned.__name__
_NUMBER, _WAITS = (row_fields(facts.RoundPlanned).index(name) for name in ("number", "waits"))
_TRIALS = frozenset(kind.__name__ for kind in TRIALS)
WITHOUT_JOB = frozenset(
    name.encode()
    for name, kind in KINDS.items()
    if kind not in SOLVED and "job_id" not in {each.name for each in stored_fields(kind)}
)
"""The kinds of events that are about no job, but for what is solved for all."""

NO_JOB = b",null"
"""What their rows have in place of a job."""

Row = list[Any]


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

    `rounds` are all rounds since its submission, `victims` who left for its sake, `tried_beside`
    trials of others that it was a partner in. `shared` are the events since then that are about no
    job, but for rounds that change nothing, and those about the jobs that it depends on.
    """

    job_id: JobId
    seq: int
    at_us: int
    own: list[Own] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    terms: list[tuple[int, Began]] = field(default_factory=list)
    victims: list[Own] = field(default_factory=list)
    tried_beside: list[Own] = field(default_factory=list)
    shared: list[tuple[int, Event]] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        """Whether the job had been submitted by then."""
        return bool(self.own)

    @property
    def submitted(self) -> facts.JobSubmitted:
        """Its submission."""
        event = self.own[0].event
        assert isinstance(event, facts.JobSubmitted), "a job's story begins with its submission"
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
    def started(self) -> facts.SchedulerStarted | None:
        """What started the policy that decided at its end; None: the log does not say."""
        return last_start(event for _, event in self.terms)

    @property
    def last_round(self) -> Round | None:
        """The last round up to `seq`, since its submission."""
        return self.rounds[-1] if self.rounds else None


async def read_story(reader: LogReader, job_id: JobId, seq: int, at_us: int) -> JobEvents:
    """Collect the story of a job up to an event; empty if it came later or never.

    Args:
        reader: the log.
        job_id: the job.
        seq: the last event that counts.
        at_us: the instant at which the story ends.
    """
    story = JobEvents(job_id, seq, at_us)
    came = await reader.first_about(job_id)
    if came is None or came[0] > seq:
        return story
    story.terms += await terms_up_to(reader, came[0] - 1)
    scan = _Scan(story, came[0] - 1)
    async for frame in reader.frames(came[0] - 1, seq):
        scan.take(frame)
        if scan.over:
            break
    return story


class _Scan:
    """Goes through frames and fills a story."""

    def __init__(self, story: JobEvents, after: int) -> None:
        self.over = False
        self._story = story
        self._after = after
        self._round: Round | None = None
        self._is_after_plain = False
        self._words = [orjson.dumps(story.job_id)]
        self._needed: frozenset[str] = frozenset()
        self._followed: set[str] = set()

    def take(self, frame: Frame) -> None:
        """Look through one frame, up to the end of the story."""
        story = self._story
        for seq, row in frame.rows_with(WITHOUT_JOB, self._words, NO_JOB):
            if seq > story.seq:
                return
            if seq <= self._after:
                continue
            kind, about = row[0], row[2]
            if about is None:
                self._share(seq, row)
            elif about in self._needed:
                self._is_after_plain = False
                story.shared.append((seq, decode_event(row)))
            elif kind in _TRIALS and about != story.job_id:
                self._try(Own(seq, decode_event(row), self._round))
            elif about == story.job_id or kind == _ALLOCATED:
                self._mention(seq, row)
                if self.over:
                    return

    def _share(self, seq: int, row: Row) -> None:
        """Take an event that is about no job.

        Most rounds only count themselves: after another such round nothing changes by them, unless
        something else came between.
        """
        story = self._story
        is_plain = False
        if row[0] == _PLANNED and len(row) > _NUMBER:
            self._round = Round(seq, row[_NUMBER], row[1])
            story.rounds.append(self._round)
            is_plain = len(row) <= _WAITS
            if is_plain and self._is_after_plain:
                return
        self._is_after_plain = is_plain
        event = decode_event(row)
        story.shared.append((seq, event))
        if isinstance(event, Began):
            story.terms.append((seq, event))

    def _mention(self, seq: int, row: Row) -> None:
        story = self._story
        event = decode_event(row)
        if event.job_id == story.job_id:  # type: ignore[union-attr]  # a row with a job's id
            story.own.append(Own(seq, event, None if is_ordered(event) else self._round))
            self._is_after_plain = False
            if isinstance(event, facts.JobSubmitted):
                self._needed = frozenset(each.job_id for each in event.spec.depends_on)
                self._words += [orjson.dumps(each) for each in sorted(self._needed)]
            if isinstance(event, facts.TrialStarted):
                self._try(story.own[-1])
            self.over = isinstance(event, JOB_ENDS)
        elif isinstance(event, facts.AllocationChanged):
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


def gives_gpus(event: Event) -> bool:
    """Say whether an event of a job gives it GPUs, the same or others."""
    return isinstance(event, facts.AllocationChanged) and bool(event.allocation.shares)


def is_ordered(event: Event) -> bool:
    """Say whether an allocation was changed by no round."""
    return isinstance(event, facts.AllocationChanged) and class_of(event) is not FactClass.decided
