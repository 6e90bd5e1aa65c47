"""A loop of the script's own, over whatever it may take batches from: exact, or refused at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make live does it")

from tests.live.train.attempts import attempts, undisturbed
from tests.live.train.programs import LOOP

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("loops")]

IN_CI = ["workers", "zip of named", "tqdm", "generator", "drawn in a data set"]
MORE = [
    "plain",
    "own generator",
    "stateful",
    "iterable",
    "iterable with workers",
    "enumerate",
    "map",
    "tqdm around",
    "drawn in a data set with workers",
    "drawn in a sampler",
    "drawn in a collator",
]
THOROUGH = pytest.mark.thorough
REFUSED = {
    "zip": "ValueError: run.batches is asked for two loaders at a time: name each",
    "zip within": "as in `zip(..., run.batches(loader))`",
    "enumerate within": "as in `enumerate(..., run.batches(loader))`",
    "map within": "as in `map(..., run.batches(loader))`",
    "iterator within": "iterate over run.batches(loader)",
    "tqdm of enumerate": "as in `enumerate(..., run.batches(loader))`",
    "generator expression": "iterate over run.batches(loader)",
}


@pytest.mark.rotating("kind")
@pytest.mark.parametrize("kind", [*IN_CI, *(pytest.param(kind, marks=THOROUGH) for kind in MORE)])
def test_losses_and_order_are_those_of_an_undisturbed_run(tmp_path: Path, kind: str) -> None:
    if kind == "stateful":
        pytest.importorskip("torchdata", reason="torchdata is not installed")
    expected = undisturbed(tmp_path / "whole", "torch", LOOP, kind)
    found = attempts(tmp_path / "cut", "torch", LOOP, kind, stops=(2, 9))
    assert len(expected) >= 18
    assert found == expected


@THOROUGH
@pytest.mark.parametrize("kind", list(REFUSED))
def test_what_could_not_go_on_is_refused_at_the_first_call(tmp_path: Path, kind: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOOP, kind],
        env={**os.environ, "SEED": "1", "STOP_AT": "0"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert REFUSED[kind] in ran.stderr
    assert "step" not in ran.stdout
