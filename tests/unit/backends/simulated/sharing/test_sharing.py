"""Jobs that share GPUs, or are neighbours on a server: by hand, to the microsecond."""

import pytest

from shunter.core.speeds import FactorTable, JobKind, ModelFactors, SpeedModel, ThroughputTable
from shunter.events import GpuType, Level, LevelGroups, Sharing
from tests.factories import configuration, node_name
from tests.unit.backends.simulated.driving import Case, cases

SWITCHES = (LevelGroups(Level.switch, (0b0011, 0b1100)),)
NODES = {node_name(number): configuration(4, levels=SWITCHES) for number in range(2)}
V100 = GpuType("v100")
SLOW, FAST, BIG = JobKind("slow", 1), JobKind("fast", 1), JobKind("big", 1)
TABLE = ThroughputTable(
    {V100: {SLOW: 1.0, FAST: 4.0, BIG: 1.0}},
    {
        V100: {
            (SLOW, FAST): (0.8, 1.0),
            (FAST, SLOW): (1.0, 0.8),
            (BIG, SLOW): (0.0, 0.0),
            (SLOW, BIG): (0.0, 0.0),
        }
    },
    V100,
)
HALVES = SpeedModel(NODES)
RATES = SpeedModel(NODES, throughput=TABLE)
FACTORS = FactorTable({"rnn": ModelFactors(beside={Level.switch: 0.5, Level.server: 0.8})})
BESIDE = SpeedModel(NODES, factors=FACTORS)
TEN_20 = "j0: 1 GPU for 10; j1: 1 GPU for 20"
PAIR = f"{TEN_20}; 0: launch j0, launch j1"
STARTED = "0: j0 starts at 0.5, j1 starts at 0.5"
ROUNDS = "lease progress=whole_steps, round_ends=last_gang, round_us=10"
RNNS = "j0: 1 GPU for 20, model=rnn; j1: 1 GPU for 20, model=rnn"


def shared(words: str, scene: str, sees: str, speeds: SpeedModel | None = HALVES) -> Case:
    return Case(words, scene, sees, speeds, Sharing.packed)


