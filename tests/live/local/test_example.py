"""The live example with every policy: real PyTorch, a real scheduler, a real kill -9."""

import re
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
@pytest.mark.rotating("policy", among="training example")
@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_end_as_if_nobody_had_interrupted_them(policy: str, scratch: Path) -> None:
    """Goal: eight jobs finish with the losses of undisturbed runs, and the log verifies."""
    plays_through("local", policy, scratch, PATIENCE_S)


@pytest.mark.skipif(bool(LACKS_TORCH), reason=LACKS_TORCH)
@pytest.mark.rotating(among="training example")
def test_search_finds_its_winner_though_it_and_the_scheduler_are_killed(scratch: Path) -> None:
    """Goal: the winner of an undisturbed search, eight jobs, and a log that verifies."""
    ran = begun("search", "las", scratch, PATIENCE_S)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    winners = re.findall(r"^winner: .*", ran.stdout, re.MULTILINE)
    assert len(winners) == 2
    assert winners[0] == winners[1]
    assert "term 3, policy las" in ran.stdout
    assert re.search(r"^8 jobs: .*\d finished; ", ran.stderr, re.MULTILINE), ran.stderr
    assert "decided again, all identical" in ran.stdout
    assert not sorted(scratch.glob("shunter-example.*")), "a good run leaves nothing behind"


@pytest.mark.parametrize("example", ["local", "ssh", "search"])
def test_missing_pytorch_is_named_with_how_to_get_it(example: str, scratch: Path) -> None:
    (scratch / "torch.py").write_text("raise ImportError\n", encoding="utf-8")
    found = begun(example, "fifo", scratch, 60, PYTHONPATH=str(scratch))
    assert found.returncode == 1
    assert "PyTorch is missing" in found.stderr
    assert "make live" in found.stderr
    assert "does not train" not in found.stderr
    assert not sorted(scratch.glob("shunter-example.*"))
