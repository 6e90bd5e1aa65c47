"""A whole run, read off its log: what became of its jobs, who had which GPUs, what is in it."""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from shunter.ask.log_reading import Advance, Follower, LogFold
from shunter.ask.recorded_terms import config_of
from shunter.ask.words import clock
from shunter.core import FoldResult, Guards, Job, JobLedger, JobResult, Observers, State, View
from shunter.events import (
    KINDS,
    Allocation,
    ConfigChanged,
    Event,
    JobId,
    JobSubmitted,
    NodeName,
    QueueName,
    SchedulerStarted,
    Share,
    Sharing,
    TurnStarted,
)
from shunter.events.log import LogReader
from shunter.run import JobNumbers, job_numbers, stories

# The ledger is that of a simulation, so a log has the same numbers as its simulation printed.


@dataclass(frozen=True)
class RunHistory:
    """A run as its log tells it, up to its last event.

    `results` are the stories of all jobs in the order of submission, `alone_us` how long each of
    them runs alone (0: the log does not say), `names` their names, and `first_places` where the
    first attempt of each began. `terms` are the events that said who decides.
    """

    url: str
    events: int
    digest: str
    terms: Sequence[SchedulerStarted | ConfigChanged]
    state: State
    results: Sequence[JobResult]
    alone_us: Sequence[int]
    names: Sequence[str]
    first_places: dict[JobId, Allocation]
    numbers: JobNumbers
    makespan_s: float
    gpu_utilisation: float | None

    @property
    def policy(self) -> str:
        """The policy that decided last."""
        return self.state.policy

    @property
    def is_simulated(self) -> bool:
        """Whether a simulation wrote the log."""
        first = self.terms[0] if self.terms else None
        return isinstance(first, SchedulerStarted) and first.simulated

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration that decided last; empty where the log does not say it."""
        return config_of(self.terms[-1] if self.terms else None)

    @property
    def evidence(self) -> str:
        """What the numbers rest on: `simulated` or `live`."""
        return "simulated" if self.is_simulated else "live"

    def document(self) -> dict[str, object]:
        """Return the run in numbers, under the names of docs/reference/results.md."""
        numbers = self.numbers
        return {
            "log": {"url": self.url, "events": self.events, "digest": self.digest},
            "evidence": self.evidence,
            "policy": self.policy,
            "seed": self.seed,
            "jobs": numbers.counts,
            "jct_s": numbers.times["jct_s"],
            "wait_s": numbers.times["wait_s"],
            "makespan_s": self.makespan_s,
            "gpu_utilisation": self.gpu_utilisation,
            "preemptions": numbers.preemptions,
            "migrations": numbers.migrations,
            "finish_time_fairness": numbers.fairness,
            "by_size": numbers.sizes,
        }

    @property
    def seed(self) -> int | None:
        """The seed of the last term; None: the log has none."""
        seeds = [each.seed for each in self.terms if isinstance(each, SchedulerStarted)]
        return seeds[-1] if seeds else None


async def run_history(
    reader: LogReader,
    followers: Sequence[Follower] = (),
    advance: Advance | None = None,
    to: int | None = None,
) -> RunHistory:
    """Fold a log and gather the stories of its jobs.

    Args:
        reader: the log.
        followers: who else follows the fold.
        advance: told how many events are done, and of how many.
        to: the last event; None: that of the log.
    Raises:
        LogDamagedError: the bytes are not what was written.
        IllegalEventError: an event does not fit those before it.
    """
    head = await reader.head()
    last, gathered = head.seq if to is None else to, _Gathered()
    state = await LogFold(reader).forward(last, (gathered, *followers), advance)
    ledger = gathered.ledger
    results = sorted(stories(ledger, state), key=lambda result: result.ordinal)
    return RunHistory(
        url=reader.url,
        events=state.seq,
        digest=head.chain.hex(),
        terms=gathered.terms,
        state=state,
        results=results,
        alone_us=gathered.alone_us,
        names=gathered.names,
        first_places=gathered.first_places,
        numbers=job_numbers(results, gathered.alone_us),
        makespan_s=ledger.last_end_us / 1e6,
        gpu_utilisation=ledger.utilisation(state),
    )


class _Gathered(Follower):
    """Tells a ledger of events, as the scheduler would have."""

    def __init__(self) -> None:
        self.ledger = JobLedger()
        self.terms: list[SchedulerStarted | ConfigChanged] = []
        self.alone_us: array[int] = array("q")
        self.names: list[str] = []
        self.first_places: dict[JobId, Allocation] = {}
        self._observers: Observers = self.ledger.observers()
        self._view: View | None = None

    def take(self, event: Event, state: State, result: FoldResult) -> None:
        """Tell the ledger, and note what it does not keep."""
        kind = type(event)
        if isinstance(event, JobSubmitted):
            self.alone_us.append(event.duration_us or 0)
            self.names.append(event.spec.name)
        elif kind is SchedulerStarted or kind is ConfigChanged:
            self.terms.append(event)  # type: ignore[arg-type]  # it is one of the two
        for job in result.launched:
            if job.attempt == 1:
                self.first_places[job.job_id] = job.held
        told = self._observers.get(kind)
        if told is not None:
            view = self._view
            if view is None:
                view = View(state, Guards(), oracle=False, all_reasons=False)
                view.open()
                self._view = view
            view.now_us, view.result = event.at_us, result
            told(event, view)


_ABOUT_JOBS = frozenset(kind for kind in KINDS.values() if "job_id" in kind.__annotations__)


def job_of(event: Event) -> JobId | None:
    """Return the job that an event is about, if it is about one."""
    if type(event) not in _ABOUT_JOBS:
        return None
    return event.job_id  # type: ignore[union-attr]  # all of these have one


def jobs_of(event: Event, result: FoldResult) -> Iterator[JobId]:
    """Yield the jobs that an event may change, the one it is about first."""
    if (job_id := job_of(event)) is not None:
        yield job_id
    for job in (*result.launched, *result.displaced):
        yield job.job_id


class JobCounts:
    """Counts jobs by what was last noted of each; `by_queue` are those that wait."""

    def __init__(self) -> None:
        self.waiting = 0
        self.running = 0
        self.by_queue: Counter[QueueName] = Counter()
        self._noted: dict[JobId, tuple[bool, QueueName]] = {}

    def note(self, job_id: JobId, state: State) -> None:
        """Note how a job stands in a state: it holds something, waits, or has ended."""
        job, before = state.jobs.get(job_id), self._noted.get(job_id)
        now = None if job is None else (job.since_us is not None, job.spec.queue)
        if now == before:
            return
        if before is not None:
            self._count(before, -1)
        if now is None:
            del self._noted[job_id]
        else:
            self._noted[job_id] = now
            self._count(now, 1)

    def _count(self, noted: tuple[bool, QueueName], by: int) -> None:
        is_running, queue = noted
        if is_running:
            self.running += by
        else:
            self.waiting += by
            self.by_queue[queue] += by


_SCHEMA = 1


class LogBytes(TypedDict):
    """The bytes of all events, of the log's file if it is one, and of a mean event."""

    payload: int
    file: int | None
    per_event: float | None


