"""What a log says of jobs beyond the state: how they ended, and under which keys they came.

It grows with history, so it is no part of the state but a projection: intake asks it, the fold
never does. A live log keeps it in tables, in the transaction of the events it is made of.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from shunter.errors import IllegalEventError
from shunter.events.facts import JOB_ENDS, Event, EventsLost, JobSubmitted, Outcome, outcome_of
from shunter.events.values import Dependency, JobId, UserName

PAST_KINDS = (JobSubmitted, *JOB_ENDS, EventsLost)
"""The kinds of events that change what is known of past jobs."""

_NUMBERED = re.compile(r"j(\d{1,18})")


class PastJobs(Protocol):
    """Who knows the jobs that have ended, and the keys of all submissions."""

    def outcome(self, job_id: JobId) -> Outcome | None:
        """Return how a job ended; None: it has not, or there never was one."""

    def job_of(self, key: str) -> JobId | None:
        """Return the job that was submitted under a key of `key_of`; None: there is none."""

    def take(self, seq: int, event: Event) -> None:
        """Go through the next event of `PAST_KINDS`."""


@dataclass(frozen=True, slots=True)
class EndedJob:
    """How a job ended, by the event of that number."""

    seq: int
    job_id: JobId
    outcome: Outcome


@dataclass(slots=True)
class PastRows:
    """What some events say of past jobs: rows of two tables, and a number.

    `lost_number` is the highest number of an id that a lost job may have had.
    """

    ended: list[EndedJob] = field(default_factory=list)
    keys: list[tuple[int, str, JobId]] = field(default_factory=list)
    lost_number: int = field(default=0, compare=False)  # in no row of its own

    def __bool__(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.ended or self.keys or self.lost_number)

    @property
    def last_number(self) -> int:
        """The highest number of an id that is taken by jobs that have ended, or are lost."""
        return max([self.lost_number, *(number_of(each.job_id) for each in self.ended)])

    def add(self, seq: int, event: Event) -> None:
        """Add what an event says."""
        if isinstance(event, JOB_ENDS):
            self.ended.append(EndedJob(seq, event.job_id, outcome_of(event)))
        elif isinstance(event, JobSubmitted) and event.dedupe_key:
            self.keys.append((seq, key_of(event.spec.user, event.dedupe_key), event.job_id))
        elif isinstance(event, EventsLost):
            self.lost_number = max(self.lost_number, event.last_number)

    def extend(self, more: "PastRows") -> None:
        """Add what later events say."""
        self.ended += more.ended
        self.keys += more.keys
        self.lost_number = max(self.lost_number, more.lost_number)


class MemoryPastJobs:
    """Past jobs of a log that is read or written from its beginning.

    They are in the order of the events. It also completes what old logs leave out, and holds what
    newer ones say to what it knows.
    """

    __slots__ = ("keys", "outcomes")

    def __init__(
        self,
        outcomes: Mapping[JobId, Outcome] | None = None,
        keys: Mapping[str, JobId] | None = None,
    ) -> None:
        self.outcomes: dict[JobId, Outcome] = dict(outcomes or {})
        self.keys: dict[str, JobId] = dict(keys or {})

    def outcome(self, job_id: JobId) -> Outcome | None:
        """Return how a job ended; None: it has not, or there never was one."""
        return self.outcomes.get(job_id)

    def job_of(self, key: str) -> JobId | None:
        """Return the job that was submitted under a key; None: there is none."""
        return self.keys.get(key)

    def take(self, seq: int, event: Event) -> None:
        """Go through the next event of `PAST_KINDS`."""
        if type(event) is JobSubmitted:
            if event.dedupe_key:
                key = key_of(event.spec.user, event.dedupe_key)
                self.keys.pop(key, None)  # old logs forgot keys: one used again is the newest
                self.keys[key] = event.job_id
        elif isinstance(event, JOB_ENDS):
            self.outcomes[event.job_id] = outcome_of(event)

    def completed(self, event: JobSubmitted) -> JobSubmitted:
        """Return a submission with how its dependencies had ended; old logs omit that.

        Raises:
            IllegalEventError: its id was used before, or it says otherwise than the log.
        """
        if event.job_id in self.outcomes:
            raise IllegalEventError(f"job {event.job_id} was submitted twice")
        if not event.spec.depends_on and not event.ended:
            return event
        ended = ended_before(event.spec.depends_on, self)
        if event.ended and event.ended != ended:
            raise IllegalEventError(
                f"JobSubmitted of job {event.job_id} says of those it depends on that "
                f"{_told(event.ended)}; by the log {_told(ended)}"
            )
        return event if event.ended == ended else replace(event, ended=ended)


def ended_before(
    dependencies: Iterable[Dependency], past: PastJobs
) -> tuple[tuple[JobId, Outcome], ...]:
    """Return the dependencies that have ended, each once, with how they did."""
    found = {}
    for dependency in dependencies:
        outcome = past.outcome(dependency.job_id)
        if outcome is not None:
            found[dependency.job_id] = outcome
    return tuple(found.items())


def key_of(user: UserName, key: str) -> str:
    """Return what a key of a submission is remembered by: users do not share theirs."""
    return f"{user}/{key}"


def number_of(job_id: str) -> int:
    """Return the number of an id of a live cluster, such as j12; 0 for any other."""
    found = _NUMBERED.fullmatch(job_id)
    return 0 if found is None else int(found[1])


def _told(ended: Iterable[tuple[JobId, Outcome]]) -> str:
    return ", ".join(f"{job_id} has {outcome}" for job_id, outcome in ended) or "none has ended"
