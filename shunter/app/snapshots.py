"""Snapshots: state and policy memory as a log keeps them, and how a state is had back from one.

The jobs that have ended grow with history, and a snapshot that named them all would grow with it.
They are kept apart: each snapshot comes with those that ended since the one before, and says how
many there are by then. What is left is as large as the cluster is busy.
"""

import json
from collections.abc import Sequence
from functools import cache
from itertools import islice
from typing import Any

from shunter.core.scheduler import Scheduler
from shunter.core.state import Outcome, State
from shunter.errors import IllegalEventError, LogDamagedError, PlanError
from shunter.events.codec import encode_record, encode_row
from shunter.events.log import LogReader, Outcomes, Snapshot
from shunter.events.row_source import compile_encoder
from shunter.events.rows import Encode, columns_of, row_decoder, stored_fields
from shunter.events.values.ids import JobId

__all__ = ["check_outcomes", "check_state", "snapshot_of", "snapshot_of_state", "state_of"]

_ENDED = [field.name for field in stored_fields(State)].index("ended")


def snapshot_of(
    core: Scheduler, outcomes_kept: int, memory: bytes | None = None
) -> tuple[Snapshot, Outcomes]:
    """Return what scheduler and policy know, as `save_snapshot` takes it.

    Args:
        core: the scheduler, between two steps.
        outcomes_kept: of how many jobs that ended the log has the outcomes already.
        memory: the policy's, if it is not the scheduler that has it.
    Raises:
        PlanError: the policy's memory is no record that could be kept.
    """
    return snapshot_of_state(
        core.state, _memory_of(core) if memory is None else memory, outcomes_kept
    )


def snapshot_of_state(state: State, memory: bytes, outcomes_kept: int) -> tuple[Snapshot, Outcomes]:
    """Return the snapshot of a state and of a policy's memory that is encoded."""
    since = [*islice(state.ended.items(), outcomes_kept, None)]
    encoded = encode_row(_encoder()(state))
    snapshot = Snapshot.of(state.seq, state.now_us, encoded, memory, len(state.ended))
    return snapshot, Outcomes.of(state.seq, outcomes_kept, since)


async def state_of(reader: LogReader, snapshot: Snapshot, *, with_ended: bool = True) -> State:
    """Return the state in a snapshot.

    Args:
        reader: the log of the snapshot.
        snapshot: what is decoded.
        with_ended: whether to read which jobs had ended, where they are kept apart.
    Raises:
        LogDamagedError: it holds none, or what it rests on is not what was written.
    """
    try:
        row: list[Any] = json.loads(snapshot.state)
        if snapshot.ended is not None and len(row) >= _ENDED:
            row.insert(_ENDED, [])
        state: State = row_decoder(State)(row)
        if snapshot.ended is not None and with_ended:
            state.ended = {
                JobId(job_id): Outcome(outcome)
                for each in await reader.outcomes(snapshot.ended)
                for job_id, outcome in each.items()
            }
    except (ValueError, TypeError, LookupError, AttributeError, IllegalEventError) as error:
        raise LogDamagedError(
            f"the snapshot at sequence number {snapshot.seq} holds no state: {error}", snapshot.seq
        ) from error
    return state


def check_state(state: State, snapshot: Snapshot) -> None:
    """Raise LogDamagedError unless a snapshot holds the state that was folded."""
    if snapshot.ended is None:
        is_same = encode_record(state) == snapshot.state
    else:
        is_same = snapshot.ended == len(state.ended) and (
            encode_row(_encoder()(state)) == snapshot.state
        )
    if not is_same:
        raise LogDamagedError(
            f"the snapshot at sequence number {snapshot.seq} is not the state that the events up "
            "to there lead to: one of the two was changed, or made by other rules",
            snapshot.seq,
        )


async def check_outcomes(reader: LogReader, state: State, snapshots: Sequence[Snapshot]) -> None:
    """Raise LogDamagedError unless snapshots rest on outcomes of a state."""
    count = max((each.ended for each in snapshots if each.ended is not None), default=0)
    ends = iter(state.ended.items())
    for each in await reader.outcomes(count):
        if [tuple(pair) for pair in each.items()] != [*islice(ends, each.count)]:
            raise LogDamagedError(
                f"the outcomes of jobs at sequence number {each.seq} are not those that the events "
                "up to there lead to: one of the two was changed, or made by other rules",
                each.seq,
            )


def _memory_of(core: Scheduler) -> bytes:
    try:
        return encode_record(core.memory)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise PlanError(
            f"policy {core.policy.name} failed in start: expected a dataclass as its memory, of "
            f"numbers, texts and collections of them: {error}"
        ) from error


@cache
def _encoder() -> Encode:
    """Return what makes a row of a state, without the jobs that have ended."""
    return compile_encoder([each for each in columns_of(State) if each.name != "ended"])
