"""What became of a waiting job after the point that was asked for, if the log goes on.

One look through the frames that name the job or one of those it was told to wait for, up to the
event that gives the job GPUs or ends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from shunter.ask.replaying.why.job_events import JobEvents
from shunter.events.codec import decode_event
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobStopped,
    JobSuspended,
    TurnEnded,
    TurnStarted,
)
from shunter.events.facts.jobs import JOB_ENDS, JobSubmitted
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId

_ENDS = frozenset(kind.__name__ for kind in JOB_ENDS)
_ALLOCATED = AllocationChanged.__name__
_SUBMITTED = JobSubmitted.__name__
_OF_TURNS = (TurnStarted, TurnEnded, AttemptEnded)
_CUTS = (AttemptStarted, AttemptLost, JobSuspended, JobStopped, GpusReleased, AllocationChanged)
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
    if about == job_id and kind in (_ALLOCATED, *_ENDS):
        event = decode_event(row)
        if not isinstance(event, AllocationChanged) or event.allocation.shares:
            later.seq, later.event = seq, event
    elif kind in _ENDS and about in named:
        later.ends[JobId(str(about))] = (seq, decode_event(row))


async def seen_later(reader: LogReader, story: JobEvents) -> list[Event]:
    """Return what happened to a job's turns before a point and was seen after it.

    A scheduler that was away sees then what its servers noted, with the instants of that.
    """
    found: list[Event] = []
    for seq, event in await reader.job_events(story.job_id):
        if seq <= story.seq or not isinstance(event, (*_OF_TURNS, *_CUTS)):
            continue
        noted_us = None
        if isinstance(event, TurnStarted):
            noted_us = event.began_us
        elif isinstance(event, TurnEnded | AttemptEnded):
            noted_us = event.ended_us
        if noted_us is None or noted_us > story.at_us:
            break
        found.append(event)
    return found
