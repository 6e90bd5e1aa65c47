"""Quotas: what a queue may use at once, and who waits for it."""

import pytest

from tests.behaviour.waits_scenes import Row, check, row

USED = "servers 8; quota q 2; j0: 2 GPUs for 100, queue=q; j1: 2 GPUs at 1, queue=q"

TABLE = [
    row(
        "its queue has used its quota, though GPUs are free",
        USED,
        "j1 at 50",
        reason="quota",
        needed=(2, 0),
        says_part="2 of 2 are used",
    ),
    row(
        "it is held back by jobs of its queue alone",
        f"{USED}; j2: 1 GPU for 100 at 2; under fifo_backfill",
        "j1 at 50",
        blockers=["j0"],
        queue_blockers=["j0"],
    ),
    row(
        "and in the queue too by none that waits before it in another one",
        "servers 8; under fifo_easy; quota q 2; j0: 2 GPUs for 100, queue=q; "
        "j3: 6 GPUs for 50, queue=p; j4: 4 GPUs for 10 at 1, queue=p; j1: 2 GPUs at 2, queue=q",
        "j1 at 5",
        reason="quota",
        blockers=["j0"],
        queue_blockers=["j0"],
    ),
    row("a job of the queue ends", USED, "j1 at 100", phase="running", decided_at=100),
    row(
        "a part of the quota is left, and less than it needs",
        "servers 8; quota q 3; j0: 2 GPUs for 100, queue=q; j1: 2 GPUs at 1, queue=q",
        "j1 at 50",
        reason="quota",
        needed=(2, 1),
        says_part="2 of 3 are used",
    ),
    row(
        "a quota binds no other queue",
        f"{USED}; j2: 2 GPUs for 10 at 2, queue=p; under fifo_backfill",
        "j2 at 5",
        phase="running",
    ),
    row(
        "but under strict fifo nobody starts before one that waits, for whatever it waits",
        f"{USED}; j2: 2 GPUs for 10 at 2, queue=p",
        "j2 at 5",
        reason="outranked",
        blockers=["j1", "j0"],
    ),
    row(
        "a job wider than the quota of its queue is never to start",
        "servers 8; quota q 2; j0: 3 GPUs, queue=q",
        "j0",
        phase="rejected",
    ),
    row(
        "a preemption within the queue makes room in its quota",
        "servers 8; under las; quota q 4; j0: 4 GPUs for 100, queue=q; j1: 4 GPUs at 30, queue=q",
        "j1 at 35",
        phase="running",
        made_room=["j0"],
    ),
    row(
        "and a job of another queue, which is not in its way, runs on",
        "servers 8; under las; quota q 4; j0: 4 GPUs for 100, queue=q; j2: 4 GPUs for 100; "
        "j1: 4 GPUs at 30, queue=q",
        "j2 at 35",
        phase="running",
        preemptions=0,
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_queue_uses_at_most_its_quota(case: Row) -> None:
    check(case)
