"""Checkpoints: how much of its work a job loses, where it may go on, and what it waits for."""

import pytest

from tests.behaviour.waits_scenes import Row, check, rows

DIES = "servers 4; n0 returns at 30; j0: 4 GPUs for 20"
LIVE = "live, checkpoints_stay=yes; servers 1 1 1; j0: 1 GPU; ana suspends j0 at 1"
SILENT = f"{LIVE}; n0 is silent at 2"
LOST = f"{SILENT}; n0 is lost at 3"
LEFT = "1: held by ana, held, leaves"
SPLIT = LIVE.replace("1 1 1; j0: 1 GPU", "2 1 1; j0: 2 GPUs{0}") + "; ana drains n0 at 2"
SPLIT = f"{SPLIT}; ana releases j0 at 3; ana restores n0 at 4"

TABLE = [
    *rows(f"""
what was done since the last one is lost: that at 6 holds 6 of 20
    {DIES}, checkpoint_interval_us=3; n0 dies at 8
    => j0, lost: 2 of j0
    => j0, runs: n0[0-3] 0-8 lost: node lost; n0[0-3] 30-44 finished
one of the very instant counts
    {DIES}, checkpoint_interval_us=4; n0 dies at 8
    => j0, lost: 0 of j0
    => j0, runs: n0[0-3] 0-8 lost: node lost; n0[0-3] 30-42 finished
that at 3 holds 3
    {DIES}, checkpoint_interval_us=3; n0 dies at 5
    => j0, lost: 2 of j0
    => j0, runs: n0[0-3] 0-5 lost: node lost; n0[0-3] 30-47 finished
before the first one all is lost
    {DIES}, checkpoint_interval_us=3; n0 dies at 2
    => j0, lost: 2 of j0
    => j0, runs: n0[0-3] 0-2 lost: node lost; n0[0-3] 30-50 finished
they come at their pace from when work began: at 5 and 8, and it resumes for 5
    {DIES}, checkpoint_interval_us=3; n0 dies at 9; costs start_us=2, suspend_us=4, resume_us=5
    => j0, lost: 1 of j0
    => j0, runs: n0[0-3] 0-9 lost: node lost; n0[0-3] 30-49 finished
what a suspension saved outlives the server
    {DIES}; ana suspends j0 at 4; ana releases j0 at 5; n0 dies at 11
    => j0, lost: 6 of j0
    => j0 at 46, runs: n0[0-3] 0-4 suspended: held by ana; n0[0-3] 5-11 lost: node lost;
       n0[0-3] 30-46 finished
a job goes on where its checkpoint lies
    {LIVE}; ana releases j0 at 3
    => j0, then: {LEFT}; 3: released by ana, attempt 2 starts on n0[0] from n0
it waits for a server that has its checkpoint and does not answer, though another is free
    {SILENT}; ana releases j0 at 3; until 4
    => j0, reason: checkpoint_unreachable
    => j0, says_first: its newest checkpoint was saved by attempt 1 on n0, and n0 does not answer
    => j0, needs_part: shunter admin discard-checkpoint j0
and goes on there when the server answers
    {SILENT}; ana releases j0 at 3; n0 answers at 4
    => j0, then: {LEFT}; 3: released by ana, held by checkpoint;
       4: released by checkpoint, attempt 2 starts on n0[0] from n0
or anew elsewhere once the server is lost, and is told so
    {SILENT}; ana releases j0 at 3; n0 is lost at 4
    => j0, then: {LEFT}; 3: released by ana, held by checkpoint;
       4: released by checkpoint, gives n0/1 up, attempt 2 starts on n1[0] anew
    => j0, says_last: the checkpoint that attempt 1 saved on n0 was discarded at T+00:00:00.000004:
       n0 was lost
or once its owner gives the checkpoint up
    {SILENT}; ana releases j0 at 3; ana gives up j0 at 4
    => j0, then: {LEFT}; 3: released by ana, held by checkpoint;
       4: gives n0/1 up, released by checkpoint, attempt 2 starts on n1[0] anew
    => j0, says_last: the checkpoint that attempt 1 saved on n0 was discarded at T+00:00:00.000004:
       ana gave it up
it is held as well if the server goes silent later
    {LIVE}; ana drains n0 at 2; ana drains n1 at 2; ana drains n2 at 2; ana releases j0 at 3;
    n0 is silent at 4
    => j0, then: {LEFT}; 3: released by ana; 4: held by checkpoint
a lost server that is back before the next launch has its checkpoint
    {LOST}; n0 answers at 4; ana releases j0 at 5
    => j0, then: {LEFT}; 5: released by ana, attempt 2 starts on n0[0] from n0
a server without its checkpoint concerns it in nothing
    {LIVE}; n1 is silent at 2; ana releases j0 at 3
    => j0, then: {LEFT}; 3: released by ana, attempt 2 starts on n0[0] from n0
where checkpoints lie in a folder that all servers see, nobody waits for one
    {SILENT.replace(", checkpoints_stay=yes", "")}; ana releases j0 at 3
    => j0, then: {LEFT}; 3: released by ana, attempt 2 starts on n1[0]
a gang waits for servers on which its split fits, since each rank has a checkpoint
    {SPLIT.format("")}
    => j0 at 3, reason: split_kept
    => j0 at 3, needs_part: --split-may-change
until there are such again
    {SPLIT.format("")}
    => j0, then: {LEFT}; 3: released by ana; 4: attempt 2 starts on n0[0,1] from n0
unless it says that it can load them over another number of processes
    {SPLIT.format(", split_may_change=yes")}
    => j0, then: {LEFT}; 3: released by ana, attempt 2 starts on n1[0]+n2[0] from n0
"""),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_work_is_kept_and_lost_as_the_row_says(case: Row) -> None:
    check(case)
