"""What jobs and disks do to the local backend: after each fault, everything is settled."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from shunter.backends.live import LocalBackend, LocalNode, LocalSettings, environment_path
from shunter.core import AttemptExited, Effect, Input, Launch, Resume, SuspendAttempt, Terminate
from shunter.events import (
    Allocation,
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobId,
    JobSpec,
    JobSuspended,
    LaunchFailed,
    NodeName,
    ProfileSampled,
    Share,
    Sharing,
    SuspendAcknowledged,
    SuspendEscalated,
    SuspendMode,
)
from tests.contracts.local_backends import empty
from tests.factories import job_id
from tests.faults.supervised import fill, is_alive, pid_of, wait_for
from tests.faults.test_local_backend import launching, order, seen_until
from tests.faults.test_supervisor import DEAF, FORKS_AWAY, SLEEPS

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

J0, J1 = job_id(0), job_id(1)
ROOT = Path(__file__).resolve().parents[2]
CONTRACT = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "CUDA_VISIBLE_DEVICES",
    "SHUNTER_JOB",
    "SHUNTER_ATTEMPT",
    "SHUNTER_RESUME",
    "SHUNTER_CHECKPOINT_DIR",
)
TELLS = f"""
import json, os
print(json.dumps({{name: os.environ.get(name) for name in {CONTRACT!r} + ("TOKEN",)}}), flush=True)
"""
CANNOT_SAVE = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from shunter import train
def save(folder):
    raise OSError("no room for the weights")
run = train.start(save=save)
print("up", flush=True)
while True:
    time.sleep(0.01)
    run.step()
"""
STEPS = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from shunter import train
train.channel.PROGRESS_EVERY_S = 0.1
run = train.start()
while True:
    time.sleep(0.02)
    run.step()
