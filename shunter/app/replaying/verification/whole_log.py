"""Going through a whole log with a verifier, snapshots included, up to the first difference."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from shunter.app.gc_control import collector_off
from shunter.app.replaying.divergence import Divergence
from shunter.app.replaying.folding import Advance, cut
from shunter.app.replaying.recorded_terms import Rebuild
from shunter.app.replaying.verification.verifier import Verifier
from shunter.app.snapshots import check_outcomes, check_state
from shunter.core.digest import state_digest
from shunter.core.state import State
from shunter.errors import LogDamagedError
from shunter.events.codec import encode_record
from shunter.events.log import Frame, LogReader, Snapshot
from shunter.events.past_jobs import MemoryPastJobs


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
    verifier = Verifier(rebuild, resolve=resolve)
    snapshots = [
        snapshot for snapshot in await reader.snapshots() if to is None or snapshot.seq <= to
    ]
    pending = snapshots[::-1]
    last = (await reader.head()).seq if to is None else to
    checked, chain = 0, ""
    divergence: Divergence | None = None
    with collector_off():
        async for frame, following in _with_next(reader.frames(0, to)):
            chain = frame.chain.hex()
            verifier.look_ahead(frame.events(0, to))
            if following is not None:
                verifier.look_ahead(following.events(0, to))
            for events in cut(frame, pending, to):
                divergence = verifier.take(events)
                if divergence is not None:
                    break
                while pending and pending[-1].seq == verifier.state.seq:
                    check_snapshot(verifier, pending.pop())
                    checked += 1
            if divergence is not None:
                break
            if advance is not None:
                advance(verifier.state.seq, last)
    if divergence is not None:
        digest = state_digest(verifier.state)
        sources = (await reader.sources()).get(verifier.state.term, {})
        divergence = replace(divergence, chain=chain, state_digest=digest, sources=sources)
    else:
        await check_outcomes(reader, verifier.past, snapshots)
    return Verdict(
        verifier.state,
        verifier.decisions,
        verifier.terms,
        checked,
        verifier.lenient,
        divergence,
        verifier.past,
    )


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
