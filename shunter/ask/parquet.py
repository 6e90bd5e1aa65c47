"""What a log says, as tables: jobs, attempts, allocations, decisions and samples.

    events ─▶ fold ─▶ attempts and allocations as they end, decisions and samples as they come
                  └─▶ the ledger of a simulation: a row for each job at the end

Instants and durations are integers of microseconds, as in the log; what never happened, or has not
ended, is null. docs/how-to/load-a-log-into-a-data-frame.md explains each column.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from shunter.ask.log_reading import Advance, Follower
from shunter.ask.run_history import RunHistory, jobs_of, run_history
from shunter.ask.words import fact_in_words
from shunter.core import FoldResult, Job, State
from shunter.events import (
    NOTHING,
    Allocation,
    AttemptStarted,
    Because,
    DecisionEvent,
    Event,
    JobId,
    JobSubmitted,
    ProfileSampled,
    class_of,
    gpu_numbers,
)
from shunter.events.log import LogReader
from shunter.output_files import replacing_bytes

# Column types are words, so that only what writes files imports pyarrow (Apache 2.0), an extra.

Columns = Mapping[str, str]
"""The columns of a table in order, each with its type: `int`, `float`, `text`, `ints`, …"""

GROUP_ROWS: Final = 50_000
"""So many rows are one row group: what a reader has to load at least."""


class TableFile:
    """One table that is being written."""

    def __init__(self, file: BinaryIO, columns: Columns, metadata: Mapping[str, str]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        types = {
            "int": pa.int64(),
            "float": pa.float64(),
            "bool": pa.bool_(),
            "text": pa.string(),
            "word": pa.dictionary(pa.int32(), pa.string()),  # one of few
            "ints": pa.list_(pa.int64()),
            "floats": pa.list_(pa.float64()),
            "texts": pa.list_(pa.string()),
        }
        fields = [pa.field(name, types[kind]) for name, kind in columns.items()]
        self._schema: Any = pa.schema(fields, metadata=dict(metadata))
        self._arrays: Any = pa.array
        self._batch: Any = pa.RecordBatch.from_arrays
        self._writer: Any = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[Sequence[object]] = []
        self.rows = 0

    def add(self, *row: object) -> None:
        """Add a row: a value for each column, None where there is none."""
        self._rows.append(row)
        if len(self._rows) >= GROUP_ROWS:
            self._write()

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        self._write()
        self._writer.close()

    def _write(self) -> None:
        if not self._rows:
            return
        columns = zip(self._schema, zip(*self._rows, strict=True), strict=True)
        arrays = [self._arrays(values, type=field.type) for field, values in columns]
        self._writer.write_batch(self._batch(arrays, schema=self._schema))
        self.rows += len(self._rows)
        self._rows = []


@contextmanager
def table_files(
    folder: Path, tables: Mapping[str, Columns], metadata: Mapping[str, str]
) -> Iterator[dict[str, TableFile]]:
    """Open a file for each table; all are whole once the block has ended.

    Args:
        folder: where; it exists.
        tables: their columns by name; `jobs` is written to `jobs.parquet`.
        metadata: what each file says of itself.
    Raises:
        ShunterError: one cannot be written.
    """
    with ExitStack() as stack:
        files = {}
        for name, columns in tables.items():
            file = stack.enter_context(replacing_bytes(folder / f"{name}.parquet"))
            files[name] = TableFile(file, columns, metadata)
        yield files
        for table in files.values():
            table.close()


_SCHEMA = 1


def _columns(*words: str) -> Columns:
    """Return columns from lines of `name:type`."""
    columns = {}
    for word in " ".join(words).split():
        name, _, kind = word.partition(":")
        columns[name] = kind
    return columns


_SAMPLED: Final = _columns(
    "step:int batch_s:float gpu_utilisation:float gpu_memory_mb:int cpus:float",
    "memory_mb:int message_bytes_largest:int message_bytes_total:int",
)

TABLES: Final[Mapping[str, Columns]] = {
    "jobs": _columns(
        "job_id:text ordinal:int name:text user:word queue:word group:word model:word",
        "gpus:int cpus_milli:int memory_mb:int gpu_types:texts priority:int weight:float",
        "time_limit_us:int duration_us:int status:word submit_us:int first_start_us:int",
        "end_us:int jct_us:int wait_us:int held_us:int service_gpu_us:int preemptions:int",
        "migrations:int",
    ),
    "attempts": _columns(
        "job_id:text attempt:int launched_us:int launched_seq:int started_us:int ended_us:int",
        "ended_seq:int ended_by:word gpus:int nodes:texts sharing:word resumed_from:text",
        "migrated_from:texts",
    ),
    "allocations": _columns(
        "job_id:text attempt:int node:word gpus:ints cpus_milli:int memory_mb:int",
        "sharing:word from_us:int to_us:int",
    ),
    "decisions": _columns(
        "seq:int at_us:int kind:word class:word round:int job_id:text rule:word scores:floats",
        "beneficiaries:texts detail:text gpus:int nodes:texts words:text",
    ),
    "samples": {
        **_columns(
            "seq:int at_us:int job_id:text attempt:int",
        ),
        **_SAMPLED,
    },
}

_DECISIONS = frozenset(DecisionEvent.__args__)
_NO_REASON = Because("")


async def write_tables(
    reader: LogReader, folder: Path, to: int, advance: Advance | None = None
) -> dict[str, int]:
    """Write a log up to an event as Parquet files; return how many rows each has.

    Args:
        reader: the log.
        folder: where; it exists, and files of these names are replaced.
        to: the last event.
        advance: told how many events are done, and of how many.
    Raises:
        LogDamagedError: the bytes are not what was written.
        IllegalEventError: an event does not fit those before it.
        ShunterError: a file cannot be written.
    """
    head = await reader.head()
    metadata = {
        "shunter_schema": str(_SCHEMA),
        "log_digest": head.chain.hex(),
        "log_events": str(head.seq),
        "events": str(to),
    }
    with table_files(folder, TABLES, metadata) as files:
        rows = _Rows(files)
        history = await run_history(reader, (rows,), advance, to)
        rows.close(history)
    return {name: table.rows for name, table in files.items()}


@dataclass(slots=True)
class _Attempt:
    """An attempt that is under way; `held` is what it holds, since `from_us`."""

    number: int
    launched_us: int
    launched_seq: int
    held: Allocation
    from_us: int
    first: Allocation
    started_us: int | None = None
    resumed_from: str = ""
    migrated_from: tuple[str, ...] = ()


class _Rows(Follower):
    """Fills the tables as a log is folded."""

    def __init__(self, files: Mapping[str, TableFile]) -> None:
        self._files = files
        self._attempts: dict[JobId, _Attempt] = {}
        self._specs: list[JobSubmitted] = []

    def take(self, event: Event, state: State, result: FoldResult) -> None:
        """Add what an event says, and what ended with it."""
        kind = type(event)
        if kind in _DECISIONS:
            self._decided(event, state)
        elif isinstance(event, ProfileSampled):
            values = (getattr(event, name) for name in _SAMPLED)
            said = (state.seq, event.at_us, event.job_id, event.attempt)
            self._files["samples"].add(*said, *values)
        elif isinstance(event, JobSubmitted):
            self._specs.append(event)
        for job_id in jobs_of(event, result):
            self._job(job_id, event, state)

    def close(self, history: RunHistory) -> None:
        """Add what lasts beyond the last event, and a row for each job."""
        for job_id, attempt in self._attempts.items():
            self._held(job_id, attempt, None)
            self._ended(job_id, attempt, None, None, None)
        table = self._files["jobs"]
        for result, came in zip(history.results, self._specs, strict=True):
            spec = came.spec
            table.add(
                *(result.job_id, result.ordinal, spec.name, spec.user, spec.queue, spec.group),
                *(spec.model, spec.gpus, spec.cpus_milli, spec.memory_mb, spec.gpu_types),
                *(spec.priority, spec.weight, spec.time_limit_us, came.duration_us),
                *(result.status, result.submit_us, result.first_start_us, result.end_us),
                *(result.jct_us, result.wait_us, result.held_us, result.service_gpu_us),
                *(result.preemptions, result.migrations),
            )

    def _decided(self, event: Any, state: State) -> None:
        because = getattr(event, "because", _NO_REASON)
        allocation = getattr(event, "allocation", NOTHING)
        job_id = getattr(event, "job_id", None)
        has_place = hasattr(event, "allocation")
        self._files["decisions"].add(
            *(state.seq, event.at_us, type(event).__name__, class_of(event).value),
            *(max(0, state.round_number), job_id, because.rule or getattr(event, "rule", "")),
            *(because.scores, because.beneficiaries),
            because.detail or getattr(event, "detail", ""),
            allocation.gpus if has_place else None,
            [share.node for share in allocation.shares] if has_place else None,
            fact_in_words(event),
        )

    def _job(self, job_id: JobId, event: Event, state: State) -> None:
        """Note what an attempt holds now, and whether it is another one."""
        job, known = state.jobs.get(job_id), self._attempts.get(job_id)
        is_held = job is not None and job.since_us is not None
        if known is not None and (job is None or not is_held or job.attempt != known.number):
            self._held(job_id, known, event.at_us)
            self._ended(job_id, known, event.at_us, state.seq, type(event).__name__)
            del self._attempts[job_id]
            known = None
        if job is None or not is_held:
            return
        if known is None:
            known = _Attempt(job.attempt, event.at_us, state.seq, job.held, event.at_us, job.held)
            self._attempts[job_id] = known
        elif known.held != job.held:
            self._held(job_id, known, event.at_us)
            known.held, known.from_us = job.held, event.at_us
        self._started(known, job, event)

    @staticmethod
    def _started(attempt: _Attempt, job: Job, event: Event) -> None:
        if attempt.started_us is None:
            attempt.started_us = job.working_since_us
        if isinstance(event, AttemptStarted) and event.job_id == job.job_id:
            attempt.resumed_from = event.resumed_from
            attempt.migrated_from = event.migrated_from

    def _held(self, job_id: JobId, attempt: _Attempt, to_us: int | None) -> None:
        table, held = self._files["allocations"], attempt.held
        for share in held.shares:
            gpus = gpu_numbers(share.gpu_mask)
            table.add(
                *(job_id, attempt.number, share.node, gpus, share.cpus_milli, share.memory_mb),
                *(held.sharing.value, attempt.from_us, to_us),
            )

    def _ended(
        self,
        job_id: JobId,
        attempt: _Attempt,
        ended_us: int | None,
        ended_seq: int | None,
        ended_by: str | None,
    ) -> None:
        first = attempt.first
        self._files["attempts"].add(
            *(job_id, attempt.number, attempt.launched_us, attempt.launched_seq),
            *(attempt.started_us, ended_us, ended_seq, ended_by, first.gpus),
            [share.node for share in first.shares],
            *(first.sharing.value, attempt.resumed_from or None, attempt.migrated_from),
        )
