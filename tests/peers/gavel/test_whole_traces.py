"""In the peer setting of Gavel every job ends when the literal simulator says, or is dropped there.

Method: small random traces with the table that Shunter ships, whose rates of three digits make
whole steps that lie just above or below a round, through a literal simulator and through Shunter.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, strategies as st

from tests.peers.gavel_inputs import GavelJob
from tests.peers.gavel_played import builtin_table, play_gavel, play_gavel_literally
from tests.slices import searched

CLUSTERS = ({"v100": (2, 4)}, {"v100": (1, 1), "p100": (1, 1), "k80": (1, 1)}, {"k80": (1, 2)})
MODELS = sorted(
    {kind.split("'")[1] for kind in builtin_table().rows["v100"] if kind.endswith(" 2)")}
)


@st.composite
def traces(draw: st.DrawFn) -> list[GavelJob]:
    """Return jobs of some rounds each, many of them gangs that end on a step or two."""
    found: list[GavelJob] = []
    at_s = 0.0
    for number in range(draw(st.integers(1, 8))):
        model, gpus = draw(st.sampled_from(MODELS)), draw(st.sampled_from([1, 1, 2, 4, 8]))
        rate = builtin_table().rows["v100"][f"('{model}', {gpus})"]["null"]
        rounds = draw(st.sampled_from([0, 0, 1, 2, 3]))
        steps = rounds * int(rate * 360) + draw(st.integers(1, 12))
        found.append(GavelJob(number, model, gpus, steps, 1.0, at_s))
        at_s += draw(st.sampled_from([0.0, 0.5, 1.0, 361.0, 2664.009]))
    return found


def check(jobs: list[GavelJob], gpus: dict[str, tuple[int, int]], policy: str) -> None:
    widest = max(servers * each for servers, each in gpus.values())
    jobs = [job for job in jobs if job.gpus <= widest]
    jobs = [GavelJob(n, j.model, j.gpus, j.steps, 1.0, j.arrival_s) for n, j in enumerate(jobs)]
    if not jobs:
        return
    expected = play_gavel_literally(jobs, gpus, policy)
    with TemporaryDirectory() as folder:
        result = play_gavel(jobs, gpus, policy, Path(folder))
    found = {
        story.ordinal: None if story.jct_us is None else story.jct_us / 1e6
        for story in result.stories()
    }
    assert found.keys() == expected.keys()
    for number, jct_s in expected.items():
        if jct_s is None:
            assert found[number] is None
        else:
            assert found[number] == pytest.approx(jct_s, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("policy", ["fifo_perf", "isolated", "fifo_packed", "gandiva"])
@searched(40)
@given(jobs=traces(), gpus=st.sampled_from(CLUSTERS))
def test_every_job_ends_when_the_gavel_peer_says(
    policy: str, jobs: list[GavelJob], gpus: dict[str, tuple[int, int]]
) -> None:
    check(jobs, gpus, policy)


def test_gang_whose_every_round_fails_is_dropped_and_the_next_job_runs() -> None:
    """Five rounds of six steps on eight GPUs fail; the world goes on with the other job."""
    model = "ResNet-18 (batch size 64)"
    jobs = [GavelJob(0, model, 8, 6, 1.0, 0.0), GavelJob(1, model, 1, 100000, 1.0, 1.0)]

    check(jobs, {"v100": (2, 4)}, "fifo_perf")


def test_whole_steps_of_rounded_rates_are_counted_alike() -> None:
    jobs = [
        GavelJob(0, "ResNet-50 (batch size 32)", 1, 25259, 1.0, 0.0),
        GavelJob(1, "Transformer (batch size 16)", 1, 851576, 1.0, 2664.009),
    ]

    check(jobs, {"v100": (1, 1), "p100": (1, 1), "k80": (1, 1)}, "fifo_perf")