TABLE_OF_PAIRS = [
    *cases(
        f"""
a pair of which nobody knows more takes turns
    {PAIR}
    => {STARTED}; 20: j0 ends, j1 goes at 1; 30: j1 ends
a job slows down when a partner comes and not before
    {TEN_20}; 0: launch j0; 4: launch j1
    => 0: j0 starts; 4: j0 goes at 0.5, j1 starts at 0.5; 16: j0 ends, j1 goes at 1; 30: j1 ends
each further partner takes its part
    j0: 1 GPU; j1: 1 GPU; j2: 1 GPU; 0: launch j0, launch j1, launch j2
    => 0: j0 starts at 0.25, j1 starts at 0.25, j2 starts at 0.25;
       40: j0 ends, j1 ends, j2 goes at 0.5, j2 ends
""",
        make=shared,
    ),
    *cases(
        """
a pair runs at the rates of the table: the fast one has done 2 of 8 by 10
    j0: 1 GPU for 8, model=slow; j1: 1 GPU for 8, model=fast; 0: launch j0, launch j1
    => 0: j0 starts at 0.8, j1 starts at 0.25; 10: j0 ends, j1 goes at 1; 16: j1 ends
a pair that does not fit gets nothing done until one leaves
    j0: 1 GPU for 8, model=slow; j1: 1 GPU for 8, model=big; 0: launch j0, launch j1;
    50: suspend j1
    => 0: j0 starts at 0, j1 starts at 0; 50: j0 goes at 1, j1 leaves, j1 is gone; 58: j0 ends
""",
        RATES,
        make=shared,
    ),
    *cases(
        f"""
jobs on other GPUs of the server go on as before
    j0: 1 GPU; j1: 1 GPU; 0: launch j0, launch j1 on n0[1]
    => 0: j0 starts, j1 starts; 10: j0 ends, j1 ends
a gang is slowed by a partner on one of its GPUs
    {TEN_20}; 0: launch j0 on n0[0-1], launch j1 on n0[1]
    => {STARTED}; 20: j0 ends, j1 goes at 1; 30: j1 ends
""",
        make=shared,
    ),
    *(
        shared(
            f"a job is as fast as before after {order}: 3 of 10 are done by 6",
            f"{PAIR}; 6: {order} j1",
            f"{STARTED}; 6: j0 goes at 1, {seen}; 13: j0 ends",
        )
        for order, seen in (
            ("suspend", "j1 leaves, j1 is gone"),
            ("migrate", "j1 leaves, j1 is gone"),
            ("terminate", "j1 exits with 143"),
        )
    ),
    *cases(
        f"""
work beside a partner is kept when a job leaves
    {PAIR}; 6: suspend j0; 10: resume j0 on n1
    => {STARTED}; 6: j0 leaves, j0 is gone, j1 goes at 1; 10: j0 starts #2; 17: j0 ends #2;
       23: j1 ends
a partner counts from its launch though it starts slowly
    j0: 1 GPU; j1: 1 GPU; costs start_us=4; 0: launch j0; 6: launch j1
    => 4: j0 starts; 6: j0 goes at 0.5; 10: j1 starts at 0.5; 22: j0 ends, j1 goes at 1;
       26: j1 ends
a start is told with the speed of that instant
    j0: 1 GPU; j1: 1 GPU for 1; costs start_us=4; 0: launch j0, launch j1; 2: terminate j1
    => 2: j1 exits with 143; 4: j0 starts; 14: j0 ends
the partner of a job lost with another server speeds up
    j0: 1 GPU for 20; j1: 1 GPU for 40; n1 dies at 6; 0: launch j0, launch j1 on n0+n1
    => {STARTED}; 6: n1 dies, j1 is lost with 3, j0 goes at 1; 23: j0 ends
a pair in rounds of gangs ends with its slower half: one step until 4, two until 8
    j0: 1 GPU for 2, total_steps=1; j1: 1 GPU for 4, total_steps=2; {ROUNDS}; until 8;
    0: launch j0, launch j1
    => {STARTED}; 8: j0 ends, j1 ends, the round is over
the half left alone is faster from the next round on: three steps of five, at 2 each
    j0: 1 GPU for 2, total_steps=1; j1: 1 GPU for 10, total_steps=5; {ROUNDS};
    0: launch j0, launch j1
    => {STARTED}; 8: j0 ends, the round is over, j1 goes at 1; 14: j1 ends, the round is over
""",
        make=shared,
    ),
    *cases(
        """
nobody shares in a world without speeds
    j0: 1 GPU; j1: 1 GPU; 0: launch j0, launch j1
    => 10: j0 ends, j1 ends
""",
        None,
        make=shared,
    ),
]
NEIGHBOURS = [
    *cases(
        f"""
a job slows down while it has a neighbour: j0 has done 10 when that comes
    {RNNS}; 0: launch j0; 10: launch j1 on n0[1]
    => 0: j0 starts; 10: j0 goes at 0.5, j1 starts at 0.5; 30: j0 ends, j1 goes at 1; 40: j1 ends
only the model that suffers is slower
    {RNNS.replace("j1: 1 GPU for 20, model=rnn", "j1: 1 GPU for 20")};
    0: launch j0, launch j1 on n0[2]
    => 0: j0 starts at 0.8, j1 starts; 20: j1 ends, j0 goes at 1; 24: j0 ends
""",
        BESIDE,
    ),
    *(
        Case(
            f"a neighbour is none any more after {order}",
            f"{RNNS}; 0: launch j0, launch j1 on n0[1]; 10: {order} j1",
            f"{STARTED}; 10: j0 goes at 1, {seen}; 25: j0 ends",
            BESIDE,
        )
        for order, seen in (
            ("suspend", "j1 leaves, j1 is gone"),
            ("migrate", "j1 leaves, j1 is gone"),
            ("stop", "j1 stops"),
        )
    ),
    *(
        Case(
            f"a job {where} is no neighbour",
            f"{RNNS}; 0: launch j0, launch j1 on {place}",
            "0: j0 starts, j1 starts; 20: j0 ends, j1 ends",
            BESIDE,
        )
        for where, place in (("on another server", "n1[1]"), ("without GPUs", "n0[none]"))
    ),
]


@pytest.mark.parametrize("case", [*TABLE_OF_PAIRS, *NEIGHBOURS], ids=str)
def test_jobs_slow_each_other_down_as_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees
