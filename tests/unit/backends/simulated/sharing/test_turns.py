"""Jobs that take turns on the GPUs of a server, on the virtual clock: by hand."""

import pytest

from shunter.backends.simulated import MemoryMoves
from shunter.core.speeds import FactorTable, MemoryCycle, ModelFactors, SpeedModel
from shunter.events import Sharing
from tests.factories import configuration, node_name
from tests.unit.backends.simulated.driving import Case, cases

NODES = {node_name(number): configuration(4) for number in range(2)}
ALIKE = SpeedModel(NODES)
HALF = SpeedModel(NODES, relative={configuration(4).gpu_type: 0.5})
CYCLE = MemoryCycle(least_mb=2, most_mb=10, batch_us=8)
FACTORS = FactorTable({"m": ModelFactors(memory_cycle=CYCLE), "bare": ModelFactors()})
COPIED = SpeedModel(NODES, factors=FACTORS)
MB_EACH_US = 1_000_000

TENS = "slicing quantum_us=10"
BOTH = "0: launch j0, launch j1"
TWENTIES = f"{TENS}; j0: 1 GPU for 20; j1: 1 GPU for 20; {BOTH}"
THREE = "; ".join(f"j{number}: 1 GPU for 40" for number in range(3))
THREE += "; 0: launch j0, launch j1 on n0[1], launch j2"
SEVENS = "j0: 1 GPU for 28, total_steps=4"
COPYING = "slicing quantum_us=10, copy_mb_s=1000000"
EIGHTS = "j0: 1 GPU for 40, total_steps=5, model=m; j1: 1 GPU for 40, total_steps=5, model=m"
BARE = "j0: 1 GPU for 40, total_steps=5, model=bare; j1: 1 GPU for 40, total_steps=5, model=unknown"


def turns(words: str, scene: str, sees: str, speeds: SpeedModel | None = None) -> Case:
    return Case(words, scene, sees, speeds, Sharing.sliced)


