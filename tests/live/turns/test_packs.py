"""Attempts that have their turns together, on the same GPUs at once: real supervisors.

All that is claimed is counted from the journals, whose instants the supervisors noted.
"""

import os
import signal
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

import shunter
from shunter.backends.node import attempts, folder_of, turn_in
from tests.faults.supervised import machine_at, wait_for
from tests.live.turns.turning import ALL, QUANTUM_US, Turning, turning_at

pytestmark = pytest.mark.live

PACK = "s0.1"


@pytest.fixture
def turning(tmp_path: Path) -> Iterator[Turning]:
    with machine_at(tmp_path) as machine, turning_at(machine) as made:
        yield made


def packs(turning: Turning, *jobs: str, pack: str = PACK, mask: int = 1) -> None:
    """Tell supervisors that their attempts have turns together from now on, or alone again."""
    for job in jobs:
        turning.sends(job, "slice", weight=1.0, mask=mask, pack=pack)


def together(turning: Turning, *pair: str, since_ns: int = 0) -> list[tuple[int, int]]:
    """Return from when to when two attempts were on the same GPU at once, in nanoseconds."""
    one, other = pair
    return [
        span
        for began, end, mask in turning.turns(one)
        for later, until, its in turning.turns(other)
        if mask & its
        if (span := (max(began, later, since_ns), min(end, until)))[0] < span[1]
    ]


def are_on(turning: Turning, *jobs: str) -> bool:
    return all(map(turning.has_turn, jobs))


def test_two_that_are_packed_have_turns_at_once_and_a_third_has_its_own(turning: Turning) -> None:
    jobs = [turning.starts(1) for _ in range(3)]
    turning.waits_for_turns(2)
    assert not any(together(turning, *pair) for pair in combinations(jobs, 2))
    packs(turning, *jobs[:2])
    wait_for(lambda: are_on(turning, *jobs[:2]), "both at once")
    since_ns = time.monotonic_ns()
    turning.waits_for_turns(8, jobs[2])
    until_ns = time.monotonic_ns()
    for job in jobs[:2]:
        assert not together(turning, job, jobs[2])
    had = [turning.had(job, since_ns, until_ns) for job in jobs]
    both_ns = sum(
        min(end, until_ns) - began for began, end in together(turning, *jobs[:2], since_ns=since_ns)
    )
    print("of the time", [round(each / (until_ns - since_ns), 3) for each in had])
    # A pack has the turns of both: two of three quanta, and its jobs are on at once.
    span, quantum = until_ns - since_ns, QUANTUM_US * 1000
    assert both_ns >= 0.9 * min(had[:2])
    assert abs(had[0] - span * 2 / 3) <= 2 * quantum
    assert abs(had[2] - span / 3) <= 2 * quantum


def test_who_is_parted_again_waits_for_its_own_turns(turning: Turning) -> None:
    jobs = [turning.starts(1) for _ in range(2)]
    turning.waits_for_turns(1)
    packs(turning, *jobs)
    wait_for(lambda: are_on(turning, *jobs), "both at once")
    time.sleep(3 * QUANTUM_US / 1e6)
    counts = [len(turning.turns(job)) for job in jobs]
    assert are_on(turning, *jobs), "nobody waits, so no turn ends"
    packs(turning, *jobs, pack="")
    turning.waits_for_turns(2)
    parted_ns = max(
        turning.turns(job)[count - 1][1] for job, count in zip(jobs, counts, strict=True)
    )
    assert parted_ns < ALL
    assert not [
        span for span in together(turning, *jobs) if span[1] > max(parted_ns, span[0] + 10**9)
    ]
    late = [span for span in together(turning, *jobs) if span[0] >= parted_ns]
    assert not late, "they have turns of their own"


def test_a_pack_moves_to_the_gpu_of_one_of_them_where_it_can(turning: Turning) -> None:
    first, second = turning.starts(1), turning.starts(2)
    wait_for(lambda: are_on(turning, first, second), "a GPU each")
    third = turning.starts(1)
    turning.waits_for_turns(1)
    for job, home in ((first, 1), (second, 2)):
        turning.sends(job, "slice", weight=1.0, mask=home, pack=PACK)
    wait_for(lambda: bool(together(turning, first, second)), "both on one GPU")
    wait_for(lambda: are_on(turning, first, second, third), "all of them")
    assert not together(turning, first, third)
    assert not together(turning, second, third)


def test_when_one_of_a_pack_ends_the_other_keeps_the_turn(turning: Turning) -> None:
    turning.starts(2, is_fixed=True)  # it rotates: who takes over has everybody stand still
    jobs = [turning.starts(1, is_fixed=True) for _ in range(2)]
    packs(turning, *jobs)
    wait_for(lambda: are_on(turning, *jobs), "both at once")
    count = len(turning.turns(jobs[1]))
    turning.ends(jobs[0])
    time.sleep(2 * QUANTUM_US / 1e6)
    assert turning.has_turn(jobs[1])
    assert len(turning.turns(jobs[1])) == count
    third = turning.starts(1, is_fixed=True)
    turning.waits_for_turns(2, jobs[1], third)
    assert not together(turning, jobs[1], third)


