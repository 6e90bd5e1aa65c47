"""Gangs of another size than was submitted: the same work, by hand."""

import pytest

from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.events import GpuType
from tests.factories import configuration, node_name
from tests.unit.backends.simulated.driving import Case, cases

NODES = {node_name(0): configuration(8), node_name(1): configuration(8)}
RATES = {JobKind("resnet", 2): 10.0, JobKind("resnet", 4): 15.0}
TABLE = ThroughputTable({GpuType("v100"): RATES}, base_type=GpuType("v100"))
PLAIN, BY_TABLE = SpeedModel(NODES), SpeedModel(NODES, throughput=TABLE)
J0 = "j0: 2 GPUs for 100, gpus_min=1, gpus_max=8"

CASES = [
    *cases(
        f"""
one GPU takes twice the time of the two that were submitted
    {J0}; 0: launch j0 on n0
    => 0: j0 starts at 0.5; 200: j0 ends
two take it
    {J0}; 0: launch j0 on n0[0-1]
    => 0: j0 starts; 100: j0 ends
three take two thirds
    {J0}; 0: launch j0 on n0[0-2]
    => 0: j0 starts at 1.5; 67: j0 ends
eight a quarter
    {J0}; 0: launch j0 on n0[0-7]
    => 0: j0 starts at 4; 25: j0 ends
work done with one size is done for the next: of 60 left four do half each
    {J0}; costs suspend_us=3, migrate_us=7; 0: launch j0 on n0[0-1]; 40: suspend j0;
    43: resume j0 on n0[0-3]
    => 0: j0 starts; 40: j0 leaves; 43: j0 is gone; 50: j0 starts at 2 #2; 80: j0 ends #2
distance counts for the gang that it has: half as fast over two servers, with twice the GPUs
    {J0}, tolerance=server:1+cluster:0.5; 0: launch j0 on n0[0-1]+n1[0-1]
    => 0: j0 starts; 100: j0 ends
samples tell the mini-batches of the size that it has: two steps of the submitted one in one
    {J0}, total_steps=50; samples every_us=15; 0: launch j0 on n0[0-3]; until 20
    => 0: j0 starts at 2; 15: j0 tells step 15 with 1e-06 s a step
""",
        PLAIN,
    ),
    *cases(
        f"""
a table that knows both sizes says how much faster one is
    {J0}, model=resnet; 0: launch j0 on n0[0-3]; until 0
    => 0: j0 starts at 1.5
and nothing of one that is not in it
    {J0}, model=resnet; 0: launch j0 on n0[0-7]; until 0
    => 0: j0 starts at 4
""",
        BY_TABLE,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gangs_are_as_fast_as_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees
