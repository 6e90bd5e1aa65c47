"""The live example with every policy: real PyTorch, a real scheduler, a real kill -9."""

from pathlib import Path

import pytest

from tests.live.training import LACKS_TORCH, begun, plays_through

# Trains on the CPU: one at a time, beside other tests.
pytestmark = [pytest.mark.live, pytest.mark.xdist_group("training")]

POLICIES = (
    "tiresias",  # gavel over SSH and on Slurm
    *(pytest.param(name, marks=pytest.mark.thorough) for name in ("gavel", "fifo", "las", "srtf")),
)
PATIENCE_S = 400


@pytest.mark.skipif(bool(LACKS_TORCH), reason=LACKS_TORCH)
@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_end_as_if_nobody_had_interrupted_them(policy: str, scratch: Path) -> None:
    """Goal: eight jobs finish with the losses of undisturbed runs, and the log verifies."""
    plays_through("local", policy, scratch, PATIENCE_S)


@pytest.mark.parametrize("example", ["local", "ssh"])
def test_missing_pytorch_is_named_with_how_to_get_it(example: str, scratch: Path) -> None:
    (scratch / "torch.py").write_text("raise ImportError\n", encoding="utf-8")
    found = begun(example, "fifo", scratch, 60, PYTHONPATH=str(scratch))
    assert found.returncode == 1
    assert "PyTorch is missing" in found.stderr
    assert "make live" in found.stderr
    assert "does not train" not in found.stderr
    assert not sorted(scratch.glob("shunter-example.*"))
