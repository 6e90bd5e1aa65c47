"""Where to begin to read a job's story: at a snapshot before it came.

What a story needs of the time before the job is who decides, which queues have a quota, what was
measured of models, and what a round last said of the job's class of equal jobs. All of it is in a
snapshot but the last, unless nobody of the class waits there; then nothing was said that still
holds. So it is one in which its class does not wait; where there is none, a story is read from the
log's beginning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shunter.app.replaying.folding import state_of
from shunter.core.state import State
from shunter.events.facts.jobs import JobSubmitted
from shunter.events.facts.run import SchedulerStarted
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import JobSpec

__all__ = ["Outset", "outset_of"]


@dataclass(frozen=True, slots=True)
class Outset:
    """What was true at `seq`, after which a story is read; at 0, nothing was.

    `terms` is who decides with the event that says so, `models` those of jobs, `bounded` the queues
    with a quota, `messages` the measured sizes by model.
    """

    seq: int = 0
    terms: tuple[tuple[int, SchedulerStarted], ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    messages: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    bounded: frozenset[str] = frozenset()


async def outset_of(reader: LogReader, job_id: JobId) -> Outset:
    """Return from where on to read the story of a job.

    Raises:
        LogDamagedError: the bytes of the log are not what was written.
    """
    came = await reader.first_about(job_id)
    if came is None:
        return Outset()
    async for event in reader.events(came - 1, came):
        if isinstance(event, JobSubmitted):
            return await _outset(reader, event.spec, came - 1)
    return Outset()


async def _outset(reader: LogReader, spec: JobSpec, seq: int) -> Outset:
    while seq > 0:
        snapshot = await reader.snapshot_at(seq)
        if snapshot is None:
            return Outset()
        state = state_of(snapshot)
        if not _waits(state, spec):
            return await _at(reader, state)
        seq = snapshot.seq - 1
    return Outset()


def _waits(state: State, spec: JobSpec) -> bool:
    """Say whether a class waits that the job may come to belong to."""
    plain = (spec.demand(), spec.demand(spec.queue))
    classes = {*plain, *(replace(demand, tight=True) for demand in plain)}
    return any(demand in classes for demand in state.class_waits)


async def _at(reader: LogReader, state: State) -> Outset:
    """Return what a state tells; nothing where the log does not say who decides."""
    begins = await _begin_of_term(reader, state)
    started = next(iter((await reader.frame_with(begins)).events()), None)
    if not isinstance(started, SchedulerStarted) or started.simulated:
        return Outset()
    return Outset(
        state.seq,
        ((begins, started),),
        {job.job_id: job.spec.model for job in state.jobs.values()},
        state.messages,
        frozenset(name for name, queue in state.queues.items() if queue.quota_gpus is not None),
    )


async def _begin_of_term(reader: LogReader, state: State) -> int:
    """Return the first event of the term of a state, by halving the log."""
    before, within = 0, state.seq
    while before + 1 < within:
        frame = await reader.frame_with((before + within) // 2)
        if frame.term < state.term:
            before = frame.last_seq
        else:
            within = frame.first_seq
    return within
