"""The faults of the public Synergy simulator: mended in the product, there in the peer setting.

Each test states what is right. It passes on the corrected setting and must fail on the peer's.
"""

from collections.abc import Callable, Mapping, Sequence

import pytest

from shunter.core.planning import PLACEMENTS
from shunter.core.ranking import Index, Misfit, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import SpeedModel
from shunter.policies import FinishTimeFairness, SubmissionOrder
from shunter.workloads import TraceJob, builtin_sensitivity
from tests.factories import World, run, trace_job
from tests.peers.synergy.literal import MODELS, PeerJob
from tests.peers.synergy.played import SECOND_US, ends_s, peer_servers, play

ROUND_S = 300
INDEXES: Mapping[str, Index] = {
    "fifo": SubmissionOrder("fifo", Misfit.skipped),
    "ftf": FinishTimeFairness(),
}

Ends = Mapping[str, float]
Run = Callable[[Sequence[PeerJob], str, str], Ends]
"""Runs jobs on one server of 8 GPUs by an order and a mechanism; returns ends in seconds."""


def corrected(jobs: Sequence[PeerJob], order: str, mechanism: str) -> Ends:
    table, there = builtin_sensitivity().table, peer_servers(1)
    speeds = SpeedModel({each.node: each.configuration for each in there}, sensitivity=table)
    sizing = Sizing(Mechanism(mechanism), table)
    policy = RankedPolicy(INDEXES[order], PLACEMENTS["first_fit"](), sizing=sizing)
    world = World(
        servers=there,
        jobs=tuple(timed(job) for job in jobs),
        round_us=ROUND_S * SECOND_US,
        speeds=speeds,
    )
    outcome = run(world, policy)
    return {name: end_us / SECOND_US for name, end_us in outcome.ends_us().items()}


def timed(job: PeerJob) -> TraceJob:
    """Return a job with the time that its iterations take at its proportional share."""
    lasts_s = job.iterations * MODELS[job.model]["iter_time_s"]
    at_us, lasts_us = round(job.arrival * SECOND_US), round(lasts_s * SECOND_US)
    return trace_job(job.job_id, job.gpus, at=at_us, lasts=lasts_us, model=job.model)


def peer(jobs: Sequence[PeerJob], order: str, mechanism: str) -> Ends:
    return ends_s(play(jobs, 1, order=order, mechanism=mechanism))


settings = pytest.mark.parametrize(
    "played",
    [
        corrected,
        pytest.param(peer, marks=pytest.mark.xfail(strict=True, reason="a known fault")),
    ],
    ids=["corrected", "peer"],
)


@settings
def test_ftf_serves_the_job_worst_off_by_sharing_first(played: Run) -> None:
    """Method: both want the server; a few rounds of waiting are much of the short one's time."""
    long = PeerJob("long", "gnmt", 0.0, 100 * 2500, 8)
    jobs = [long, PeerJob("short", "gnmt", 10.0, 5 * 2500, 8)]

    ends = played(jobs, "ftf", "proportional")

    assert ends["short"] < ends["long"]


@settings
def test_gang_is_as_fast_as_the_profile_of_its_own_size_says(played: Run) -> None:
    """Method: alone on a server, 2 GPUs of alexnet find all they can use.

    Its profile of 2 GPUs has 2.33 at 9 CPUs a GPU and more; that of one GPU 2.94 at 12.
    """
    iterations = 100_000
    alone_s = iterations * MODELS["alexnet"]["iter_time_s"]

    ends = played([PeerJob("gang", "alexnet", 0.0, iterations, 2)], "fifo", "tune")

    assert ends["gang"] == pytest.approx(alone_s / 2.33, abs=2 * ROUND_S)


@settings
def test_job_that_arrives_when_the_cluster_has_been_idle_runs(played: Run) -> None:
    day_s = 86_400.0
    jobs = [PeerJob("early", "gnmt", 0.0, 100), PeerJob("late", "gnmt", day_s, 100)]

    ends = played(jobs, "fifo", "tune")

    assert ends.keys() == {"early", "late"}
