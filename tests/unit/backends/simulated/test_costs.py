"""What launching, leaving, moving and checkpoints cost: instants worked out by hand."""

import pytest

from shunter.backends.simulated import Costs, transfer_us, transfers_us
from tests.unit.backends.simulated.driving import Case, cases

COSTS = "costs start_us=3, suspend_us=2, resume_us=5, migrate_us=7"
TEN = f"{COSTS}; j0: 1 GPU for 10; until 50; 0: launch j0"
WIDE = TEN.replace("launch j0", "launch j0 on n0+n1")
STARTED = "3: j0 starts"
LEFT = f"{STARTED}; 7: j0 leaves; 9: j0 is gone"
SIZE = "j0: 1 GPU for 10; until 50; 0: launch j0"


TABLE = [
    *cases(f"""
work begins when the start is over
    {TEN}
    => {STARTED}; 13: j0 ends
suspending stops work at once and frees GPUs later
    {TEN}; 7: suspend j0
    => {LEFT}
coming back costs 5, and of 10 there are 6 left: it worked from 3 to 7
    {TEN}; 7: suspend j0; 20: resume j0
    => {LEFT}; 25: j0 starts #2; 31: j0 ends #2
coming back on other GPUs costs 7
    {TEN}; 7: suspend j0; 20: resume j0 on n1
    => {LEFT}; 27: j0 starts #2; 33: j0 ends #2
and so on more servers than before
    {TEN}; 7: suspend j0; 20: resume j0 on n0+n1
    => {LEFT}; 27: j0 starts #2; 33: j0 ends #2
which is what coming back costs anywhere, unless it is said
    {TEN.replace(COSTS, "costs start_us=3, resume_us=5")}; 7: suspend j0; 20: resume j0 on n1
    => {STARTED}; 7: j0 leaves, j0 is gone; 25: j0 starts #2; 31: j0 ends #2
one that moves pays to move instead of to resume
    {WIDE}; 7: migrate j0 on n1; 9: resume j0 on n1
    => {LEFT}; 16: j0 starts from n0 from n1 #2; 22: j0 ends #2
a move is paid once: 4 of 10 by 7, 2 more by 18
    {TEN}; 7: migrate j0 on n1; 9: resume j0 on n1; 18: suspend j0; 20: resume j0 on n1
    => {LEFT}; 16: j0 starts from n0 #2; 18: j0 leaves #2; 20: j0 is gone #2; 25: j0 starts #3;
       29: j0 ends #3
a move that becomes a suspension is still a move when it comes back, whenever that is
    {TEN}; 7: migrate j0 on n1; 30: resume j0
    => {LEFT}; 37: j0 starts from n0 #2; 43: j0 ends #2
a move that takes no time is observed all the same
    {TEN.replace(COSTS, "costs start_us=3")}; 7: migrate j0 on n1, resume j0 on n1
    => {STARTED}; 7: j0 leaves, j0 is gone, j0 starts from n0 #2; 13: j0 ends #2
one suspended while it starts has nothing to save, is gone at once, and comes back as from a
checkpoint with all its work to do
    {TEN}; 2: suspend j0; 20: resume j0
    => 2: j0 leaves, j0 is gone; 25: j0 starts #2; 35: j0 ends #2
one suspended as its start is over saves its state
    {TEN}; 3: suspend j0
    => 3: j0 starts, j0 leaves; 5: j0 is gone
work done before is kept by one suspended while it resumes: 4 of 10 by 7, nothing since
    {TEN}; 7: suspend j0; 10: resume j0; 14: suspend j0; 20: resume j0
    => {LEFT}; 14: j0 leaves #2, j0 is gone #2; 25: j0 starts #3; 31: j0 ends #3
termination costs nothing
    {TEN}; 7: terminate j0
    => {STARTED}; 7: j0 exits with 143
one terminated while it starts is never seen to start
    {TEN}; 1: terminate j0
    => 1: j0 exits with 143
one terminated while it leaves goes on leaving and never exits
    {TEN}; 7: suspend j0; 8: terminate j0
    => {LEFT}
one that fails does so when its work is over, not its time
    {TEN.replace("for 10", "for 10, ends=failed")}; 7: suspend j0; 9: resume j0
    => {LEFT}; 14: j0 starts #2; 20: j0 exits with 1 #2
a job pays for itself only
    {COSTS}; j0: 1 GPU for 10; j1: 1 GPU for 20; 0: launch j0, launch j1 on n1; 7: suspend j0
    => 3: j0 starts, j1 starts; 7: j0 leaves; 9: j0 is gone; 23: j1 ends
a checkpoint is written on the way out, and read on the way in, not at first
    costs start_us=3, suspend_us=2, resume_us=5, checkpoint_us=4; {SIZE}; 7: suspend j0;
    20: resume j0
    => {STARTED}; 7: j0 leaves; 13: j0 is gone; 29: j0 starts #2; 35: j0 ends #2
a move writes and reads as well
    costs suspend_us=2, resume_us=5, migrate_us=7, checkpoint_us=4; {SIZE}; 4: migrate j0 on n1;
    10: resume j0 on n1
    => 0: j0 starts; 4: j0 leaves; 10: j0 is gone; 21: j0 starts from n0 #2; 27: j0 ends #2
a size alone makes a world that takes time
    costs checkpoint_us=4; {SIZE}; 6: suspend j0
    => 0: j0 starts; 6: j0 leaves; 10: j0 is gone
one suspended while it starts writes nothing, and reads when it comes back
    costs start_us=3, checkpoint_us=4; {SIZE}; 2: suspend j0; 20: resume j0
    => 2: j0 leaves, j0 is gone; 24: j0 starts #2; 34: j0 ends #2
"""),
    *(
        Case(
            f"a checkpoint of {model} takes its own time",
            f"costs checkpoint_us=4, by_model=resnet50:0+vgg16:9; "
            f"{SIZE.replace('for 10', f'for 10, model={model}')}; 6: suspend j0",
            f"0: j0 starts; 6: j0 leaves{'; ' if free_us > 6 else ', '}{at}j0 is gone",
        )
        for model, free_us, at in (("vgg16", 15, "15: "), ("resnet50", 6, ""), ("x", 10, "10: "))
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_pay_what_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees


@pytest.mark.parametrize(
    ("size_mb", "bandwidth_mb_s", "expected_us"),
    [
        (500, 200, 2_500_000),
        (526.8, 200, 2_634_000),
        (0, 200, 0),
        (0.3, 0.1, 3_000_000),  # of floats it would be one microsecond more
        (1, 3, 333_334),  # the last byte is through within the 333,334th microsecond
        (1e-9, 1000, 1),
        (4e6, 0.5, 8_000_000_000_000),
    ],
)
def test_a_transfer_takes_size_over_bandwidth_rounded_up(
    size_mb: float, bandwidth_mb_s: float, expected_us: int
) -> None:
    assert transfer_us(size_mb, bandwidth_mb_s) == expected_us


def test_each_model_has_its_own_time() -> None:
    times = transfers_us({"vgg16": 526.8, "resnet50": 80.6}, 100)
    assert times == (("resnet50", 806_000), ("vgg16", 5_268_000))


@pytest.mark.parametrize(
    ("costs", "none"),
    [
        (Costs(by_model=(("resnet50", 0),)), True),
        (Costs(by_model=(("resnet50", 1),)), False),
        (Costs(checkpoint_us=1), False),
    ],
    ids=str,
)
def test_no_size_is_no_cost(costs: Costs, none: bool) -> None:
    assert costs.are_none is none
