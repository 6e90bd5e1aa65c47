"""What the simulated world measures of jobs, against what is true of them."""

from math import log
from statistics import fmean, stdev

import pytest

from shunter.backends.simulated import Samples, SimulatedBackend
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.events import GpuType, ProfileSampled, Sharing
from tests.factories import configuration, node_name, trace_job
from tests.unit.backends.simulated.driving import Case, Hand, cases, launch

S = 1_000_000
V100 = GpuType("v100")
NODES = {node_name(0): configuration(4)}
LIGHT, HEAVY = JobKind("light", 1), JobKind("heavy", 1)
TABLE = ThroughputTable(
    {V100: {LIGHT: 4.0, HEAVY: 2.0}},
    {V100: {(LIGHT, HEAVY): (1.0, 1.0), (HEAVY, LIGHT): (1.0, 1.0)}},
    V100,
)
RATES = SpeedModel(NODES, throughput=TABLE)
FIFTY = "j0: 1 GPU for 100, total_steps=50; 0: launch j0"
EACH_TEN = f"samples every_us=10; {FIFTY}"


def tells(*at_us: int, attempt: str = "", worked: int = 0, step_us: float = 2.0) -> str:
    """Return the samples of a job with steps of a length, that has worked so much less."""
    each = f"with {step_us / S:g} s a step{attempt}"
    return "; ".join(f"{at}: j0 tells step {int((at - worked) / step_us)} {each}" for at in at_us)


ROWS = [
    *cases(f"""
steps and their time are measured until the end
    {EACH_TEN}
    => {tells(*range(10, 100, 10))}; 100: j0 ends
nothing is measured unless asked
    {FIFTY}
    => 100: j0 ends
nothing of jobs without steps
    samples every_us=10; j0: 1 GPU for 100; 0: launch j0
    => 100: j0 ends
an attempt is measured from its own start, goes on counting, and ends when it would
    {EACH_TEN}; 34: suspend j0; 40: resume j0
    => {tells(10, 20, 30)}; {tells(50, 60, 70, 80, 90, 100, attempt=" #2", worked=6)};
       106: j0 ends #2
one that is stopped is measured again once it goes on
    {EACH_TEN}; 12: stop j0; 45: continue j0; until 70
    => {tells(10)}; 12: j0 stops; 45: j0 goes on; {tells(55, 65, worked=33)}
one that stands for a moment is not measured twice as often
    {EACH_TEN}; 12: stop j0; 13: continue j0; until 50
    => {tells(10)}; 12: j0 stops; 13: j0 goes on; {tells(23, 33, 43, worked=1)}
"""),
    *(
        Case(
            f"measured time follows the speed {speed:g}",
            f"{EACH_TEN}; until 20",
            f"0: j0 starts at {speed:g}; {tells(10, 20, step_us=2 / speed)}",
            SpeedModel(NODES, {V100: speed}),
        )
        for speed in (0.5, 4.0)
    ),
    *cases(
        f"""
measured time is that of the table
    samples every_us=10s; j0: 1 GPU for 100s, total_steps=400, model=light; 0: launch j0;
    until {10 * S}
    => 0: j0 starts; {10 * S}: j0 tells step 40 with 0.25 s a step
""",
        RATES,
    ),
    *cases(
        f"""
a job without steps is measured by the table, and beside another one
    samples every_us=10s; j0: 1 GPU for 100s, model=light; j1: 1 GPU for 100s, model=heavy;
    j2: 1 GPU for 100s, model=strange; 0: launch j0, launch j2 on n0[1]; {5 * S}: launch j1;
    until {15 * S}
    => 0: j0 starts, j2 starts; {5 * S}: j0 goes at 0.25, j1 starts at 0.5;
       {10 * S}: j0 tells 1 s a step; {15 * S}: j1 tells 1 s a step
""",
        RATES,
        Sharing.packed,
    ),
]


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_jobs_tell_what_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees


def test_noise_is_as_large_as_asked_and_hangs_on_seed_job_and_instant_alone() -> None:
    found = []
    for seed in (1, 1, 2):
        job = trace_job(0, lasts=20_000 * S, total_steps=10_000)
        noisy = Samples(every_us=10 * S, noise=0.1, seed=seed)
        world = Hand(SimulatedBackend([job], samples=noisy))
        world.until(0)
        world.orders(launch())
        seen = [one for one in world.until(20_000 * S) if isinstance(one, ProfileSampled)]
        found.append([one.batch_s for one in seen if one.batch_s])
    assert found[0] == found[1] != found[2]
    errors = [log(batch_s / 2.0) for batch_s in found[0]]
    assert len(errors) == 1999
    # Three standard errors of the mean and of the deviation of so many.
    assert abs(fmean(errors)) < 3 * 0.1 / 1999**0.5
    assert stdev(errors) == pytest.approx(0.1, rel=3 / (2 * 1999) ** 0.5)
