"""The port of the peer setting: small traces through the real backend."""

from typing import Any

import pytest

from shunter.backends.simulated import Lease, Progress, RoundEnds
from shunter.config import informed
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.errors import ConfigError
from shunter.events import AllocationChanged, GpuType, TargetsSet
from shunter.workloads import TraceJob
from shunter_peers.gavel import GavelPeer
from tests.factories import Outcome, World, node_added, run, trace_job

SECOND_US = 1_000_000
ROUND_US = 360 * SECOND_US
K80, V100 = GpuType("k80"), GpuType("v100")
KIND = JobKind("m", 1)
TABLE = ThroughputTable({V100: {KIND: 1.0}, K80: {KIND: 0.5}}, base_type=V100)


def job(name: int, steps: int, at_s: int = 0) -> TraceJob:
    return trace_job(
        name, at=at_s * SECOND_US, lasts=steps * SECOND_US, model="m", total_steps=steps
    )


def played(policy: str, *jobs: TraceJob) -> Outcome:
    nodes = (node_added("v", 1, gpu_type="v100"), node_added("k", 1, gpu_type="k80"))
    world = World(
        servers=nodes,
        jobs=jobs,
        round_us=ROUND_US,
        lease=Lease(Progress.whole_steps, round_ends=RoundEnds.last_gang, round_us=ROUND_US),
        speeds=SpeedModel({node.node: node.configuration for node in nodes}, {}, TABLE),
        backend_rounds=True,
    )
    return run(world, informed(peer(policy), TABLE))


def peer(policy: str) -> Any:
    params = GavelPeer.Params.model_validate({"policy": policy})
    return GavelPeer.build(params, PLACEMENTS["first_fit"]())


def ends_s(outcome: Outcome) -> dict[str, float]:
    return {name: end_us / SECOND_US for name, end_us in outcome.ends_us().items()}


def test_first_job_has_the_fastest_gpu_to_its_end() -> None:
    outcome = played("fifo_perf", job(0, 700), job(1, 500))

    assert ends_s(outcome) == {"j0": 700.0, "j1": pytest.approx(860.0)}


def test_jobs_that_share_two_types_equally_change_places() -> None:
    outcome = played("isolated", job(0, 900), job(1, 900))

    assert outcome.ended.keys() == {"j0", "j1"}
    nodes = {change.allocation.shares[0].node for change in changes_of(outcome, "j0")}
    assert nodes == {"v", "k"}


def changes_of(outcome: Outcome, name: str) -> list[Any]:
    return [
        event
        for event in outcome.of(AllocationChanged)
        if event.job_id == name and event.allocation.shares
    ]


def test_targets_are_recorded_when_they_are_computed() -> None:
    first = played("isolated", job(0, 100), job(1, 100)).of(TargetsSet)[0]

    shares = {(*target.jobs, target.gpu_type): target.fraction for target in first.targets}
    assert shares == {(name, kind): 0.5 for name in ("j0", "j1") for kind in (K80, V100)}


def test_job_that_comes_between_two_computations_waits() -> None:
    """One at 361 s sees the round at 720 s, and the computation due is that after 1920 s."""
    outcome = played("isolated", job(0, 5000), job(1, 10, at_s=361), job(2, 10, at_s=800))

    assert ends_s(outcome)["j2"] > 1920


def test_job_left_waiting_when_all_others_have_gone_still_runs() -> None:
    outcome = played("isolated", job(0, 400), job(1, 10, at_s=370), job(2, 10, at_s=380))

    assert outcome.ended.keys() == {"j0", "j1", "j2"}


def test_policy_without_a_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="gavel_peer needs a table"):
        informed(peer("isolated"), None)


def test_circle_at_one_instant_plays_no_round_twice() -> None:
    outcome = played("isolated", job(0, 900), job(1, 900))

    starts = changes_of(outcome, "j0") + changes_of(outcome, "j1")
    assert len({(event.at_us, event.job_id) for event in starts}) == len(starts)
