"""A policy that was told of all that a log says of its term, up to a moment."""

from collections.abc import Callable

from shunter.ask.replaying.folding import fold_events, restored
from shunter.ask.replaying.recorded_terms import Rebuild, Term
from shunter.events.facts.decisions import RoundPlanned
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.log import LogReader, Snapshot
from shunter.gc_control import collector_off


async def told_term(
    reader: LogReader,
    began_seq: int,
    started: SchedulerStarted,
    seq: int,
    rebuild: Rebuild,
    seen: Callable[[Event, Term], None] | None = None,
) -> Term:
    """Return a term whose policy was told of all that happened in it.

    Args:
        reader: the log.
        began_seq: the number of the event that began the term.
        started: that event, as `last_start` has it.
        seq: the last event that it is told of, of the term.
        rebuild: makes the policy.
        seen: called with each event since a snapshot, once the term was told.
    Raises:
        ConfigError: the policy is not installed.
        LogDamagedError: the bytes of the log are not what was written.
    """
    snapshot = await _snapshot_of_term(reader, seq, began_seq)
    begins = snapshot or await reader.snapshot_at(began_seq - 1)
    state, rules = await restored(reader, begins)
    term: Term | None = None
    if snapshot is not None:
        term = Term(started, rebuild, state)
        term.restore(snapshot.memory)
    with collector_off():
        async for frame in reader.frames(state.seq, seq):
            for event in frame.events(state.seq, seq):
                if term is None and state.seq == began_seq - 1:
                    term = Term(started, rebuild, state)
                elif term is not None and type(event) is RoundPlanned:
                    term.stand_before(event.at_us)
                result = fold_events(state, (event,), rules)
                if term is not None:
                    term.tell(event, result)
                    if seen is not None:
                        seen(event, term)
    assert term is not None, "the term begins at or before the event"
    return term


async def _snapshot_of_term(reader: LogReader, seq: int, began_seq: int) -> Snapshot | None:
    """Return the newest snapshot of a term with its policy's memory; None: none."""
    snapshot = await reader.snapshot_at(seq)
    while snapshot is not None and snapshot.seq >= began_seq:
        if snapshot.memory:
            return snapshot
        snapshot = await reader.snapshot_at(snapshot.seq - 1)
    return None
