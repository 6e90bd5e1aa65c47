"""The live example over SSH, with both policies: real hosts, real PyTorch, a real kill -9."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.ssh.farm import LACKING

pytestmark = [pytest.mark.live, pytest.mark.ssh, pytest.mark.xdist_group("training")]

EXAMPLE = Path(__file__).parents[3] / "examples" / "live" / "ssh" / "run.sh"
PATIENCE_S = 500
JOBS = 8
HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed: make live does it")
@pytest.mark.skipif(bool(LACKING), reason=LACKING)
@pytest.mark.parametrize("policy", ["tiresias", "gavel"])
def test_jobs_move_between_hosts_with_the_losses_of_undisturbed_runs(
    policy: str, scratch: Path
) -> None:
    """Goal: eight jobs finish through preemption, a lost host and a killed scheduler.

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
