"""Jobs get other CPUs and memory while everything fails that can: `tune` over a whole daemon.

Goal: what the log says of shares is what servers were told, and no server gives what it has not.
Method: the runs of `test_combined_faults`, in which whoever comes or goes changes the shares of
others, so that links, agents, supervisors and the daemon fail in the middle of that.
"""

from collections.abc import Sequence

import pytest

from shunter.core import State
from shunter.core.fold import apply
from shunter.core.planning import Consolidated
from shunter.core.ranking import RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import Sensitivity, SensitivityTable
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    Event,
    JobId,
    JobReshaped,
    NodeName,
    ReshapeRefused,
    Resources,
)
from shunter.policies import las
from tests.faults.nodes.cluster import Cluster
from tests.faults.nodes.test_combined_faults import BOUNDS, played

MORE = [pytest.mark.live, pytest.mark.thorough]
SEEDS = (*range(4), *(pytest.param(seed, marks=MORE) for seed in range(4, 54)))
JOBS = 30
BESIDE = Resources(0, 3000, 30_000)
HUNGRY = Sensitivity((1000, 3000, 6000), (10_000, 30_000), ((0.4, 0.4), (1.0, 1.0), (1.8, 1.8)))
FRUGAL = Sensitivity((1000, 3000), (10_000, 30_000), ((1.0, 1.0), (1.0, 1.0)))
TABLE = SensitivityTable({"hungry": {1: HUNGRY}, "frugal": {1: FRUGAL}}, BESIDE)


def tuned(seed: int) -> Cluster:
    """Return a cluster with sized jobs after these have come to their ends."""
    index, sizing = las.AttainedService(BOUNDS), Sizing(Mechanism.tune, TABLE)
    chosen = RankedPolicy(index, Consolidated(), sizing=sizing)
    return played(seed, chosen, ("hungry", "frugal"), BESIDE, JOBS)


@pytest.mark.rotating("seed")
@pytest.mark.parametrize("seed", SEEDS)
def test_servers_were_told_what_the_log_says(seed: int) -> None:
    cluster = tuned(seed)
    cluster.check()
    said = last_shares(cluster.log)
    lost = {
        (event.job_id, event.attempt) for event in cluster.log if isinstance(event, AttemptLost)
    }
    told = 0
    for node in cluster.nodes:
        for run in node.runs:
            key = JobId(run.job), run.attempt
            if key in lost or key not in said:
                continue  # nobody could tell its servers, or none of its starts was heard of
            at_us, shares = said[key]
            assert run.ended_ns is not None
            assert run.shares is not None
            if at_us < cluster.at_us(run.ended_ns):
                assert (run.shares.cpus_milli, run.shares.memory_mb) == shares[node.name], run
                told += 1
    reshapes = sum(isinstance(event, JobReshaped) for event in cluster.log)
    assert reshapes >= 5
    assert told >= JOBS / 2


def last_shares(
    log: Sequence[Event],
) -> dict[tuple[JobId, int], tuple[int, dict[NodeName, tuple[int, int]]]]:
    """Return what each attempt had last, and since when; no server has given more than it has."""
    state, found = State(), {}
    for event in log:
        apply(state, event)
        for server in state.cluster.servers.values():
            free = server.beside_free
            assert free.cpus_milli >= 0, f"{server.name} after {event}"
            assert free.memory_mb >= 0, f"{server.name} after {event}"
        if isinstance(event, AttemptStarted | JobReshaped | ReshapeRefused):
            job = state.jobs[event.job_id]
            # One that is to leave while it starts has been given another place, or none.
            shares = {share.node: (share.cpus_milli, share.memory_mb) for share in job.held.shares}
            if shares:
                found[job.job_id, job.attempt] = state.now_us, shares
    return found
