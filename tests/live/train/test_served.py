"""Training jobs that a real scheduler preempts and suspends: exact, or refused at once.

Libraries that are in no lock file (keras, jax, orbax-checkpoint, torchdata) may
lie in a folder of their own, which `PYTHONPATH` names; `SHUNTER_THOROUGH=1` tries them all.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make live does it")

from tests.live.train.attempts import OFFLINE, undisturbed
from tests.live.train.programs import LIGHTNING, LOOP, of_how_to
from tests.live.train.served import GPUS, STOPS, Outcome, Preempting, Program, outcomes
from tests.live.train.test_loops import IN_CI, MORE, REFUSED

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("served")]

THOROUGH = pytest.mark.thorough
HOW_TO: Mapping[str, str] = {
    "how-to": "DataLoader",
    "keras on torch": "keras",
    "keras on jax": "keras",
    "orbax": "orbax",
}
"""Programs of the how-to, and the library by which each is found there."""
ASYNC = "AsyncCheckpointIO with 120 MB"
GATE = ["workers", ASYNC, "how-to", "zip within"]
"""What is tried in turn, one at each commit; the rest is thorough."""
NEEDS = {
    **HOW_TO,
    "how-to": "torch",
    "keras on jax": "jax",
    "stateful": "torchdata",
    ASYNC: "lightning",
}


def program_of(kind: str) -> Program:
    if kind == ASYNC:
        return Program(LIGHTNING, ('{"megabytes": 120}',))
    if kind not in HOW_TO:
        return Program(LOOP, (kind,))
    text = of_how_to(HOW_TO[kind])
    backend = kind.removeprefix("keras on ")
    return Program(text, variables=(("KERAS_BACKEND", backend), ("JAX_PLATFORMS", "cpu")))


def kinds(names: list[str]) -> list[object]:
    """Return the parameters of a test: which of them are thorough."""
    return [pytest.param(name, marks=[] if name in GATE else [THOROUGH]) for name in names]


def lacks(kind: str) -> str:
    """Return the library that a situation needs and this environment has not."""
    needed = NEEDS.get(kind, "torch")
    return "" if importlib.util.find_spec(needed) else needed


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """Train all that was selected of this file, at one scheduler."""
    chosen = [
        str(item.callspec.params["kind"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == Path(__file__)
    ]
    programs = {kind: program_of(kind) for kind in chosen if not lacks(kind)}
    with Preempting(tmp_path_factory.mktemp("site"), gpus=GPUS) as served:
        return outcomes(served, programs)


def alone(kind: str, folder: Path) -> list[str]:
    """Return what a situation prints that nobody suspends."""
    program = program_of(kind)
    if kind not in HOW_TO or kind == "how-to":
        library = "lightning.pytorch" if kind == ASYNC else "torch"
        return undisturbed(folder, library, program.text, *program.words)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program.text],
        env={**os.environ, **OFFLINE, **dict(program.variables), "SEED": "1", "STOP_AT": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [line for line in ran.stdout.splitlines() if line.startswith("step ")]


@pytest.mark.rotating("kind")
@pytest.mark.parametrize("kind", kinds([*IN_CI, *MORE, ASYNC, *HOW_TO]))
def test_preempted_and_suspended_job_ends_as_one_that_nobody_disturbed(
    tmp_path: Path, found: Mapping[str, Outcome], kind: str
) -> None:
    if lacking := lacks(kind):
        pytest.skip(f"{lacking} is in no lock file: install it to try this")
    expected = alone(kind, tmp_path / "alone")
    job = found[kind]
    assert job.state == "finished", job.stderr
    assert [each[1:] for each in job.left] == [("suspended",), ("suspended",), ("exit",)]
    assert len(expected) > STOPS[-1]
    assert job.steps == expected


@pytest.mark.parametrize("kind", kinds(list(REFUSED)))
def test_what_could_not_go_on_is_refused_at_the_first_call(
    found: Mapping[str, Outcome], kind: str
) -> None:
    job = found[kind]
    assert (job.state, job.steps) == ("failed", [])
    assert REFUSED[kind] in job.stderr
