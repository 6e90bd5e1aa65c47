"""Snapshots: state and policy memory as a log keeps them, and how a state comes back from one.

A snapshot is as large as the cluster is busy. Those of older versions grew with history: their
state named the newest keys of submissions and, in the oldest ones, the jobs that had ended. They
are read as they are, and compared with the events they sum up.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from shunter.core import State
from shunter.errors import IllegalEventError, LogDamagedError, PlanError
from shunter.events import (
    Column,
    Encode,
    JobId,
    MemoryPastJobs,
    Outcome,
    columns_of,
    compile_encoder,
    encode_record,
    encode_row,
    row_decoder,
    row_encoder,
    stored_fields,
)
from shunter.events.log import LogReader, Snapshot

if TYPE_CHECKING:
    from shunter.core import Scheduler

_ENDED, _KEYS = "ended", "keys"
_AFTER = {"durations_us": _ENDED, "overcommit_since_us": _KEYS}
"""Behind which fields of a state those stood that it has no more."""

_OF_JOBS = frozenset(
    (
        *("jobs", "durations_us", "reservations", "dependants", "granted"),
        *("trials", "proposals", "gang_turns"),
    )
)
"""The fields of a state that are about jobs that have not ended."""

KEYS_MOST = 10_000
"""So many keys of submissions a state of an older version named."""


def snapshot_of(core: "Scheduler", memory: bytes | None = None) -> Snapshot:
    """Return what scheduler and policy know, as `save_snapshot` takes it.

    Args:
        core: the scheduler, between two steps.
        memory: the policy's, if it is not the scheduler that has it.
    Raises:
        PlanError: the policy's memory is no record that could be kept.
    """
    return snapshot_of_state(core.state, _memory_of(core) if memory is None else memory)


def snapshot_of_state(state: State, memory: bytes) -> Snapshot:
    """Return the snapshot of a state and of a policy's memory that is encoded."""
    return Snapshot.of(state.seq, state.now_us, encode_record(state), memory)


async def state_of(
    reader: LogReader,
    snapshot: Snapshot,
    *,
    with_outcomes: bool = True,
    with_jobs: bool = True,
) -> State:
    """Return the state in a snapshot.

    Args:
        reader: the log of the snapshot.
        snapshot: what is decoded.
        with_outcomes: whether to count how jobs had ended where they are kept apart.
        with_jobs: whether to decode the jobs, nine tenths of a state; else it is as if all had
            ended.
    Raises:
        LogDamagedError: it holds none, or what it rests on is not what was written.
    """
    try:
        row: list[Any] = json.loads(snapshot.state)
        ended: Iterable[Outcome] = ()
        if snapshot.has_past:
            old = dict(zip(_old_names(snapshot), row, strict=False))
            row = [value for name, value in old.items() if name not in (_ENDED, _KEYS)]
            if with_outcomes:
                ended = (await _old_outcomes(reader, snapshot, old)).values()
        if not with_jobs:
            names = [column.name for column in columns_of(State)]
            row = [
                [] if name in _OF_JOBS else value for name, value in zip(names, row, strict=False)
            ]
        state: State = row_decoder(State)(row)
        state.outcomes.update(Counter(ended))
    except (ValueError, TypeError, LookupError, AttributeError, IllegalEventError) as error:
        raise _no_state(snapshot, error) from error
    return state


async def past_of(reader: LogReader, snapshot: Snapshot) -> MemoryPastJobs | None:
    """Return what an old snapshot says of past jobs; None: it is of this version.

    Then the events after it say themselves what there is to know.

    Raises:
        LogDamagedError: it does not say what was written.
    """
    if not snapshot.has_past:
        return None
    try:
        old = dict(zip(_old_names(snapshot), json.loads(snapshot.state), strict=False))
        outcomes = await _old_outcomes(reader, snapshot, old)
        return MemoryPastJobs(outcomes, dict(old.get(_KEYS, ())))
    except (ValueError, TypeError, LookupError) as error:
        raise _no_state(snapshot, error) from error


