"""`make demo` says what it is doing before each step that takes a while."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_every_installation_is_announced(tmp_path: Path) -> None:
    """Method: what make would run in a folder without an environment."""
    ran = subprocess.run(
        [
            "make",
            "--dry-run",
            "--no-print-directory",
            "demo",
            f"VENV={tmp_path}/venv",
            "PYTHON=python3",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    steps = ran.stdout.replace("\\\n", " ").splitlines()
    slow = [n for n, step in enumerate(steps) if " -m venv " in step or " install " in step[:200]]
    slow = [n for n in slow if not steps[n].startswith(("echo", "python3 -c", "test"))]
    assert len(slow) == 3, steps
    for number in slow:
        assert steps[number - 1].startswith("echo "), steps[number]
    assert steps[-1].endswith("shunter demo --folder build/demo")
