"""Turns that end at mini-batch boundaries: real supervisors, and programs that use the SDK."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import shunter
from shunter.backends.node import folder_of
from tests.faults.supervised import machine_at, wait_for
from tests.live.training import LACKS_TORCH
from tests.live.turns.turning import Turning, turning_at

pytestmark = pytest.mark.live

TRAIN = """
import sys, time
sys.path.insert(0, {package!r})
from shunter import train
{before}
run = train.start({start})
while True:
    began = time.monotonic_ns()
    time.sleep({batch_s})
    {then}
    print(began, time.monotonic_ns(), run.device, flush=True)
    run.step()
"""


def training(batch_s: float, start: str = "", before: str = "", then: str = "") -> str:
    """Return a program that trains for ever, and prints of each mini-batch from when to when."""
    package = str(Path(shunter.__file__).parents[1])
    return TRAIN.format(
        package=package, batch_s=batch_s, start=start, before=before, then=then or "pass"
    )


@pytest.fixture
def turning(tmp_path: Path) -> Iterator[Turning]:
    with machine_at(tmp_path) as machine, turning_at(machine) as made:
        yield made


def batches(turning: Turning, job: str) -> list[tuple[int, int, str]]:
    lines = (Path(folder_of(turning.root, job, 1)) / "stdout.0").read_text().splitlines()
    return [(int(each.split()[0]), int(each.split()[1]), each.split()[2]) for each in lines]


def test_a_turn_ends_between_two_mini_batches(turning: Turning) -> None:
    """No mini-batch of 100 ms, a third of a quantum, is ever cut."""
    jobs = [turning.starts(1, training(0.1), is_fixed=True) for _ in range(2)]
    turning.waits_for_turns(6)
    for job in jobs:
        done = batches(turning, job)
        longest_ns = max(end - began for began, end, _ in done)
        assert longest_ns < 0.2e9, f"a mini-batch of 0.1 s took {longest_ns / 1e9} s"
        for began, end, _ in turning.turns(job)[1:-2]:
            inside = [each for each in done if began <= each[0] and each[1] <= end]
            cut = [each for each in done if each[0] < end < each[1]]
            assert inside, "a turn without a mini-batch"
            assert not cut, f"a turn that ended within {cut}"
    assert turning.is_never_shared()


def test_who_comes_to_no_boundary_in_time_is_stopped_where_it_is(turning: Turning) -> None:
    slow = turning.starts(1, training(600), boundary_most_us=200_000, is_fixed=True)
    turning.waits_for_its_turn(slow)
    time.sleep(1.0)  # it has said by now that it knows of turns
    other = turning.starts(1)
    turning.waits_for_turns(2, other)
    began, end, _ = turning.turns(slow)[1]
    assert end - began >= 0.45e9, "0.3 s and 0.2 s in which to come to a boundary"
    assert end - began < 2e9


def test_a_job_that_moves_has_turns_on_others_gpus_and_is_told_which(turning: Turning) -> None:
    """Two jobs share a GPU while a second one is another's, who has it for itself till it ends."""
    before = (
        "import os\n"
        "os.environ.update(CUDA_VISIBLE_DEVICES='0', SHUNTER_TURN_GPUS='0,1,2,3')\n"
        "moved = []\n"
        "device = train.device(moves=True)\n"
        "assert os.environ['CUDA_VISIBLE_DEVICES'] == '0,1,2,3'\n"
    )
    program = training(0.02, "move=moved.append", before)
    movers = [turning.starts(1, program, is_fixed=True) for _ in range(2)]
    turning.waits_for_turns(1)
    other = turning.starts(2, training(0.02), is_fixed=True)
    turning.waits_for_turns(6, *movers)
    used = {mask for job in movers for _, _, mask in turning.turns(job)}
    assert used == {1, 2}, "one of them had turns on both GPUs, for neither is given half of one"
    for job in movers:
        for began, end, device in batches(turning, job)[5:]:
            (mask,) = [
                mask for since, until, mask in turning.turns(job) if since <= began <= end <= until
            ]
            assert device == f"cuda:{mask.bit_length() - 1}"
    assert {mask for _, _, mask in turning.turns(other)} == {2}, "it does not move"
    assert turning.is_never_shared()


def test_weight_and_home_of_a_running_attempt_can_be_changed(turning: Turning) -> None:
    first, second = (turning.starts(1, training(0.02), is_fixed=True) for _ in range(2))
    turning.waits_for_turns(2)
    turning.sends(first, "slice", weight=4.0, mask=1)
    turning.waits_for_turns(2)
    since_ns = time.monotonic_ns()
    turning.waits_for_turns(3, second)
    until_ns = time.monotonic_ns()
    had = [turning.had(job, since_ns, until_ns) for job in (first, second)]
    assert had[0] > 2.5 * had[1], had


GANG = """
import os, subprocess, sys
if len(sys.argv) == 1:
    folder = os.path.dirname(os.environ["SHUNTER_CHANNEL"])
    given = {{**os.environ, "SHUNTER_CHECKPOINT_DIR": folder, "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(os.getpid() % 20_000 + 20_000)}}
    command = [sys.executable, "-c", {program!r}]
    ranks = [subprocess.Popen(command, env={{**given, "RANK": str(rank)}}) for rank in range(2)]
    sys.exit(max(rank.wait() for rank in ranks))
"""
JOINED = """
import torch
from torch import distributed
distributed.init_process_group("gloo")
"""


@pytest.mark.parametrize("way", ["files", "torch"])
def test_all_ranks_of_a_gang_stand_still_at_the_same_boundary(turning: Turning, way: str) -> None:
    """Ranks that meet in a collective call after each mini-batch; none waits for another's turn.

    A boundary is waited for a minute, which no turn takes.
    """
    if way == "torch" and LACKS_TORCH:
        pytest.skip(LACKS_TORCH)
    meets = way == "torch"
    inner = training(
        0.05,
        before=JOINED if meets else "",
        then="distributed.all_reduce(torch.ones(1))" if meets else "",
    )
    program = GANG.format(program=inner)
    how = {"is_fixed": True, "boundary_most_us": 60_000_000}
    gang = turning.starts(3, program, **how)
    turning.waits_for_its_turn(gang)
    wait_for(lambda: len(batches(turning, gang)) > 20, "mini-batches of all ranks")
    other = turning.starts(3, training(0.05), **how)
    turning.waits_for_turns(5, gang, other)
    spans = [end - began for began, end, _ in turning.turns(gang)[1:-1]]
    assert max(spans) < 5e9, f"a rank waited for one that stood still: {spans}"
    steps = batches(turning, gang)
    for _, end, _ in turning.turns(gang)[1:-2]:
        assert not [each for each in steps if each[0] < end < each[1]], "a mini-batch was cut"
    assert turning.is_never_shared()
