"""The local backend and what the contract suite cannot say: crashes, devices, latency."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from shunter.backends.live import LocalBackend, LocalNode, LocalSettings
from shunter.backends.node import attempts
from shunter.core import AttemptExited, Effect, Input, Launch, Resume, SuspendAttempt, Terminate
from shunter.errors import BackendError
from shunter.events import (
    Allocation,
    AttemptLost,
    AttemptStarted,
    CheckpointSaved,
    GpusReleased,
    JobSpec,
    JobSuspended,
    LaunchFailed,
    NodeName,
    Share,
    SuspendAcknowledged,
    TrainingStarted,
    UserName,
)
from tests.contracts.local_backends import empty
from tests.factories import job_id
from tests.faults.supervised import pid_of, wait_for
from tests.faults.test_supervisor import LEAVES, SLEEPS

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

Seen = TypeVar("Seen", bound=Input)
ROOT = Path(__file__).resolve().parents[2]
J0 = job_id(0)
PATIENCE_US = 60_000_000
TRAINS = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from shunter import train
class Model:
    steps = 0
    def state_dict(self): return {{"steps": self.steps}}
    def load_state_dict(self, saved): self.steps = saved["steps"]
model = Model()
run = train.start(model=model)
while model.steps < 60:
    time.sleep(0.02)
    model.steps += 1
    print(model.steps, end=" ", flush=True)
    run.step()
"""


@asynccontextmanager
async def machine(root: Path, term: int = 1) -> AsyncIterator[LocalBackend]:
    """Open a node of four GPUs with odd names."""
    node = LocalNode(NodeName("n0"), ("4", "5", "GPU-a", "7"), (0,))
    settings = LocalSettings(str(root), (node,), term, grace_s=0.3)
    async with LocalBackend(settings, start_us=term * 10**9) as backend:
        yield backend


def launching(program: str, mask: int = 1, attempt: int = 1, cpus_milli: int = 0) -> Launch:
    command = (sys.executable, "-I", "-S", "-c", program)
    allocation = Allocation((Share(NodeName("n0"), mask, cpus_milli),))
    return Launch(J0, attempt, allocation, JobSpec(1, command=command))


async def order(backend: LocalBackend, *effects: Effect) -> None:
    await backend.perform(effects, backend.now_us())


async def seen_until(backend: LocalBackend, kind: type[Seen]) -> list[Input]:
    """Observe until something of a kind came; return all that came."""
    told: list[Input] = []
    until_us = backend.now_us() + PATIENCE_US
    while not any(isinstance(seen, kind) for seen in told):
        _, inputs = await backend.observe(until_us)
        assert inputs, f"no {kind.__name__}, but {told}"
        told += inputs
    return told


async def rest(backend: LocalBackend) -> Sequence[Input]:
    """Return what else comes within a patrol."""
    return (await backend.observe(backend.now_us() + 1_200_000))[1]


async def test_job_sees_its_gpus_and_cpus(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        look = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.sched_getaffinity(0))"
        await order(backend, launching(look, mask=0b0110, cpus_milli=1000))
        await seen_until(backend, AttemptExited)
    assert (tmp_path / "jobs/j0/1/stdout.0").read_text() == "5,GPU-a {0}\n"