class LogStatistics(TypedDict):
    """What a log consists of; instants are in microseconds and as `T+HH:MM:SS`."""

    schema: int
    url: str
    events: int
    digest: str
    kinds: dict[str, int]
    span: dict[str, int | str]
    terms: dict[str, int]
    frames: int
    bytes: LogBytes
    snapshots: list[int]
    segments: list[list[int]]


async def log_statistics(reader: LogReader, advance: Advance | None = None) -> LogStatistics:
    """Count what is in a log, without folding it.

    Raises:
        LogDamagedError: the bytes are not what was written; names the sequence number.
    """
    head = await reader.head()
    kinds: Counter[str] = Counter()
    terms: Counter[int] = Counter()
    frames = payload_bytes = 0
    first_us = last_us = 0
    async for frame in reader.frames(0, head.seq):
        rows = frame.rows()
        kinds.update(row[0] for row in rows)
        terms[frame.term] += frame.count
        first_us = first_us if frames else frame.at_us
        last_us = rows[-1][1]
        frames += 1
        payload_bytes += len(frame.payload)
        if advance is not None:
            advance(frame.last_seq, head.seq)
    snapshots, segments = await reader.snapshots(), await reader.segments()
    return {
        "schema": _SCHEMA,
        "url": reader.url,
        "events": head.seq,
        "digest": head.chain.hex(),
        "kinds": dict(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0]))),
        "span": {
            "first_us": first_us,
            "last_us": last_us,
            "first": clock(first_us),
            "last": clock(last_us),
        },
        "terms": {str(term): count for term, count in sorted(terms.items())},
        "frames": frames,
        "bytes": {
            "payload": payload_bytes,
            "file": _file_bytes(Path(reader.url)),
            "per_event": round(payload_bytes / head.seq, 1) if head.seq else None,
        },
        "snapshots": [snapshot.seq for snapshot in snapshots],
        "segments": [[segment.first_seq, segment.last_seq] for segment in segments],
    }


