"""A term of a log whose policy was told of all that happened in it, read from the log."""

from collections.abc import Callable

from shunter.ask.log_reading import Follower, LogFold
from shunter.ask.recorded_terms import Rebuild
from shunter.ask.staged_terms import Term
from shunter.core import FoldResult, State
from shunter.events import Event, facts
from shunter.events.log import LogReader, Snapshot


async def told_term(
    reader: LogReader,
    began_seq: int,
    started: facts.SchedulerStarted,
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
    fold = LogFold(reader)
    if snapshot is None:
        await fold.restore(await reader.snapshot_at(began_seq - 1))
        await fold.forward(began_seq - 1)
    else:
        await fold.restore(snapshot)
    term = Term(started, rebuild, fold.state)
    if snapshot is not None:
        term.restore(snapshot.memory)
    await fold.forward(seq, (TermFollower(term, seen),))
    return term


class TermFollower(Follower):
    """Brings the policy of a term to each of its rounds, and tells it of each event."""

    def __init__(self, term: Term, seen: Callable[[Event, Term], None] | None = None) -> None:
        self._term = term
        self._seen = seen

    def before(self, event: Event, state: State) -> None:
        """Bring the policy to where it was right before a round."""
        if type(event) is facts.RoundPlanned:
            self._term.stand_before(event.at_us)

    def take(self, event: Event, state: State, result: FoldResult) -> None:
        """Tell the policy."""
        self._term.tell(event, result)
        if self._seen is not None:
            self._seen(event, self._term)


async def _snapshot_of_term(reader: LogReader, seq: int, began_seq: int) -> Snapshot | None:
    """Return the newest snapshot of a term with its policy's memory; None: none."""
    snapshot = await reader.snapshot_at(seq)
    while snapshot is not None and snapshot.seq >= began_seq:
        if snapshot.memory:
            return snapshot
        snapshot = await reader.snapshot_at(snapshot.seq - 1)
    return None
