"""Checkpoints: how much of its work a job loses, where it may go on, and what it waits for."""

import pytest

from tests.behaviour.waits_scenes import Row, check, row

SAVES = "servers 4; j0: 4 GPUs for 20, checkpoint_interval_us={}; n0 dies at {}; n0 returns at 30"
COSTS = "costs start_us=2, suspend_us=4, resume_us=5"
LEAVES = (
    "servers 4 4; live, checkpoints_stay=yes; launches take 1; leaving takes 1; "
    "j0: 4 GPUs; ana suspends j0 at 5; {}"
)
LEFT = "n0[0-3] 0-6 suspended: held by ana"
SILENT = LEAVES.format("n0 is silent at 10; ana releases j0 at 12; {}")
GANG = (
    "servers 2 1 1; live, checkpoints_stay=yes; launches take 1; leaving takes 1; "
    "j0: 2 GPUs{}; ana suspends j0 at 5; ana drains n0 at 8; ana releases j0 at 12; "
    "ana restores n0 at 20"
)
GANG_LEFT = "n0[0-1] 0-6 suspended: held by ana"


def lost(at_us: int, ends_us: int) -> list[str]:
    """Return the runs of a job whose server dies, and is back at 30."""
    return [f"n0[0-3] 0-{at_us} lost: node lost", f"n0[0-3] 30-{ends_us} finished"]


TABLE = [
    row(
        "what was done since the last one is lost: that at 6 holds 6 of 20",
        SAVES.format(3, 8),
        "j0",
        lost_us=[2],
        runs=lost(8, 30 + 14),
    ),
    row(
        "one of the very instant counts",
        SAVES.format(4, 8),
        "j0",
        lost_us=[0],
        runs=lost(8, 30 + 12),
    ),
    row(
        "that at 3 holds 3",
        SAVES.format(3, 5),
        "j0",
        lost_us=[2],
        runs=lost(5, 30 + 17),
    ),
    row(
        "before the first one all is lost",
        SAVES.format(3, 2),
        "j0",
        lost_us=[2],
        runs=lost(2, 30 + 20),
    ),
    row(
        "they come at their pace from when work began: at 5 and 8, and it resumes for 5",
        f"{SAVES.format(3, 9)}; {COSTS}",
        "j0",
        lost_us=[1],
        runs=lost(9, 30 + 5 + 14),
    ),
    row(
        "what a suspension saved outlives the server",
        "servers 4; j0: 4 GPUs for 20; ana suspends j0 at 4; ana releases j0 at 5; "
        "n0 dies at 11; n0 returns at 30",
        "j0",
        lost_us=[6],
        runs=[
            "n0[0-3] 0-4 suspended: held by ana",
            "n0[0-3] 5-11 lost: node lost",
            "n0[0-3] 30-46 finished",
        ],
    ),
    row(
        "a job goes on where its checkpoint lies",
        LEAVES.format("ana releases j0 at 12"),
        "j0 at 14",
        runs=[LEFT, "n0[0-3] 12-"],
    ),
    row(
        "it waits for a server that has its checkpoint and does not answer, though another is free",
        SILENT.format(""),
        "j0 at 14",
        reason="checkpoint_unreachable",
        says_first="its newest checkpoint was saved by attempt 1 on n0, and n0 does not answer",
        needs_part="shunter admin discard-checkpoint j0",
    ),
    row(
        "and goes on there when the server answers",
        SILENT.format("n0 answers at 20"),
        "j0 at 22",
        runs=[LEFT, "n0[0-3] 20-"],
        discarded=[],
    ),
    row(
        "or anew elsewhere once the server is lost, and is told so",
        SILENT.format("n0 is lost at 20; until 22"),
        "j0 at 22",
        runs=[LEFT, "n1[0-3] 20-"],
        discarded=[(1, "n0", "lost")],
        says_last="the checkpoint that attempt 1 saved on n0 was discarded at "
        "T+00:00:00.000021: n0 was lost",
    ),
    row(
        "or once its owner gives the checkpoint up",
        SILENT.format("ana gives up the checkpoint of j0 at 20; until 22"),
        "j0 at 22",
        runs=[LEFT, "n1[0-3] 20-"],
        discarded=[(1, "n0", "given_up")],
        says_last="the checkpoint that attempt 1 saved on n0 was discarded at "
        "T+00:00:00.00002: ana gave it up",
    ),
    row(
        "a lost server that is back before the next launch has its checkpoint",
        LEAVES.format(
            "n0 is silent at 10; n0 is lost at 11; n0 answers at 12; ana releases j0 at 13"
        ),
        "j0 at 16",
        runs=[LEFT, "n0[0-3] 13-"],
        discarded=[],
    ),
    row(
        "a server without its checkpoint concerns it in nothing",
        LEAVES.format("n1 is silent at 10; ana releases j0 at 12"),
        "j0 at 14",
        runs=[LEFT, "n0[0-3] 12-"],
    ),
    row(
        "where checkpoints lie in a folder that all servers see, nobody waits for one",
        SILENT.format("").replace(", checkpoints_stay=yes", ""),
        "j0 at 14",
        runs=[LEFT, "n1[0-3] 12-"],
    ),
    row(
        "a gang waits for servers on which its split fits, since each rank has a checkpoint",
        GANG.format(""),
        "j0 at 14",
        reason="split_kept",
        needed=(2, 2),
        needs_part="--split-may-change",
    ),
    row(
        "until there are such again",
        GANG.format(""),
        "j0 at 22",
        runs=[GANG_LEFT, "n0[0-1] 20-"],
    ),
    row(
        "unless it says that it can load them over another number of processes",
        GANG.format(", split_may_change=yes"),
        "j0 at 14",
        runs=[GANG_LEFT, "n1[0] n2[0] 12-"],
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_work_is_kept_and_lost_as_the_row_says(case: Row) -> None:
    check(case)
