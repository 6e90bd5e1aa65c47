"""`[policy.decentralised]`: what goes beside it, and what a run says of it."""

from pathlib import Path

import pytest

from shunter.config import policy_runtime
from shunter.core.planning import Extended
from shunter.core.ranking import RankedPolicy
from shunter.run import simulate
from tests.unit.app.config.texts import GENERATED, RATED, SIZED, loaded

PROPOSALS = "policy.decentralised={staleness='5s', reserve_after=3}"


def test_space_sharing_goes_beside_it(tmp_path: Path) -> None:
    settings = f"{PROPOSALS}; policy.name=gavel; policy.params.gavel.space_sharing=true"
    policy = policy_runtime(loaded(tmp_path, RATED, settings), instant=True).policy
    assert isinstance(policy, Extended)
    assert policy.extensions.scheme is not None


@pytest.mark.parametrize("mechanism", ["proportional", "greedy", "tune"])
def test_sizes_and_moves_go_beside_it(tmp_path: Path, mechanism: str) -> None:
    room = "policy.placement=topology; policy.topology.make_room.cost=5s"
    settings = f"{PROPOSALS}; policy.sizing={mechanism}; {room}"
    policy = policy_runtime(loaded(tmp_path, SIZED, settings), instant=True).policy
    assert isinstance(policy, RankedPolicy)
    assert policy.extensions.scheme is not None
    assert policy.sizing is not None
    assert policy.extensions.room is not None


def test_a_run_says_what_became_of_proposals(tmp_path: Path) -> None:
    jobs = "workload.generate={kind='philly-like', jobs=60, load=0.9, gpus_max=4}; log.url=none:"
    told = simulate(loaded(tmp_path, GENERATED, f"{jobs}; {PROPOSALS}")).document["proposals"]
    assert told["approved"] >= 60
    assert told["proposed"] == told["approved"] + told["rejected"]
    assert told["conflict_rate"] == told["conflicts"] / told["proposed"]
    assert told["approval_s"]["mean"] is not None
    assert "proposals" not in simulate(loaded(tmp_path, GENERATED, jobs)).document
