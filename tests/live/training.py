"""The live examples, run as their reader would run them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

__all__ = ["EXAMPLES", "LACKS_TORCH", "begun", "plays_through"]

EXAMPLES = Path(__file__).parents[2] / "examples" / "live"
LACKS_TORCH = (
    "" if importlib.util.find_spec("torch") else "torch is not installed: make live does it"
)
JOBS = 8


def plays_through(
    example: str, policy: str, scratch: Path, patience_s: int, **variables: str
) -> None:
    """Run an example with a policy, in a folder for its scratch files, and check what it says.

    All jobs finish with the losses of undisturbed runs, a second scheduler finds them, the log
    verifies, and a good run leaves nothing behind.
    """
    ran = begun(example, policy, scratch, patience_s, **variables)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("the same, bit for bit") == JOBS
    assert f"term 2, policy {policy}" in ran.stdout, "it was started at least once more"
    assert f"{JOBS} submitted, {JOBS} finished" in ran.stdout
    assert "decided again, all identical" in ran.stdout
    assert not sorted(scratch.glob("shunter-example.*")), "a good run leaves nothing behind"


def begun(
    example: str, policy: str, scratch: Path, patience_s: int, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run an example to its end, with more variables in its environment."""
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    return subprocess.run(
        [EXAMPLES / example / "run.sh", policy],
        env={"PATH": path, "TMPDIR": str(scratch), "HOME": str(scratch), **variables},
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
