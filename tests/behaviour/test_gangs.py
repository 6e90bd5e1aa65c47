"""Gangs: all GPUs at once or none, as near together as the job asks, or never if there are none."""

import pytest

from tests.behaviour.waits_scenes import Row, check, row

INFEASIBLE = "j0 was rejected at T+00:00:00 as infeasible: it needs"

TABLE = [
    row("it starts whole, over several servers", "servers 4 4; j0: 6 GPUs", "j0", gpus_held=6),
    row(
        "it starts with none while one GPU is missing",
        "servers 4 4; j0: 3 GPUs for 100; j1: 6 GPUs at 1",
        "j1 at 50",
        reason="no_capacity",
        needed=(6, 5),
    ),
    row(
        "enough GPUs are free, but on no servers where its split fits",
        "servers 3 3; j0: 2 GPUs for 100, shapes=1+1; j1: 3 GPUs at 1, shapes=3",
        "j1 at 50",
        reason="fragmented",
        says_part="n0:2 n1:2",
        needs_part=", or it accepts another split over servers",
    ),
    row(
        "enough GPUs are free, but not on one server",
        "servers 3 3; j0: 2 GPUs for 100, max_level=server; "
        "j1: 2 GPUs for 100, max_level=server; j2: 2 GPUs at 1, max_level=server",
        "j2 at 50",
        reason="locality_not_met",
        needs_part=", or it accepts to spread further than one server",
    ),
    row(
        "the cluster is never wide enough",
        "servers 4; j0: 5 GPUs",
        "j0 at 0",
        phase="rejected",
        headline=f"{INFEASIBLE} 5 GPUs, and there are 4 (GPUs of one type in the cluster)",
    ),
    row(
        "its servers are never near enough",
        "servers 2 2; j0: 4 GPUs, max_level=server",
        "j0 at 0",
        headline=f"{INFEASIBLE} 4 GPUs within one server, and none are so, even when empty; "
        "the most in one server are 2",
    ),
    row(
        "no server ever has its memory",
        "servers 4, memory_mb=64; j0: 1 GPU, memory_mb=900",
        "j0 at 0",
        headline=f"{INFEASIBLE} 1 GPU with 900 MB of memory, and no server could give that, "
        "even when empty; the most that one has is 64 MB",
    ),
    row(
        "the cluster never had the GPU type",
        "servers 4; j0: 1 GPU, gpu_types=a100",
        "j0 at 0",
        phase="rejected",
        headline_part="a100",
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_gang_starts_whole_or_waits(case: Row) -> None:
    check(case)
