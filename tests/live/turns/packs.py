"""Which jobs a log says are packed, from when to when, and which had a GPU at once all the same."""

from collections.abc import Iterable, Sequence
from itertools import combinations

from shunter.core import State
from shunter.core.fold import apply
from shunter.events import Event, TurnEnded, TurnStarted

PARTED_US = 10_000_000
"""So long it may take until who is packed no more is told so: a daemon may have to come back."""
CLOCK_US = 100_000
"""So far the instants of supervisors may be off, by which daemon they were told to."""

Span = tuple[int, int]
Pair = frozenset[str]


def pairs_in(events: Iterable[Event]) -> dict[Pair, list[Span]]:
    """Return from when to when jobs were packed, by pair."""
    state, found = State(), dict[Pair, list[Span]]()
    before = set[Pair]()
    for event in events:
        apply(state, event)
        now: set[Pair] = {
            frozenset((job.job_id, other))
            for job in state.jobs.values()
            for other in job.packed_with
        }
        for pair in now - before:
            found.setdefault(pair, []).append((event.at_us, 1 << 62))
        for pair in before - now:
            found[pair][-1] = (found[pair][-1][0], event.at_us)
        before = now
    return found


def turns_in(events: Iterable[Event]) -> dict[str, list[tuple[int, int, int]]]:
    """Return the whole turns of each job: from when to when, and on which GPUs of the server."""
    found = dict[str, list[tuple[int, int, int]]]()
    begun = dict[str, TurnStarted]()
    for event in events:
        if isinstance(event, TurnStarted):
            begun[event.job_id] = event
        elif isinstance(event, TurnEnded):
            start = begun.pop(event.job_id)
            span = (start.began_us or start.at_us, event.ended_us or event.at_us)
            found.setdefault(event.job_id, []).append((*span, start.shares[0].gpu_mask))
    return found


def shared_unpacked(events: Sequence[Event]) -> list[tuple[str, str, Span]]:
    """Return who had a GPU in its turn while another had it, and was not packed with that one."""
    packs, turns = pairs_in(events), turns_in(events)
    found = list[tuple[str, str, Span]]()
    for one, other in combinations(sorted(turns), 2):
        allowed = packs.get(frozenset((one, other)), [])
        for began, end, mask in turns[one]:
            for later, until, its in turns[other]:
                both = max(began, later) + CLOCK_US, min(end, until)
                is_packed = any(a <= both[0] and both[1] <= b + PARTED_US for a, b in allowed)
                if mask & its and both[0] < both[1] and not is_packed:
                    found.append((one, other, both))
    return found
