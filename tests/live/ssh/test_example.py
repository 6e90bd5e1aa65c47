"""The live example over SSH, with both policies: real hosts, real PyTorch, a real kill -9."""

from pathlib import Path

import pytest

from tests.live.ssh.farm import LACKING
from tests.live.training import LACKS_TORCH, plays_through

pytestmark = [pytest.mark.live, pytest.mark.ssh, pytest.mark.xdist_group("training")]

PATIENCE_S = 800


@pytest.mark.skipif(bool(LACKS_TORCH), reason=LACKS_TORCH)
@pytest.mark.skipif(bool(LACKING), reason=LACKING)
@pytest.mark.rotating("policy", among="training example")
@pytest.mark.parametrize("policy", [pytest.param("tiresias", marks=pytest.mark.thorough), "gavel"])
def test_jobs_move_between_hosts_with_the_losses_of_undisturbed_runs(
    policy: str, scratch: Path
) -> None:
    """Goal: eight jobs finish through preemption, a lost host and a killed scheduler."""
    plays_through("ssh", policy, scratch, PATIENCE_S)
