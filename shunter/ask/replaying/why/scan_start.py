"""Where to begin to read a job's story: at the newest snapshot before it came.

What a story needs of the time before the job is who decides, which queues have a quota, what was
measured of models, and what a round last said of the job's class of equal jobs. The snapshot knows
the queues and the measurements, and for which reason the class waits, if it does. Which round said
so is looked for backwards from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import orjson

from shunter.ask.replaying.consolidated_gangs import TERMS
from shunter.core.speeds.measured import MeasuredPlacement, has_learnt_floor
from shunter.core.state import State
from shunter.events.codec import row_fields
from shunter.events.facts.decisions import RoundPlanned
from shunter.events.facts.jobs import JobSubmitted
from shunter.events.facts.run import ConfigChanged, SchedulerStarted
from shunter.events.log import Frame, LogReader
from shunter.events.rows import row_encoder
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand, JobSpec
from shunter.run.snapshots import state_of

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
    terms: tuple[tuple[int, SchedulerStarted | ConfigChanged], ...] = ()
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
        tuple(
            (seq, event)
            for seq, event in await reader.events_of(TERMS, state.seq)
            if isinstance(event, SchedulerStarted | ConfigChanged)
        ),
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