TABLE = [
    *cases(
        f"""
turns of 10 each; j0 ends its 15 after 5 of its second turn, and j1 goes on alone
    {TENS}; j0: 1 GPU for 15; j1: 1 GPU for 30; {BOTH}
    => 0: j0 starts, j1 starts, j0 has n0[0]; 10: j0 waits, j1 has n0[0];
       20: j1 waits, j0 has n0[0]; 25: j0 ends, j1 has n0[0]; 45: j1 ends
three jobs on two GPUs have two turns of three
    {TENS}; {THREE}
    => 0: j0 starts, j1 starts, j2 starts, j0 has n0[0], j1 has n0[1]; 10: j1 waits, j2 has n0[1];
       20: j0 waits, j1 has n0[0]; 30: j2 waits, j0 has n0[1]; 40: j1 waits, j2 has n0[0];
       50: j0 ends, j1 has n0[1]; 60: j1 ends, j2 ends
jobs that keep their GPUs have turns there: the first GPU is that of two
    {TENS}, keeps_homes=yes; {THREE}
    => 0: j0 starts, j1 starts, j2 starts, j0 has n0[0], j1 has n0[1]; 10: j0 waits, j2 has n0[0];
       20: j2 waits, j0 has n0[0]; 30: j0 waits, j2 has n0[0];
       40: j1 ends, j2 waits, j0 has n0[0]; 50: j0 waits, j2 has n0[0];
       60: j2 waits, j0 has n0[0]; 70: j0 ends, j2 has n0[0]; 80: j2 ends
but for those that move
    {TENS}, keeps_homes=yes, moving=j2; {THREE}
    => 0: j0 starts, j1 starts, j2 starts, j0 has n0[0], j1 has n0[1];
       10: j0 waits, j2 has n0[0] can move;
       20: j1 waits, j2 waits, j0 has n0[0], j2 has n0[1] can move; 30: j2 waits, j1 has n0[1];
       40: j0 waits, j2 has n0[0] can move; 50: j1 ends, j2 waits, j0 has n0[0];
       60: j0 ends, j2 has n0[0] can move; 70: j2 ends
""",
        make=turns,
    ),
    *cases(
        f"""
a gang comes in its turn to the GPUs of a server that nobody leaves: j1 is on the other one
    {TENS}; j0: 7 GPUs for 20, gpus_max=7; j1: 4 GPUs for 20, gpus_max=4; j2: 1 GPU for 50;
    0: launch j0 on n0[0-2]+n1[0-3], launch j1 on n1[0-3], launch j2 on n0[3]
    => 0: j0 starts, j1 starts, j2 starts, j0 has n0[0,1,2], j0 has n1[0,1,2,3], j2 has n0[3];
       10: j0 waits, j1 has n1[0,1,2,3], j0 waits; 20: j0 has n0[0,1,2], j1 waits,
       j0 has n1[0,1,2,3]; 30: j0 ends, j1 has n1[0,1,2,3]; 40: j1 ends; 50: j2 ends
a turn goes on to the end of a mini-batch, of 7 and of 2
    {TENS}; {SEVENS}; j1: 1 GPU for 28, total_steps=14; {BOTH}; until 24
    => 0: j0 starts, j1 starts, j0 has n0[0]; 14: j0 waits, j1 has n0[0];
       24: j1 waits, j0 has n0[0]
and waits for it no longer than it may: with 2 at most, in the middle of the second one
    {TENS}, boundary_most_us=2; {SEVENS}; {SEVENS.replace("j0", "j1")}; {BOTH}; until 24
    => 0: j0 starts, j1 starts, j0 has n0[0]; 12: j0 waits, j1 has n0[0];
       24: j1 waits, j0 has n0[0]
""",
        ALIKE,
        make=turns,
    ),
    turns(
        "a change of hands takes its time",
        TWENTIES.replace(TENS, f"{TENS}, switch_us=3"),
        "0: j0 starts, j1 starts, j0 has n0[0]; 10: j0 waits; 13: j1 has n0[0]; 23: j1 waits; "
        "26: j0 has n0[0]; 36: j0 ends; 39: j1 has n0[0]; 49: j1 ends",
    ),
    *cases(
        f"""
a start-up is over before a job takes turns
    {TENS}; j0: 1 GPU; j1: 1 GPU; costs start_us=4; 0: launch j0; 2: launch j1
    => 4: j0 starts, j0 has n0[0]; 6: j1 starts; 14: j0 ends, j1 has n0[0]; 24: j1 ends
""",
        make=turns,
    ),
    *cases(
        f"""
one that waits for its first turn slows nobody down
    {TWENTIES.replace(BOTH, "0: launch j0")}; 4: launch j1
    => 0: j0 starts, j0 has n0[0]; 4: j1 starts at 0.5; 10: j0 waits, j1 has n0[0];
       20: j1 waits, j0 has n0[0]; 30: j0 ends, j1 has n0[0]; 40: j1 ends
""",
        ALIKE,
        make=turns,
    ),
    *(
        turns(
            f"the GPU of one that is told to {order} is given at once",
            f"{TWENTIES}; 6: {order} j0; until 6",
            f"0: j0 starts, j1 starts, j0 has n0[0]; 6: {seen}, j1 has n0[0]",
        )
        for order, seen in (
            ("suspend", "j0 leaves, j0 is gone"),
            ("terminate", "j0 exits with 143"),
        )
    ),
    *cases(
        f"""
one suspended while it waits keeps its work: 10 of 20, and is resumed alone
    {TWENTIES}; 13: suspend j0; 14: resume j0 on n0[1]
    => 0: j0 starts, j1 starts, j0 has n0[0]; 10: j0 waits, j1 has n0[0];
       13: j0 leaves, j0 is gone; 14: j0 starts #2, j0 has n0[1] #2; 24: j0 ends #2; 30: j1 ends
one that is stopped takes no turns until it goes on
    {TWENTIES}; 4: stop j0; 30: continue j0
    => 0: j0 starts, j1 starts, j0 has n0[0]; 4: j0 waits, j0 stops, j1 has n0[0]; 24: j1 ends;
       30: j0 goes on, j0 has n0[0]; 46: j0 ends
""",
        make=turns,
    ),
    *cases(
        f"""
the speed of a turn is told with it
    {TENS}; j0: 1 GPU; j1: 1 GPU; {BOTH}
    => 0: j0 starts at 0.5, j1 starts at 0.5, j0 has n0[0] at 0.5;
       10: j0 waits, j1 has n0[0] at 0.5; 20: j1 waits, j0 has n0[0] at 0.5;
       30: j0 ends, j1 has n0[0] at 0.5; 40: j1 ends
""",
        HALF,
        make=turns,
    ),
    *cases(
        f"""
one with other GPUs of its own goes on and shares no more: it has done 2 by 12
    {TENS}; j0: 1 GPU for 40; j1: 1 GPU for 40; {BOTH}; 12: reshape j1 on n0[2]
    => 0: j0 starts, j1 starts, j0 has n0[0]; 10: j0 waits, j1 has n0[0]; 12: j0 has n0[2];
       42: j0 ends; 50: j1 ends
a server that dies ends the turns of all
    {TENS}; j0: 1 GPU for 40; j1: 1 GPU for 40; n0 dies at 15; {BOTH}
    => 0: j0 starts, j1 starts, j0 has n0[0]; 10: j0 waits, j1 has n0[0];
       15: n0 dies, j1 is lost with 5, j0 is lost with 10
""",
        make=turns,
    ),
    *cases(
        f"""
turns that end at boundaries copy the least: two steps of 8, then 2 MB go; at 28 j1 had 12, less
than the 16 of j0 by no more than half a quantum, so it ends its second step at 34, and 2 MB go
and 2 come
    {COPYING}; {EIGHTS}; {BOTH}; until 38
    => 0: j0 starts, j1 starts, j0 has n0[0]; 16: j0 waits; 18: j1 has n0[0]; 34: j1 waits;
       38: j0 has n0[0]
and so do those that wait long enough for one
    {COPYING}, boundary_most_us=8; {EIGHTS}; {BOTH}; until 38
    => 0: j0 starts, j1 starts, j0 has n0[0]; 16: j0 waits; 18: j1 has n0[0]; 34: j1 waits;
       38: j0 has n0[0]
those that end anywhere copy what is held there: 2 into a step of 8 a job holds 6 MB, and 6 go,
then 6 go and 6 come
    {COPYING}, at_boundary=no; {EIGHTS}; {BOTH}; until 38
    => 0: j0 starts, j1 starts, j0 has n0[0]; 10: j0 waits; 16: j1 has n0[0]; 26: j1 waits;
       38: j0 has n0[0]
and so do those that do not wait
    {COPYING}, boundary_most_us=0; {EIGHTS}; {BOTH}; until 38
    => 0: j0 starts, j1 starts, j0 has n0[0]; 10: j0 waits; 16: j1 has n0[0]; 26: j1 waits;
       38: j0 has n0[0]
models without a cycle copy nothing
    {COPYING}, at_boundary=no; {BARE}; {BOTH}; until 20
    => 0: j0 starts, j1 starts, j0 has n0[0]; 10: j0 waits, j1 has n0[0];
       20: j1 waits, j0 has n0[0]
""",
        COPIED,
        make=turns,
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_take_turns_as_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees


def test_job_of_another_weight_has_other_turns_from_then_on() -> None:
    """Equal turns up to 40; from then on j0 has two of three, and what was had stays had."""
    scene = (
        f"{TWENTIES.replace('for 20', 'for 400')}; 40: weigh j0 to 2, weigh j1 #2 to 9; until 340"
    )
    began_us, had_us = dict[str, int](), {"j0": 0, "j1": 0}
    for moment in [*turns("", scene, "").seen().split("; "), "340: j0 waits", "340: j1 waits"]:
        at, _, seen = moment.partition(": ")
        for job, _, what in (one.partition(" ") for one in seen.split(", ")):
            if what.startswith("has"):
                began_us[job] = int(at)
            elif what == "waits" and job in began_us:
                had_us[job] += int(at) - began_us.pop(job)
    assert sum(had_us.values()) == 340
    assert abs(had_us["j0"] - (20 + 200)) <= 10


def test_memory_grows_and_falls_in_lines() -> None:
    assert [CYCLE.at_mb(at_us) for at_us in (0, 2, 4, 6, 8, 12)] == [2, 6, 10, 6, 2, 10]
    assert [CYCLE.at_mb(at_us, 16) for at_us in (0, 4, 8)] == [2, 6, 10]


@pytest.mark.parametrize(
    ("leaving", "coming", "took_us"),
    [
        ({"a": 0b0011}, {}, 6),
        ({"a": 0b0001, "b": 0b0010}, {}, 10),
        ({"a": 0b0001}, {"b": 0b0001}, 16),
        ({"a": 0b0001}, {"b": 0b0010}, 10),
        ({}, {"new": 0b0001}, 0),
    ],
    ids=str,
)
def test_gpus_copy_at_the_same_time(
    leaving: dict[str, int], coming: dict[str, int], took_us: int
) -> None:
    moves = MemoryMoves(FACTORS, MB_EACH_US)
    moves.leaves("a", "m", 2, 8)
    moves.leaves("b", "m", 4, 8)
    assert moves.change_us(leaving, coming) == took_us
    moves.forget("a")
    moves.forget("b")
    assert moves.change_us(leaving, coming) == 0
