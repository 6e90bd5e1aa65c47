"""A trace with a million blank lines between two jobs is read in time that grows with its size."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.inputs.test_hostile_inputs import CONFIG, GAVEL, MADE

JOB = "ResNet-18 (batch size 64)\tnone\tnone\t-s\t0\t5000\t1\t1\t-1\t0\n"
BLANKS = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with such a trace, and a config that names it."""
    (tmp_path / "j.trace").write_text(JOB + "\n" * BLANKS + JOB, encoding="utf-8")
    config = CONFIG.replace(MADE, GAVEL.format("j.trace") + '\nbase_type = "v100"')
    (tmp_path / "a.toml").write_text(config, encoding="utf-8")
    return tmp_path


def test_blank_lines_cost_no_more_than_they_are(folder: Path) -> None:
    """Method: the real command with 20 s of CPU; looking at the whole text for each takes more."""
    root = str(Path(__file__).parents[3])
    ran = subprocess.run(
        [sys.executable, "-m", "shunter", "simulate", "a.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20)),
    )
    assert ran.returncode == 0, (ran.returncode, ran.stderr[-500:])
    assert "2 submitted, 2 finished" in ran.stdout
    assert f"noted {BLANKS:,} rows: the line is blank" in ran.stderr