async def test_launch_on_gpus_that_are_not_there_fails_for_good(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        await order(backend, launching(SLEEPS, mask=0b10000))
        failed = (await seen_until(backend, LaunchFailed))[-1]
        assert isinstance(failed, LaunchFailed)
        assert not failed.retryable


async def test_daemon_that_comes_back_finds_and_ends_what_runs(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        await order(backend, launching(SLEEPS))
        await seen_until(backend, AttemptStarted)
    async with machine(tmp_path, term=2) as backend:
        found = await backend.inventory()
        assert [(one["job"], one["attempt"], one["state"]) for one in found] == [
            ("j0", 1, "running")
        ]
        backend.adopt(J0, 1, started=True)
        assert await rest(backend) == ()
        await order(backend, Terminate(J0, 1))
        told = await seen_until(backend, AttemptExited)
        assert [type(seen) for seen in told] == [AttemptExited]


async def test_end_while_the_daemon_was_gone_is_told_once(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        await order(backend, launching("import time; time.sleep(0.2)"))
        await seen_until(backend, AttemptStarted)
    async with machine(tmp_path, term=2) as backend:
        backend.adopt(J0, 1, started=True)
        await seen_until(backend, AttemptExited)
        assert await rest(backend) == ()


async def test_launch_repeated_after_a_crash_adopts_what_it_finds(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        await order(backend, launching(SLEEPS))
        await seen_until(backend, AttemptStarted)
    async with machine(tmp_path, term=2) as backend:
        await order(backend, launching(SLEEPS))
        told = await seen_until(backend, AttemptStarted)
        assert len(told) == 1
        assert len(await backend.inventory()) == 1
    empty(str(tmp_path))


async def test_attempt_whose_supervisor_was_killed_is_lost_once(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        await order(backend, launching(SLEEPS))
        await seen_until(backend, AttemptStarted)
        (found,) = await backend.inventory()
        os.kill(pid_of(found), signal.SIGKILL)
        told = await seen_until(backend, AttemptLost)
        assert [type(seen) for seen in told] == [AttemptLost]
        assert await rest(backend) == ()


async def test_suspension_is_told_step_by_step(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        await order(backend, launching(LEAVES))
        await seen_until(backend, AttemptStarted)
        await order(backend, SuspendAttempt(J0, 1))
        told = await seen_until(backend, JobSuspended)
        told = [seen for seen in told if not isinstance(seen, AttemptStarted)]
        assert [type(seen) for seen in told[:3]] == [
            SuspendAcknowledged,
            CheckpointSaved,
            JobSuspended,
        ]


@pytest.mark.needs("root")
async def test_root_starts_a_job_as_its_user(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        command = ("/bin/sh", "-c", "id -un")
        spec = JobSpec(1, command=command, user=UserName("nobody"))
        strange = JobSpec(1, command=command, user=UserName("no such user"))
        allocation = Allocation((Share(NodeName("n0"), 1),))
        await order(backend, Launch(J0, 1, allocation, spec))
        await seen_until(backend, AttemptExited)
        await order(backend, Launch(job_id(1), 1, allocation, strange))
        await seen_until(backend, LaunchFailed)
    assert (tmp_path / "jobs/j0/1/stdout.0").read_text() == "nobody\n"
    assert (tmp_path / "jobs/j0/checkpoints").owner() == "nobody"


async def test_training_with_the_sdk_goes_on_where_it_was_suspended(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        await order(backend, launching(TRAINS))
        await seen_until(backend, AttemptStarted)
        wait_for(lambda: "7 " in (tmp_path / "jobs/j0/1/stdout.0").read_text(), "some steps")
        await order(backend, SuspendAttempt(J0, 1))
        told = await seen_until(backend, GpusReleased)
        kinds = [SuspendAcknowledged, CheckpointSaved, JobSuspended, GpusReleased]
        # The first mini-batch is told with the start or after it, as the processes happen to go.
        assert [type(seen) for seen in told if type(seen) is not TrainingStarted] == kinds
        again = launching(TRAINS)
        await order(backend, Resume(J0, 2, again.allocation, again.spec))
        exited = (await seen_until(backend, AttemptExited))[-1]
        assert isinstance(exited, AttemptExited)
        assert exited.exit_code == 0
    printed = [(tmp_path / f"jobs/j0/{attempt}/stdout.0").read_text() for attempt in (1, 2)]
    assert "".join(printed).split() == [str(step) for step in range(1, 61)]


async def test_daemon_of_a_replaced_term_is_refused(tmp_path: Path) -> None:
    attempts.raise_term(str(tmp_path), 5)
    with pytest.raises(BackendError, match="term 4 was replaced by 5"):
        async with machine(tmp_path, term=4):
            pass
