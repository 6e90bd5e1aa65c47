"""What a run looks for beside it, and warns its owner of, with stand-ins for the libraries."""

import functools
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from shunter.train import channel
from shunter.train.surroundings import BOUNDARIES, Surroundings, check_workers, whose
from tests.unit.train.toy import Model, Supervisor, run_of

USR1 = {channel.SUSPEND_SIGNAL: "SIGUSR1"}


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "attempt") as found:
        yield found


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Leave signals as they were."""
    numbers = (signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def handler_of(module: str, name: str = "handle") -> Callable[..., None]:
    """Return a signal handler as if a module had it."""

    def handle(*_: object) -> None:
        return None

    handle.__module__, handle.__qualname__ = module, name
    return handle


def warned(environment: Mapping[str, str] = USR1, *, takes_batches: bool = True) -> list[str]:
    """Return of what a run warns by its last look."""
    found: list[str] = []
    surroundings = Surroundings(found.append, environment)
    surroundings.begin()
    while not surroundings.is_over:
        surroundings.boundary(takes_batches=takes_batches)
    return list(dict.fromkeys(found))


def test_nothing_is_said_of_a_process_that_is_alone() -> None:
    assert warned() == []


def test_handler_of_the_sdk_is_its_own() -> None:
    channel.BELL.listen({**USR1, channel.CHANNEL: "there"})
    assert warned() == []


@pytest.mark.parametrize("module", ["__main__", "submitit.core.job_environment"])
def test_whoever_replaces_the_handler_of_the_suspend_signal_is_named(module: str) -> None:
    signal.signal(signal.SIGUSR1, handler_of(module, "Job.checkpoint"))
    (text,) = warned()
    assert text.startswith(
        f"SIGUSR1, with which Shunter may ask this job to leave, is handled by {module}."
    )
    assert warned({}) == []


def test_handler_of_sigterm_is_warned_of_but_for_the_script_s_own() -> None:
    signal.signal(signal.SIGTERM, handler_of("__main__"))
    assert warned() == []
    signal.signal(signal.SIGTERM, functools.partial(handler_of("submitit.core"), 1))
    (text,) = warned()
    assert text.startswith("SIGTERM is handled by submitit.core.handle: ")


def test_saving_just_in_time_is_named_by_its_option() -> None:
    module = "transformers.trainer_jit_checkpoint"
    signal.signal(signal.SIGTERM, handler_of(module, "CheckpointManager._sigterm_handler"))
    (text,) = warned()
    assert "enable_jit_checkpoint" in text


def test_handler_that_comes_after_the_first_boundary_is_seen() -> None:
    found: list[str] = []
    surroundings = Surroundings(found.append, USR1)
    surroundings.begin()
    surroundings.boundary(takes_batches=True)
    signal.signal(signal.SIGTERM, handler_of("submitit"))
    surroundings.boundary(takes_batches=True)
    assert len(found) == 1


SLURM = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}


def test_variables_of_a_job_of_slurm_that_did_not_start_this_process() -> None:
    (text,) = warned(SLURM)
    assert "named in its environment (SLURM_JOB_ID, SLURM_NTASKS): Lightning" in text
    (text,) = warned({**SLURM, "SLURM_TASK_PID": "4194304"})
    assert warned({**SLURM, "SLURM_TASK_PID": str(os.getppid())}) == []
    assert warned({**SLURM, "SLURM_TASK_PID": str(os.getpid())}) == []
    assert warned({"SLURM_CONF": "/etc/slurm.conf"}) == []


class DataLoader:
    """Stands for torch's."""

    def __init__(self, *, workers: int = 0, persistent: bool = False) -> None:
        self.num_workers, self.persistent_workers = workers, persistent


@pytest.fixture
def torch_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loader above be torch's."""
    module = types.ModuleType("torch.utils.data")
    vars(module)["DataLoader"] = DataLoader
    monkeypatch.setitem(sys.modules, "torch.utils.data", module)


@pytest.mark.usefixtures("torch_data")
def test_loader_beside_run_batches_is_named() -> None:
    def trains(names: Mapping[str, object], *, takes_batches: bool) -> list[str]:
        found: list[str] = []
        surroundings = Surroundings(found.append, {})
        inner: dict[str, Any] = {"surroundings": surroundings, "takes": takes_batches, **names}
        exec("surroundings.boundary(takes_batches=takes)", inner)  # noqa: S102  a script's frame
        return found

    (text,) = trains({"loader": DataLoader()}, takes_batches=False)
    assert text.startswith("`loader` is a DataLoader, and nothing is taken from `run.batches`")
    assert trains({"loader": DataLoader()}, takes_batches=True) == []
    assert (
        trains({"validation": DataLoader(), "test_loader": DataLoader()}, takes_batches=False) == []
    )
    assert trains({"loader": [1, 2]}, takes_batches=False) == []


def trains_in(module: str, boundary: Callable[..., None]) -> None:
    """Reach a boundary in a function of a module."""
    inner: dict[str, Any] = {"__name__": module, "boundary": boundary}
    text = "def train(): boundary(takes_batches=False)\ntrain()"
    exec(text, inner)  # noqa: S102  a frame of that module


@pytest.mark.parametrize(
    ("modules", "is_warned"),
    [
        (["lightning.pytorch.loops.fit_loop", "__main__"], True),
        (["pytorch_lightning.loops", "script"], True),
        (["lightning.pytorch.loops", "shunter.train.adapters.lightning"], False),
        (["lightning.fabric", "__main__"], False),
    ],
)
def test_lightning_is_warned_of_where_it_trains_without_the_adapter(
    modules: list[str], *, is_warned: bool
) -> None:
    found: list[str] = []
    surroundings = Surroundings(found.append, {})

    def inner(*, takes_batches: bool) -> None:
        trains_in(modules[1], surroundings.boundary)

    trains_in(modules[0], inner)
    assert bool(found) is is_warned
    assert all("suspension()" in text for text in found)


def test_workers_that_outlive_a_pass_are_warned_of() -> None:
    found: list[str] = []
    check_workers(found.append, DataLoader(workers=2, persistent=True))
    assert "persistent_workers" in found[0]
    check_workers(found.append, DataLoader(persistent=True))
    check_workers(found.append, DataLoader(workers=2))
    check_workers(found.append, [1, 2])
    assert len(found) == 1


def test_looks_of_a_run_take_less_than_a_millisecond(supervisor: Supervisor) -> None:
    """And after its first boundaries a run looks no more."""
    spent_s = []
    for _ in range(5):
        run = run_of(supervisor, None, Model())
        begun_s = time.perf_counter()
        surroundings = run.surroundings = Surroundings(run.warn, {**USR1, **SLURM})
        surroundings.begin()
        for _ in range(BOUNDARIES):
            surroundings.boundary(takes_batches=False)
        spent_s.append(time.perf_counter() - begun_s)
        run.step()
        run.step()
    assert min(spent_s) < 1e-3


def test_run_looks_at_its_first_boundaries_only(supervisor: Supervisor) -> None:
    run = run_of(supervisor, None, Model())
    run.surroundings = Surroundings(run.warn, {})
    for _ in range(BOUNDARIES):
        assert run.surroundings is not None
        run.step()
    assert run.surroundings is None


def test_whoever_handles_a_signal_in_c_is_called_so() -> None:
    assert whose(None) == "code in C"
