"""The policy of "write a policy that is no index" does what its page says of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, page_of

PAGE = ROOT / "docs/how-to/write-a-policy-of-your-own.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page, and an entry point as pip would install it."""
    work = tmp_path_factory.mktemp("lottery")
    for block in page_of(PAGE, PAGE.read_text(encoding="utf-8")).blocks:
        if block.file:
            (work / block.file).write_text(block.text, encoding="utf-8")
    installed = work / "shunter_lottery-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: shunter-lottery\nVersion: 1.0\n"
    )
    points = "[shunter.policies]\nlottery = shunter_lottery:Lottery\n"
    (installed / "entry_points.txt").write_text(points)
    return work


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "shunter", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("quantum", "preempts"), [("10m", True), ("1000h", False)])
def test_jobs_leave_once_a_quantum_only(folder: Path, quantum: str, preempts: bool) -> None:
    chosen = f"policy.params.lottery.quantum={quantum}"
    found = json.loads(
        run(folder, "simulate", "lab.toml", "--policy", "lottery", "--set", chosen, "--json")
    )
    assert found["jobs"]["finished"] == 200
    assert (found["preemptions"] > 0) is preempts


def test_it_is_listed_by_what_it_does(folder: Path) -> None:
    assert "every quantum jobs draw" in " ".join(run(folder, "policy", "list").split())