"""


@asynccontextmanager
async def machine(root: Path, **settings: Any) -> AsyncIterator[LocalBackend]:
    """Open two nodes of two GPUs, and leave nothing running on them."""
    nodes = (LocalNode(NodeName("n0"), ("0", "1")), LocalNode(NodeName("n1"), ("2", "3")))
    limits = {"grace_s": 0.3, "cooperative_s": 300.0, "signal_s": 0.3, "restart_s": 0.3}
    async with LocalBackend(LocalSettings(str(root), nodes, 1, **{**limits, **settings})) as found:
        yield found
    empty(str(root))


async def shows(path: Path, text: str) -> None:
    """Wait for a file to say something, while the backend works on."""

    def says() -> bool:
        return path.exists() and text in path.read_text()

    await to_thread.run_sync(wait_for, says, text)


async def ends(backend: LocalBackend, effect: Effect) -> AttemptExited:
    """Carry an order out, and return the end that follows."""
    await order(backend, effect)
    exited = (await seen_until(backend, AttemptExited))[-1]
    assert isinstance(exited, AttemptExited)
    return exited


def output(root: Path, job: JobId = J0, attempt: int = 1, rank: int = 0) -> Path:
    return root / f"jobs/{job}/{attempt}/stdout.{rank}"


def printed(root: Path, job: JobId = J0, attempt: int = 1, rank: int = 0) -> str:
    return output(root, job, attempt, rank).read_text()


async def test_job_that_ignores_sigterm_ends_after_its_grace(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        await order(backend, launching(DEAF))
        await seen_until(backend, AttemptStarted)
        await shows(output(tmp_path), "up")
        assert (await ends(backend, Terminate(J0, 1))).exit_code == 137


async def test_what_forked_away_is_gone_before_the_end_is_told(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        exited = await ends(backend, launching(FORKS_AWAY))
        assert (exited.exit_code, exited.released) == (0, True)
        assert not is_alive(int(printed(tmp_path).split()[0]))


@pytest.mark.parametrize("code", [0, 1, 42])
async def test_job_that_exits_at_once_is_told_once_with_its_code(tmp_path: Path, code: int) -> None:
    async with machine(tmp_path) as backend:
        assert (await ends(backend, launching(f"raise SystemExit({code})"))).exit_code == code
        assert (await backend.observe(backend.now_us() + 1_200_000))[1] == ()


async def test_command_not_found_is_an_end_that_says_so(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        spec = JobSpec(1, command=("no-such-command-anywhere",))
        there = Allocation((Share(NodeName("n0"), 1),))
        assert (await ends(backend, Launch(J0, 1, there, spec))).exit_code == 127
        assert "no-such-command-anywhere" in (tmp_path / "jobs/j0/1/stderr.0").read_text()


async def test_directory_that_is_not_there_is_an_end_that_says_so(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        spec = JobSpec(1, command=("/bin/true",), directory="/no/such/directory")
        there = Allocation((Share(NodeName("n0"), 1),))
        assert (await ends(backend, Launch(J0, 1, there, spec))).exit_code == 127
        assert "/no/such/directory" in (tmp_path / "jobs/j0/1/stderr.0").read_text()


async def test_job_that_prints_100_mb_keeps_its_ends_and_says_what_is_missing(
    tmp_path: Path,
) -> None:
    most = 4 << 20
    async with machine(tmp_path, output_bytes_max=most) as backend:
        line = "x" * 1023
        program = f"print('first')\nfor _ in range(100 * 1024): print('{line}')\nprint('last')"
        assert (await ends(backend, launching(program))).exit_code == 0
    path = tmp_path / "jobs/j0/1/stdout.0"
    kept = path.read_text()
    assert path.stat().st_size <= most
    assert kept.startswith("first\n")
    assert kept.endswith("\nlast\n")
    assert "bytes of output dropped here, a file may hold 4194304" in kept


async def test_checkpoint_that_fails_leads_to_the_next_mode_at_once(tmp_path: Path) -> None:
    """Goal: no wait for the deadline of 300 s. Method: the patience of this test is shorter."""
    async with machine(tmp_path) as backend:
        await order(backend, launching(CANNOT_SAVE))
        await shows(output(tmp_path), "up")
        await order(backend, SuspendAttempt(J0, 1))
        told = await seen_until(backend, GpusReleased)
        modes = [seen.mode for seen in told if isinstance(seen, SuspendEscalated)]
        assert modes == [SuspendMode.signal, SuspendMode.restart]
        assert any(isinstance(seen, SuspendAcknowledged) for seen in told)
        (suspended,) = [seen for seen in told if isinstance(seen, JobSuspended)]
        assert suspended.lost_us
        assert "no room for the weights" in output(tmp_path).with_name("stderr.0").read_text()


async def test_ranks_are_told_who_they_are_and_get_a_port_of_their_own(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        command = (sys.executable, "-I", "-S", "-c", TELLS)
        both = Allocation((Share(NodeName("n0"), 0b11), Share(NodeName("n1"), 0b01)))
        await ends(backend, Launch(J0, 1, both, JobSpec(3, command=command)))
        await ends(backend, Resume(J0, 2, both, JobSpec(3, command=command)))
    first, second = (json.loads(printed(tmp_path, rank=rank)) for rank in (0, 1))
    assert {**first, "MASTER_PORT": ""} == {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SHUNTER_JOB": "j0",
        "SHUNTER_ATTEMPT": "1",
        "SHUNTER_RESUME": None,
        "SHUNTER_CHECKPOINT_DIR": f"{tmp_path}/jobs/j0/checkpoints",
        "TOKEN": None,
    }
    assert (second["RANK"], second["CUDA_VISIBLE_DEVICES"]) == ("1", "2")
    assert second["MASTER_PORT"] == first["MASTER_PORT"]
    again = json.loads(printed(tmp_path, attempt=2))
    assert (again["SHUNTER_ATTEMPT"], again["SHUNTER_RESUME"]) == ("2", "1")
    assert again["MASTER_PORT"] != first["MASTER_PORT"]


async def test_secret_reaches_the_job_and_no_record(tmp_path: Path) -> None:
    path = environment_path(str(tmp_path), J0)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"TOKEN": "s3cret", "RANK": "99"}))
    async with machine(tmp_path) as backend:
        await ends(backend, launching(TELLS))
    told = json.loads(printed(tmp_path))
    assert (told["TOKEN"], told["RANK"]) == ("s3cret", "0")
    records = [each for each in sorted((tmp_path / "jobs/j0/1").iterdir()) if each.is_file()]
    holders = [each.name for each in records if "s3cret" in each.read_text()]
    assert holders == ["stdout.0"]
    assert [oct((tmp_path / f"jobs/j0/1/{name}").stat().st_mode)[-3:] for name in holders] == [
        "600"
    ]


async def test_two_jobs_share_a_gpu_and_neither_waits_for_the_other(tmp_path: Path) -> None:
    async with machine(tmp_path) as backend:
        program = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n" + SLEEPS
        command = (sys.executable, "-I", "-S", "-c", program)
        shared = Allocation((Share(NodeName("n0"), 0b10),), Sharing.packed)
        spec = JobSpec(1, command=command)
        await order(backend, Launch(J0, 1, shared, spec), Launch(J1, 1, shared, spec))
        for job in (J0, J1):
            await shows(output(tmp_path, job), "up")
        assert [printed(tmp_path, job).split()[0] for job in (J0, J1)] == ["1", "1"]
        states = [known["state"] for known in await backend.inventory()]
        assert states == ["running", "running"]
        assert (await ends(backend, Terminate(J1, 1))).job_id == J1


async def test_steps_and_speed_become_profiles(tmp_path: Path) -> None:
    async with machine(tmp_path, sample_s=0.4) as backend:
        await order(backend, launching(STEPS))
        told: list[Input] = []
        while not any(isinstance(seen, ProfileSampled) and seen.step for seen in told):
            told = await seen_until(backend, ProfileSampled)
        sample = told[-1]
        assert isinstance(sample, ProfileSampled)
        assert sample.step is not None
        assert sample.batch_s is not None
        assert 0.02 <= sample.batch_s < 1.0
        assert sample.memory_mb
        assert sample.cpus is not None


async def test_supervisor_that_is_killed_is_missed_without_a_patrol(tmp_path: Path) -> None:
    """Goal: its end wakes the daemon. Method: no patrol comes while this test has patience."""
    async with machine(tmp_path, patrol_s=600.0) as backend:
        await order(backend, launching(SLEEPS))
        await seen_until(backend, AttemptStarted)
        await shows(output(tmp_path), "up")
        (known,) = await backend.inventory()
        os.kill(pid_of(known), signal.SIGKILL)
        told = await seen_until(backend, AttemptLost)
        assert [type(seen) for seen in told] == [AttemptLost]


async def test_launch_on_a_full_disk_fails_and_the_next_one_works(small_disk: Path) -> None:
    async with machine(small_disk) as backend:
        await ends(backend, launching("pass"))
        ballast = fill(small_disk)
        await order(backend, launching(SLEEPS, attempt=2))
        _, early = await backend.observe(backend.now_us() + 1_500_000)
        ballast.unlink()
        told = [*early] or await seen_until(backend, LaunchFailed)
        failed = told[-1]
        assert isinstance(failed, LaunchFailed)
        assert failed.retryable
        assert "No space left" in failed.cause
        assert (await ends(backend, launching("pass", attempt=3))).exit_code == 0


async def test_end_on_a_full_disk_is_told(small_disk: Path) -> None:
    async with machine(small_disk) as backend:
        await order(
            backend, launching("import sys; print('up', flush=True); sys.stdin.read()\n" + SLEEPS)
        )
        await seen_until(backend, AttemptStarted)
        await shows(output(small_disk), "up")
        fill(small_disk)
        await order(backend, Terminate(J0, 1))
        (exited,) = await seen_until(backend, AttemptExited)
        assert isinstance(exited, AttemptExited)
        assert exited.exit_code == 143
