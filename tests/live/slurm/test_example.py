"""The live example on Slurm, in both modes: the backend of its config is another one, nothing else.

The scheduler is killed in the middle, and every loss is that of a run which nobody interrupted.
"""

from pathlib import Path

import pytest

from tests.live.slurm.bench import SlurmBench
from tests.live.training import EXAMPLES, LACKS_TORCH, plays_through

# Trains on the CPU: one at a time, beside other tests.
pytestmark = [pytest.mark.live, pytest.mark.slurm, pytest.mark.xdist_group("training")]

PATIENCE_S = 400


@pytest.mark.skipif(bool(LACKS_TORCH), reason=LACKS_TORCH)
@pytest.mark.rotating("mode", "policy", among="training example")
@pytest.mark.parametrize(
    ("mode", "policy"),
    [
        ("per-job", "tiresias"),
        ("pilot", "gavel"),
        pytest.param("pilot", "tiresias", marks=pytest.mark.thorough),
        pytest.param("per-job", "gavel", marks=pytest.mark.thorough),
    ],
)
def test_jobs_end_as_if_nobody_had_interrupted_them(
    policy: str, mode: str, scratch: Path, slurm: SlurmBench
) -> None:
    plays_through(
        "local",
        policy,
        scratch,
        PATIENCE_S,
        EXAMPLE_CLUSTER=str(EXAMPLES / "slurm" / "cluster.toml"),
        SLURM_CONF=str(slurm.conf),
        SHUNTER_BACKEND__SLURM__MODE=mode,
        SHUNTER_BACKEND__SLURM__LISTEN="127.0.0.1",
        SHUNTER_BACKEND__SLURM__ADDRESSES='["127.0.0.1"]',
    )
