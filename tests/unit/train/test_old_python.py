"""The SDK runs in the Python of training scripts, which is often older than ours."""

import subprocess
from pathlib import Path

import pytest

from tests.unit.backends.node.test_bundle import PYTHONS
from tests.unit.train.test_run import SCRIPT
from tests.unit.train.toy import Supervisor

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "shunter" / "train").rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.live
@pytest.mark.parametrize("python", PYTHONS)
def test_every_module_of_the_sdk_can_be_imported(python: str) -> None:
    program = "; ".join(f"import {module_of(path)}" for path in MODULES)
    ran = subprocess.run(
        [python, "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.live
@pytest.mark.parametrize("python", PYTHONS)
def test_training_job_saves_and_leaves(tmp_path: Path, python: str) -> None:
    with Supervisor(tmp_path / "attempt") as supervisor:
        supervisor.ask()
        ran = subprocess.run(
            [python, "-S", "-c", SCRIPT, "6"],
            env={**supervisor.environment(tmp_path / "store"), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 75, ran.stderr
        assert supervisor.told("saved")