def check_state(state: State, snapshot: Snapshot, past: MemoryPastJobs) -> None:
    """Raise LogDamagedError unless a snapshot holds the state that was folded.

    Args:
        state: what was folded.
        snapshot: taken at the same event.
        past: what the same events say of past jobs.
    """
    if not snapshot.has_past:
        is_same = encode_record(state) == snapshot.state or _is_older(state, snapshot)
    else:
        values = {field.name: getattr(state, field.name) for field in stored_fields(State)}
        keys = dict(islice(past.keys.items(), max(0, len(past.keys) - KEYS_MOST), None))
        record = SimpleNamespace(**values, ended=past.outcomes, keys=keys)
        is_apart = snapshot.ended is not None
        is_same = snapshot.ended in (None, len(past.outcomes)) and (
            encode_row(_old_encoder(is_apart=is_apart)(record)) == snapshot.state
        )
    if not is_same:
        raise LogDamagedError(
            f"the snapshot at sequence number {snapshot.seq} is not the state that the events up "
            "to there lead to: one of the two was changed, or made by other rules",
            snapshot.seq,
        )


async def check_outcomes(
    reader: LogReader, past: MemoryPastJobs, snapshots: Sequence[Snapshot]
) -> None:
    """Raise LogDamagedError unless old snapshots rest on how jobs ended."""
    count = max((each.ended for each in snapshots if each.ended is not None), default=0)
    ends = iter(past.outcomes.items())
    for each in await reader.outcomes(count):
        if [tuple(pair) for pair in each.items()] != [*islice(ends, each.count)]:
            raise LogDamagedError(
                f"the outcomes of jobs at sequence number {each.seq} are not those that the events "
                "up to there lead to: one of the two was changed, or made by other rules",
                each.seq,
            )


def _is_older(state: State, snapshot: Snapshot) -> bool:
    """Tell whether a snapshot lacks only why jobs had left their GPUs.

    No state knew it up to commit 7db48e7c, nor does one know it of jobs in such a snapshot that it
    was begun from.
    """
    try:
        known: State = row_decoder(State)(json.loads(snapshot.state))
    except (ValueError, TypeError, LookupError, AttributeError, IllegalEventError):
        return False
    values = {field.name: getattr(state, field.name) for field in stored_fields(State)}
    jobs = values["jobs"] = dict(state.jobs)
    for job_id, job in known.jobs.items():
        if job.left_for is None and job_id in jobs:
            jobs[job_id] = copy(jobs[job_id])
            jobs[job_id].left_for = None
    return encode_row(row_encoder(State)(SimpleNamespace(**values))) == snapshot.state


async def _old_outcomes(
    reader: LogReader, snapshot: Snapshot, old: Mapping[str, Any]
) -> dict[JobId, Outcome]:
    """Return how jobs had ended by an old snapshot, whose fields are `old`."""
    pairs = old.get(_ENDED, [])
    if snapshot.ended is not None:
        pairs = [pair for each in await reader.outcomes(snapshot.ended) for pair in each.items()]
    return {JobId(job_id): Outcome(outcome) for job_id, outcome in pairs}


def _memory_of(core: "Scheduler") -> bytes:
    try:
        return encode_record(core.memory)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise PlanError(
            f"policy {core.policy.name} failed in start: expected a dataclass as its memory, of "
            f"numbers, texts and collections of them: {error}"
        ) from error


def _no_state(snapshot: Snapshot, error: Exception) -> LogDamagedError:
    return LogDamagedError(
        f"the snapshot at sequence number {snapshot.seq} holds no state: {error}", snapshot.seq
    )


def _old_names(snapshot: Snapshot) -> list[str]:
    """Return what stands where in the state of a snapshot of an older version."""
    return [column.name for column in _old_columns(is_apart=snapshot.ended is not None)]


@cache
def _old_columns(*, is_apart: bool) -> list[Column]:
    """Return the fields of an old state; `is_apart`: without how jobs ended."""
    found: list[Column] = []
    for column in columns_of(State):
        if column.name == "outcomes":
            break
        found.append(column)
        gone = _AFTER.get(column.name)
        if gone is not None and not (gone == _ENDED and is_apart):
            found.append(Column(gone, lambda pairs: list(pairs.items()), {}))
    return found


@cache
def _old_encoder(*, is_apart: bool) -> Encode:
    return compile_encoder(_old_columns(is_apart=is_apart))
