"""The live example with every policy: real PyTorch, a real scheduler, a real kill -9."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

# Trains on the CPU: one at a time, beside other tests.
pytestmark = [pytest.mark.live, pytest.mark.xdist_group("training")]

EXAMPLE = Path(__file__).parents[3] / "examples" / "live" / "local" / "run.sh"
POLICIES = ("tiresias", "fifo", "las", "srtf", "gavel")
PATIENCE_S = 300
JOBS = 8

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed: make live does it"
)


@needs_torch
@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_end_as_if_nobody_had_interrupted_them(policy: str, scratch: Path) -> None:
    """Goal: eight jobs finish with the losses of undisturbed runs, and the log verifies.

    Method: run the script as its reader would, in a folder for its scratch files.
    """
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    ran = subprocess.run(
        [EXAMPLE, policy],
        env={"PATH": path, "TMPDIR": str(scratch), "HOME": str(scratch)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("the same, bit for bit") == JOBS
    assert f"term 2, policy {policy}" in ran.stdout
    assert f"jobs        {JOBS} submitted, {JOBS} finished" in ran.stdout
    assert "decided again, all identical" in ran.stdout
    assert not sorted(scratch.glob("shunter-example.*")), "a good run leaves nothing behind"