def _file_bytes(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


# Jobs that share a GPU at once have lanes of it. Between its turns a job has none.

_SLICED = Sharing.sliced


@dataclass(frozen=True, slots=True)
class Spot:
    """A GPU of a server, and the lane of it for one of those that share it."""

    node: NodeName
    gpu: int
    lane: int


@dataclass(slots=True)
class _Tenancy:
    """What an attempt has now."""

    attempt: int
    shares: tuple[Share, ...]
    spots: list[Spot] = field(default_factory=list)


class Occupancy:
    """All GPUs with those that have them; `used` counts GPUs that anybody has."""

    def __init__(self) -> None:
        self.used = 0
        self._tenancies: dict[JobId, _Tenancy] = {}
        self._lanes: dict[tuple[NodeName, int], list[JobId | None]] = {}

    def take(self, job_id: JobId, event: Any, state: State) -> tuple[list[Spot], list[Spot]]:
        """Return the spots that a job has left and has taken with an event about it.

        Args:
            job_id: the job.
            event: what was folded last.
            state: the state after it.
        """
        before, job = self._tenancies.get(job_id), state.jobs.get(job_id)
        attempt = 0 if job is None else job.attempt
        shares = () if job is None else _shares(job, event, before)
        if before is None:
            if not shares:
                return [], []
        elif before.shares == shares and before.attempt == attempt:
            return [], []
        left = [] if before is None else before.spots
        for spot in left:
            self._leave(spot)
        if not shares:
            self._tenancies.pop(job_id, None)
            return left, []
        taken = [self._enter(job_id, share.node, gpu) for share, gpu in _gpus(shares)]
        self._tenancies[job_id] = _Tenancy(attempt, shares, taken)
        return left, taken

    def left_over(self) -> Iterator[Spot]:
        """Yield the spots that are taken now."""
        for tenancy in self._tenancies.values():
            yield from tenancy.spots

    def _enter(self, job_id: JobId, node: NodeName, gpu: int) -> Spot:
        lanes = self._lanes.setdefault((node, gpu), [])
        self.used += not any(lanes)
        for lane, tenant in enumerate(lanes):
            if tenant is None:
                lanes[lane] = job_id
                return Spot(node, gpu, lane)
        lanes.append(job_id)
        return Spot(node, gpu, len(lanes) - 1)

    def _leave(self, spot: Spot) -> None:
        lanes = self._lanes[spot.node, spot.gpu]
        lanes[spot.lane] = None
        self.used -= not any(lanes)


def _shares(job: Job, event: Any, before: _Tenancy | None) -> tuple[Share, ...]:
    """Return what a job has of GPUs after an event."""
    if job.held.sharing is not _SLICED:
        return job.held.shares
    if job.is_spread:
        return job.held.shares if job.gpus else ()
    if type(event) is TurnStarted and event.job_id == job.job_id:
        return event.shares
    return before.shares if before is not None and job.gpus else ()


def _gpus(shares: tuple[Share, ...]) -> Iterator[tuple[Share, int]]:
    for share in shares:
        mask = share.gpu_mask
        while mask:
            yield share, (mask & -mask).bit_length() - 1
            mask &= mask - 1
