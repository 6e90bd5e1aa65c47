"""What `why` says of trials, in a log written by hand."""

import asyncio
from typing import Any

import pytest

from shunter.ask.why import document
from shunter.core.planning import RoundRules
from shunter.events import (
    Allocation,
    AllocationChanged,
    AttemptStarted,
    Batch,
    Because,
    ChangeKey,
    Event,
    GpuType,
    Sharing,
    TrialKept,
    TrialKind,
    TrialReason,
    TrialReverted,
    TrialStarted,
    TurnStarted,
)
from tests.factories import allocation, job_id, job_submitted, policy, servers
from tests.replay.recording import Recorded, asked, rebuilt

J0, J1 = job_id(0), job_id(1)
S = 1_000_000
START: tuple[Event, ...] = (
    *servers(1),
    *(job_submitted(number) for number in range(2)),
    *(
        AllocationChanged(
            0, each, Allocation(allocation(n0=1).shares, Sharing.sliced), Because("t")
        )
        for each in (J0, J1)
    ),
    *(AttemptStarted(0, each, 1) for each in (J0, J1)),
)
KEY = ChangeKey("pack", ("x", "x"), GpuType("v100"))
BOTH = (Batch(J0, 8_000), Batch(J1, 4_000))


def said(*events: Event) -> str:
    """Return what is said of the one trial of j0, at the end of a log."""
    recorded = Recorded((*START, *events), rebuilt(policy("fifo"), RoundRules(10)))
    (trial,) = document(asyncio.run(asked(recorded, "j0", 90 * S)))["trials"]
    words: Any = trial["words"]
    return str(words)


@pytest.mark.parametrize(("baseline", "times"), [(0.0625, "16"), (0.5, "2"), (1.0, "1")])
def test_a_move_names_the_share_in_turns_that_it_is_held_to(baseline: float, times: str) -> None:
    moved = TrialStarted(10 * S, J0, TrialKind.migrate, (), baseline, BOTH[:1], KEY)
    kept = TrialKept(80 * S, J0, TrialKind.migrate, 1.0, TrialReason.gained, BOTH[:1])
    words = said(moved, kept)
    share = (
        f"8 ms (j0) and {100 * baseline:.3g} % of its GPUs' time, its fair share in turns, before"
    )
    assert (share in words) is (baseline < 1)
    by = ", by both" if baseline < 1 else ""
    assert f"{times} times as fast as before{by} (mini-batches of 8 ms (j0))" in words


@pytest.mark.parametrize(
    ("measured", "who"),
    [(BOTH[:1], "j1"), (BOTH[1:], "j0"), ((), "one of them, or both,")],
)
def test_a_pack_names_who_made_no_progress_where_that_was_seen(
    measured: tuple[Batch, ...], who: str
) -> None:
    packed = TrialStarted(10 * S, J0, TrialKind.pack, (J1,), 1.0, BOTH, KEY)
    undone = TrialReverted(80 * S, J0, TrialKind.pack, 0.0, TrialReason.no_progress, measured)
    assert f"given up: {who} made no progress at" in said(packed, undone)


def test_a_pack_names_who_had_no_speed_though_nothing_was_measured() -> None:
    packed = TrialStarted(10 * S, J0, TrialKind.pack, (J1,), 1.0, BOTH, KEY)
    turn = TurnStarted(20 * S, J0, 1, allocation(n0=1).shares, 0.0)
    undone = TrialReverted(20 * S, J0, TrialKind.pack, 0.0, TrialReason.no_progress, ())
    assert "given up: j0 made no progress at" in said(packed, turn, undone)
