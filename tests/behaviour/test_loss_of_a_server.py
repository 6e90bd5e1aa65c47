"""The loss of a server: what becomes of its jobs and its GPUs, and when it is of use again."""

import pytest

from tests.behaviour.waits_scenes import Row, check, rows

DIES = "servers 4 4; j0: 4 GPUs for 20; j1: 4 GPUs for 50; n0 dies at 8; n0 returns at 30"
GANG = "servers 4 4; j0: 8 GPUs for 20; n1 dies at 8; n1 returns at 30"
COSTS = (
    "servers 4; costs start_us=2, suspend_us=4, resume_us=5; j0: 4 GPUs for 20; n0 returns at 30"
)
DRAINED = (
    "servers 4; j0: 2 GPUs for 20; ana drains n0 at 5; j1: 2 GPUs at 10; ana restores n0 at 40"
)
SET_ASIDE = "servers 4; j0: 4 GPUs for 20; ana sets aside GPU 3 of n0 at 5; j1: 4 GPUs at 10"
SILENT = "live; servers 1 2; j1: 2 GPUs at 5; n1 is silent at 3; n1 answers at 30; until 31"

TABLE = [
    *rows(f"""
a job on it is lost with it, and waits again
    {DIES}
    => j0 at 9, reason: no_capacity
    => j0 at 9, runs: n0[0-3] 0-8 lost: node lost
    => j0 at 9, servers: n0 lost, n1 up
    => j0 at 9, preemptions: 0
without checkpoints it begins anew once the server is back
    {DIES}
    => j0, runs: n0[0-3] 0-8 lost: node lost; n0[0-3] 30-50 finished
    => j0, lost: 8 of j0
    => j0, servers: n0 up, n1 up
a job on another server notices nothing
    {DIES}
    => j1, runs: n1[0-3] 0-50 finished
it goes on at once where another server has room
    servers 4 4; j0: 4 GPUs for 20; n0 dies at 8
    => j0, runs: n0[0-3] 0-8 lost: node lost; n1[0-3] 8-28 finished
a job that needs the lost server waits for it by name
    servers 4; j0: 4 GPUs for 20; n0 dies at 5; j1: 2 GPUs at 10; n0 returns at 40
    => j1 at 30, reason: node_lost
    => j1 at 30, says_first: it needs 2 GPUs, and 0 are in service: n0 is lost
a gang is lost whole with any of its servers
    {GANG}
    => j0, runs: n0[0-3] n1[0-3] 0-8 lost: node lost; n0[0-3] n1[0-3] 30-50 finished
    => j0, lost: 8 of j0
and once, though two of them die
    {GANG}; n0 dies at 8; n0 returns at 20
    => j0, lost: 8 of j0
an attempt that was about to start has no work to lose, and its successor resumes for 5
    {COSTS}; n0 dies at 1
    => j0, runs: n0[0-3] 0-1 lost: node lost; n0[0-3] 30-55 finished
    => j0, lost: 0 of j0
an attempt that has saved and is about to leave is not lost
    {COSTS}; n0 dies at 10; ana suspends j0 at 8; ana releases j0 at 20
    => j0, runs: n0[0-3] 0-12 suspended: held by ana; n0[0-3] 30-49 finished
on a server that is drained jobs run to their end
    {DRAINED}
    => j0, runs: n0[0-1] 0-20 finished
and no other job starts there, however many GPUs are free
    {DRAINED}
    => j1 at 15, 30, reason: node_drained
    => j1 at 15, 30, servers: n0 up but drained
until it is restored
    {DRAINED}
    => j1, runs: n0[0-1] 40-50 finished
a job keeps a GPU that is set aside while it runs there
    {SET_ASIDE}; ana takes back GPU 3 of n0 at 40
    => j0, runs: n0[0-3] 0-20 finished
nobody gets it after that
    {SET_ASIDE}; ana takes back GPU 3 of n0 at 40
    => j1 at 25, reason: gpus_quarantined
    => j1 at 25, servers: n0 up without 0b1000
until it is taken back
    {SET_ASIDE}; ana takes back GPU 3 of n0 at 40
    => j1, runs: n0[0-3] 40-50 finished
a server that comes back is still drained, and its GPU still set aside
    {SET_ASIDE}; ana drains n0 at 6; n0 dies at 8; n0 returns at 12
    => j0 at 30, reason: node_drained
    => j0 at 30, servers: n0 up but drained without 0b1000
a job runs on while its server does not answer, for it may well be there
    {SILENT}; j0: 2 GPUs
    => j0 at 8, runs: n1[0-1] 0-
    => j0 at 8, servers: n0 up, n1 unreachable
nothing starts on a server that does not answer
    {SILENT}; j0: 1 GPU
    => j1 at 8, reason: node_lost
    => j1 at 8, says_first: it needs 2 GPUs, and 1 are in service: n1 does not answer
until it does
    {SILENT}; j0: 1 GPU
    => j1, runs: n1[0-1] 30-
""")
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_loss_of_a_server_is_survived_as_the_row_says(case: Row) -> None:
    check(case)
