"""Going through a whole log with a verifier, snapshots included, up to the first difference."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from shunter.ask.replaying.divergence import Answers, Divergence
from shunter.ask.replaying.folding import Advance, cut
from shunter.ask.replaying.lookup import is_part
from shunter.ask.replaying.recorded_terms import Rebuild
from shunter.ask.replaying.verification.verifier import Verifier
from shunter.core.state import State, state_digest
from shunter.errors import LogDamagedError
from shunter.events.codec import encode_record
from shunter.events.facts.decisions import RoundPlanned
from shunter.events.kinds import Event
from shunter.events.log import Frame, LogReader, Snapshot
from shunter.events.past_jobs import MemoryPastJobs
from shunter.gc_control import collector_off
from shunter.run.snapshots import check_outcomes, check_state


@dataclass(frozen=True)
class Verdict:
    """What deciding again has shown; no `divergence`: all decisions are the same.

    Of `lenient` of the `terms` an older Shunter wrote the facts: what follows from time and from
    the ends of attempts was taken as recorded there. `past` is how jobs ended that the state has no
    more.
    """

    state: State
    decisions: int
    terms: int
    snapshots: int
    lenient: int
    divergence: Divergence | None
    past: MemoryPastJobs


async def verify_log(
    reader: LogReader,
    rebuild: Rebuild,
    to: int | None = None,
    *,
    resolve: bool = False,
    advance: Advance | None = None,
) -> Verdict:
    """Decide a whole log again, or the events up to `to`, up to the first difference.

    Raises:
        LogDamagedError: the bytes are not what was written, or a snapshot differs.
        UsageError: the log's policy has other rules here, or the log names none.
        NotFoundError: the log's policy is not installed.
    """
    snapshots = [
        snapshot for snapshot in await reader.snapshots() if to is None or snapshot.seq <= to
    ]
    verifier = Verifier(rebuild, resolve=resolve)
    passed = await _go_through(reader, verifier, to, snapshots, advance)
    divergence = passed.divergence
    if divergence is not None:
        divergence = await _explained(reader, verifier, divergence, passed.chain)
        again = Verifier(rebuild, resolve=resolve)
        other = (await _go_through(reader, again, to, ())).divergence
        divergence = replace(divergence, repeats=_is_same(divergence, other))
    else:
        await check_outcomes(reader, verifier.past, snapshots)
    return Verdict(
        verifier.state,
        verifier.decisions,
        verifier.terms,
        passed.snapshots,
        verifier.lenient,
        divergence,
        verifier.past,
    )


@dataclass(frozen=True)
class _Passed:
    """How far a verifier came: where events part, the chain, and agreeing snapshots."""

    divergence: Divergence | None
    chain: str
    snapshots: int


async def _go_through(
    reader: LogReader,
    verifier: Verifier,
    to: int | None,
    snapshots: Sequence[Snapshot],
    advance: Advance | None = None,
) -> _Passed:
    """Go through a log up to the first difference, or up to `to`."""
    pending = [*snapshots][::-1]
    last = (await reader.head()).seq if to is None else to
    checked, chain = 0, ""
    with collector_off():
        async for frame, following in _with_next(reader.frames(0, to)):
            chain = frame.chain.hex()
            verifier.look_ahead(frame.events(0, to))
            if following is not None:
                verifier.look_ahead(following.events(0, to))
            for events in cut(frame, pending, to):
                divergence = verifier.take(events)
                if divergence is not None:
                    return _Passed(divergence, chain, checked)
                while pending and pending[-1].seq == verifier.state.seq:
                    check_snapshot(verifier, pending.pop())
                    checked += 1
            if advance is not None:
                advance(verifier.state.seq, last)
    return _Passed(None, chain, checked)


async def _explained(
    reader: LogReader, verifier: Verifier, divergence: Divergence, chain: str
) -> Divergence:
    """Return a divergence with what the log says beside it."""
    recorded = await _recorded_answer(reader, divergence.answer_seq)
    answers = Answers(recorded, divergence.answers.replayed)
    return replace(
        divergence,
        chain=chain,
        state_digest=state_digest(verifier.state),
        sources=(await reader.sources()).get(verifier.state.term, {}),
        answers=answers,
        seen=verifier.seen(divergence, answers),
    )


def _is_same(one: Divergence, other: Divergence | None) -> bool:
    """Say whether two ways through a log parted from it alike."""
    return other is not None and (
        (one.seq, one.replayed, one.answers.replayed)
        == (other.seq, other.replayed, other.answers.replayed)
    )


async def _recorded_answer(reader: LogReader, seq: int | None) -> tuple[Event, ...]:
    """Return a round of a log and what came of it; nothing where there is none."""
    found: list[Event] = []
    if seq is None:
        return ()
    async for event in reader.events(seq - 1):
        if found and (event.at_us != found[0].at_us or not is_part(event)):
            break
        if not found and not isinstance(event, RoundPlanned):
            break
        found.append(event)
    return tuple(found)


async def _with_next(frames: AsyncIterator[Frame]) -> AsyncIterator[tuple[Frame, Frame | None]]:
    """Yield each frame with the one after it."""
    before: Frame | None = None
    async for frame in frames:
        if before is not None:
            yield before, frame
        before = frame
    if before is not None:
        yield before, None


def check_snapshot(verifier: Verifier, snapshot: Snapshot) -> None:
    """Raise LogDamagedError unless state and policy memory are those of a snapshot."""
    check_state(verifier.state, snapshot, verifier.past)
    if snapshot.memory and encode_record(verifier.memory) != snapshot.memory:
        raise LogDamagedError(
            f"the policy's memory in the snapshot at sequence number {snapshot.seq} is not the "
            "one that the events up to there lead to",
            snapshot.seq,
        )