@pytest.mark.parametrize("leaver", [0, 1], ids=["the first", "the second"])
def test_who_leaves_a_pack_goes_first_alone(turning: Turning, leaver: int) -> None:
    """Method: it is seen on its way out for long, and then is gone; a third has its turns."""
    turning.starts(2, is_fixed=True)
    stays = "import os, time\nwhile not os.path.exists('gone'): time.sleep(0.02)\n"
    stubborn = "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: None)\n" + stays
    jobs = [turning.starts(1, stubborn, is_fixed=True) for _ in range(2)]
    packs(turning, *jobs)
    wait_for(lambda: are_on(turning, *jobs), "both at once")
    turning.sends(jobs[leaver], "suspend", mode="restart")
    folder = folder_of(turning.root, jobs[leaver], 1)  # half a second later it is killed
    wait_for(lambda: attempts.probe(folder)["state"] == "ended", "its end")
    third = turning.starts(1, is_fixed=True)
    turning.waits_for_turns(2, jobs[1 - leaver], third)


def test_who_is_parted_from_one_that_leaves_has_no_more_turns_than_others(
    turning: Turning,
) -> None:
    turning.starts(2, is_fixed=True)
    stays = "import os, time\nwhile not os.path.exists('gone'): time.sleep(0.02)\n"
    stubborn = "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: None)\n" + stays
    jobs = [turning.starts(1, stubborn, is_fixed=True) for _ in range(2)]
    packs(turning, *jobs)
    wait_for(lambda: are_on(turning, *jobs), "both at once")
    turning.sends(jobs[0], "suspend", mode="restart")
    packs(turning, *jobs, pack="")
    folder = folder_of(turning.root, jobs[0], 1)  # half a second later it is killed
    wait_for(lambda: attempts.probe(folder)["state"] == "ended", "its end")
    third = turning.starts(1, is_fixed=True)
    turning.waits_for_turns(2, jobs[1], third)


def test_who_stays_of_a_pack_has_its_gpu_alone_though_others_change_hands(
    turning: Turning,
) -> None:
    """Method: one of the pack ends while a boundary is awaited on another GPU, for two seconds."""
    package = str(Path(shunter.__file__).parents[1])
    slow = f"import sys, time; sys.path.insert(0, {package!r})\nfrom shunter import train\n"
    late = turning.starts(2, f"{slow}train.start()\ntime.sleep(600)", is_fixed=True)
    turning.starts(2, is_fixed=True)
    jobs = [turning.starts(1, is_fixed=True) for _ in range(2)]
    third = turning.starts(1, is_fixed=True)
    packs(turning, *jobs)
    wait_for(
        lambda: turn_in(folder_of(turning.root, late, 1))["ends"] and are_on(turning, *jobs),
        "a change of hands in which they stay",
    )
    since_ns = time.monotonic_ns()
    turning.ends(jobs[0])
    turning.waits_for_turns(2, jobs[1], third)
    assert not together(turning, jobs[1], third, since_ns=since_ns)


def test_who_is_stopped_by_a_person_is_packed_no_more(turning: Turning) -> None:
    turning.starts(2, is_fixed=True)
    jobs = [turning.starts(1, is_fixed=True) for _ in range(2)]
    packs(turning, *jobs)
    wait_for(lambda: are_on(turning, *jobs), "both at once")
    turning.sends(jobs[0], "stop")
    wait_for(lambda: not turning.has_turn(jobs[0]), "its stop")
    assert turning.has_turn(jobs[1])
    since_ns = time.monotonic_ns()
    turning.sends(jobs[0], "continue")
    turning.waits_for_turns(2, *jobs)
    assert not together(turning, *jobs, since_ns=since_ns)


def test_who_is_stopped_and_goes_on_before_that_is_seen_is_packed_no_more(
    turning: Turning,
) -> None:
    rotates = turning.supervisor(turning.starts(2, is_fixed=True))  # the first one holds the lock
    jobs = [turning.starts(1, is_fixed=True) for _ in range(2)]
    packs(turning, *jobs)
    wait_for(lambda: are_on(turning, *jobs), "both at once")
    os.kill(rotates, signal.SIGSTOP)
    for order in ("stop", "continue"):
        turning.sends(jobs[0], order)
    wait_for(lambda: turning.notes(jobs[0])[-1]["what"] == "continued", "its stop and return")
    since_ns = time.monotonic_ns()
    os.kill(rotates, signal.SIGCONT)
    turning.waits_for_turns(2, *jobs)
    assert not together(turning, *jobs, since_ns=since_ns)


def test_packs_outlive_the_supervisor_that_rotates(turning: Turning) -> None:
    jobs = [turning.starts(1, is_fixed=True) for _ in range(3)]
    turning.waits_for_turns(1)
    packs(turning, *jobs[1:])
    wait_for(lambda: are_on(turning, *jobs[1:]), "both at once")
    killed = jobs.pop(0)  # the first one holds the lock
    turning.waits_for_its_turn(killed)
    os.kill(turning.supervisor(killed), signal.SIGKILL)
    since_ns = time.monotonic_ns()
    wait_for(lambda: are_on(turning, *jobs), "both at once, alone on the GPU")
    assert together(turning, *jobs, since_ns=since_ns)
