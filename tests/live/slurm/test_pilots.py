"""Jobs inside pilots on a real Slurm cluster, and all that goes wrong there."""

import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from shunter.backends.live import SupervisedBackend
from shunter.backends.slurm import Slurm
from shunter.core import AttemptExited, Input, Terminate
from shunter.errors import SlurmUnknownError
from shunter.events import AttemptLost, AttemptStarted, JobId, JobSuspended, NodeName, NodeReachable
from tests.factories import allocation, job_id
from tests.live.slurm.bench import SEARCHED, SlurmBench
from tests.live.slurm.pilots import (
    PilotBench,
    comes,
    ends_in,
    holds,
    leaves,
    most_at_once,
    wanting,
    why,
)
from tests.live.ssh.bench import order, rest, seen_until

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
]
J0 = job_id(0)
UNHEARD = "Slurm has not answered since this daemon started"
SLOW = """#!/bin/sh
until [ -e '{heard}' ]; do sleep 0.05; done
exec '{real}' "$@"
"""


@pytest.fixture
def bench(slurm: SlurmBench, tmp_path: Path) -> Iterator[PilotBench]:
    """A cluster, and a folder that is empty."""
    found = PilotBench(slurm, tmp_path)
    yield found
    found.clean()


async def goes_on(bench: PilotBench, backend: SupervisedBackend, node: str) -> None:
    """Have the first job resumed on a node, and hold that it does what is left, and once."""
    await order(backend, bench.launching(node, attempt=2, work_s=0.1))
    (ended,) = ends_in(await seen_until(backend, AttemptExited, job="j0"))
    assert isinstance(ended, AttemptExited)
    assert (ended.attempt, ended.exit_code) == (2, 0)
    bench.assert_nothing_twice()


async def first_of(backend: SupervisedBackend, job: JobId) -> Input:
    """Return what is told of a job first."""
    while True:
        for seen in await rest(backend, 0.2):
            if getattr(seen, "job_id", None) == job:
                return seen


def told_by_processes() -> bytes:
    """Return the command lines and environments of all processes."""
    found = []
    for path in sorted(Path("/proc").glob("[0-9]*")):
        for name in ("cmdline", "environ"):
            try:
                found.append((path / name).read_bytes())
            except OSError:
                continue
    return b"\n".join(found)


async def test_job_runs_in_a_pilot_whose_key_nobody_sees(bench: PilotBench) -> None:
    async with bench.opened() as backend:
        await holds(backend, "n1")
        began_s = time.monotonic()
        await order(backend, bench.launching("n1", work_s=1.0))
        await seen_until(backend, AttemptStarted)
        print(f"a job in a pilot was seen to run after {time.monotonic() - began_s:.3f} s")
        (file,) = sorted((bench.root / "pilots").glob("n1.*.pilot"))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        secret = file.read_text().partition("BEGIN PRIVATE KEY-----\n")[2].splitlines()[0]
        assert len(secret) == 64
        seen = told_by_processes()
        assert str(file).encode() in seen
        assert secret.encode() not in seen
        (number,) = bench.pilots()["n1"]
        shown = bench.slurm.command("scontrol", "show", "job", "-dd", str(number))
        shown += bench.slurm.command("scontrol", "write", "batch_script", str(number), "-")
        assert str(file) in shown
        assert secret not in shown
        (ended,) = ends_in(await seen_until(backend, AttemptExited))
        assert isinstance(ended, AttemptExited)
        assert ended.exit_code == 0
    bench.assert_nothing_twice()


async def test_pilot_comes_back_to_a_new_daemon_and_its_job_is_adopted(bench: PilotBench) -> None:
    async with bench.opened() as backend:
        await holds(backend, "n1")
        await order(backend, bench.launching("n1", work_s=4.0))
        await seen_until(backend, AttemptStarted)
        before = bench.pilots()
    async with bench.opened(2) as backend:
        backend.adopt(J0, 1, started=True, on=allocation(n1=0b0001))
        await order(backend)
        (ended,) = ends_in(await seen_until(backend, AttemptExited))
        assert isinstance(ended, AttemptExited)
        assert ended.exit_code == 0
        assert bench.pilots() == before
        assert len(before["n1"]) == 1
    bench.assert_nothing_twice()


@pytest.mark.parametrize("heeds", [False, True], ids=["saves", "dies-of-sigterm"])
async def test_job_of_a_cancelled_pilot_is_told_once_and_goes_on_elsewhere(
    bench: PilotBench, *, heeds: bool
) -> None:
    """Slurm sends SIGTERM to all processes of a job, of which that of the user may die."""
    launch = bench.launching("n1")
    if not heeds:
        deaf = ("/bin/sh", "-c", "trap '' TERM; exec \"$@\"", "sh", *launch.spec.command)
        launch = replace(launch, spec=replace(launch.spec, command=deaf))
    async with bench.opened() as backend:
        await holds(backend, "n1", "n2")
        await order(backend, launch)
        await seen_until(backend, AttemptStarted)
        (number,) = bench.pilots()["n1"]
        bench.slurm.command("scancel", str(number))
        (ended,) = ends_in(await leaves(backend))
        assert isinstance(ended, JobSuspended)
        await goes_on(bench, backend, "n2")
        await holds(backend, "n1")  # by another pilot
        assert bench.pilots()["n1"] != [number]
    assert heeds or bench.resumed() == ["j0.2.0"]


async def test_pilot_that_slurm_forgot_is_replaced_and_its_job_goes_on(
    bench: PilotBench,
) -> None:
    """The state is that of just before the submission, as after a crash within seconds of it."""
    forgets = bench.remembers()
    async with bench.opened() as backend:
        await holds(backend, "n1")
        (number,) = bench.pilots()["n1"]
        await order(backend, bench.launching("n1"))
        await seen_until(backend, AttemptStarted)
        forgets()
        stranger = bench.slurm.submit("exec sleep 300", "--nodelist=n4")
        assert stranger == number
        backend.want(wanting("n1"))
        assert len(ends_in(await leaves(backend))) == 1
        print(f"forgotten, and {bench.pilots()} now")
        assert most_at_once(bench.pilots().values()) <= 1
        await holds(backend, "n1")
        assert most_at_once(bench.pilots().values()) == 1
        assert bench.slurm.state_of(stranger) == "RUNNING"
        await goes_on(bench, backend, "n1")


async def test_controller_that_is_away_ends_nothing(bench: PilotBench) -> None:
    async with bench.opened(command_s=1.0) as backend:
        await holds(backend, "n1")
        await order(backend, bench.launching("n1"))
        told = await seen_until(backend, AttemptStarted)
        bench.slurm.wait_until_saved(bench.pilots()["n1"][0])
        bench.slurm.kill_slurmctld()
        backend.want(wanting("n2"))
        await comes(lambda: "squeue" in why(backend, "n2"), lambda: str(backend.causes))
        print(why(backend, "n2"))
        told += await rest(backend, 3.0)
        assert ends_in(told) == []
        bench.slurm.start_slurmctld()
        await order(backend, Terminate(J0, 1))
        told += await seen_until(backend, AttemptExited)
        assert len(ends_in(told)) == 1
        await holds(backend, "n2")
        assert {node: len(jobs) for node, jobs in bench.pilots().items()} == {"n1": 1, "n2": 1}
    bench.assert_nothing_twice()


@pytest.mark.thorough
async def test_node_that_slurm_gave_up_runs_its_job_until_it_is_back(bench: PilotBench) -> None:
    async with bench.opened() as backend:
        await holds(backend, "n1")
        await order(backend, bench.launching("n1"))
        await seen_until(backend, AttemptStarted)
        (number,) = bench.pilots()["n1"]
        bench.slurm.kill_slurmd("n1")
        await comes(
            lambda: bench.slurm.state_of(number) == "NODE_FAIL",
            lambda: bench.slurm.state_of(number),
        )
        assert ends_in(await rest(backend, 3.0)) == []
        assert "n1" not in backend.unreachable
        bench.slurm.start_slurmd("n1")
        assert len(ends_in(await leaves(backend))) == 1
        await holds(backend, "n1")
        await goes_on(bench, backend, "n1")


async def test_pilot_takes_nothing_new_until_slurm_has_answered_the_daemon_once(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that is slow; what runs there goes on, is adopted, and its end is told."""
    async with bench.opened() as backend:
        await holds(backend, "n1")
        await order(backend, bench.launching("n1"))
        await seen_until(backend, AttemptStarted)
    heard, commands = bench.folder / "heard", bench.folder / "bin"
    commands.mkdir()
    for name in ("squeue", "scontrol"):
        (commands / name).write_text(
            SLOW.format(heard=heard, real=shutil.which(name, path=SEARCHED))
        )
        (commands / name).chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{commands}:{SEARCHED}")
        async with bench.opened(2, command_s=600.0) as backend:
            backend.adopt(J0, 1, started=True, on=allocation(n1=0b0001))
            await comes(lambda: backend.agents[NodeName("n1")].is_up, "the pilot")
            await order(backend, bench.launching("n1", job="j1", mask=0b0010, work_s=0.1))
            told = await first_of(backend, job_id(1))
            assert isinstance(told, AttemptLost), "it was not started"
            assert UNHEARD in told.cause
            assert UNHEARD in why(backend, "n1")
            await order(backend, Terminate(J0, 1))
            await seen_until(backend, AttemptExited, job="j0")
            heard.touch()
            await seen_until(backend, NodeReachable)
            assert why(backend, "n1") == ""
            await order(backend, bench.launching("n1", job="j1", attempt=2, work_s=0.1))
            await seen_until(backend, AttemptExited, job="j1")
    assert bench.runs() == {"j0.1.0": 1, "j1.2.0": 1}
    bench.assert_nothing_twice()


async def test_drained_node_is_waited_for_in_slurms_word(bench: PilotBench) -> None:
    bench.slurm.drain("n3", "a fan is broken")
    async with bench.opened() as backend:
        backend.want(wanting("n3"))
        await comes(lambda: "ReqNodeNotAvail" in why(backend, "n3"), lambda: str(backend.causes))
        print(why(backend, "n3"))
        assert "waiting for Slurm to give node n3" in why(backend, "n3")
        assert "n3" in bench.pilots("PENDING")
        bench.slurm.command("scontrol", "update", "NodeName=n3", "State=RESUME")
        await holds(backend, "n3")


async def test_idle_pilot_is_given_back_and_another_node_asked_for(bench: PilotBench) -> None:
    async with bench.opened(pilots_max=1, idle_s=1.0) as backend:
        backend.want(wanting("n1", "n2"))
        await comes(lambda: "n1" not in backend.unreachable, lambda: str(backend.causes))
        assert list(bench.pilots()) == ["n1"]
        assert "pilots_max" in why(backend, "n2")
        await order(backend, bench.launching("n1", work_s=60.0))
        await seen_until(backend, AttemptStarted)
        backend.want(wanting("n2"))
        await anyio.sleep(2.5)  # longer than idle_s: one that works is not idle
        assert list(bench.pilots()) == ["n1"]
        await order(backend, Terminate(J0, 1))
        await seen_until(backend, AttemptExited)
        await comes(lambda: "n2" not in backend.unreachable, lambda: str(backend.causes))
        assert list(bench.pilots()) == ["n2"]
        assert sorted((bench.root / "pilots").glob("n1.*.pilot")) == []


async def test_lost_answers_of_sbatch_make_no_second_pilot(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = []
    submit = Slurm.submit

    async def unheard(*words: object, **named: object) -> int:
        submitted.append(await submit(*words, **named))  # type: ignore[arg-type]  # as given
        raise SlurmUnknownError("sbatch did not answer", "wait")

    monkeypatch.setattr(Slurm, "submit", unheard)
    async with bench.opened() as backend:
        await holds(backend, "n1", "n2")
        backend.want(wanting("n1", "n2"))
        await anyio.sleep(3)
        assert {node: len(jobs) for node, jobs in bench.pilots().items()} == {"n1": 1, "n2": 1}
        assert len(submitted) == 2
        await order(backend, bench.launching("n1", "n2", work_s=0.2))
        await seen_until(backend, AttemptExited)
    bench.assert_nothing_twice()


@pytest.mark.rotating(among="the end of a time limit in Slurm")
async def test_pilot_that_is_to_end_is_followed_by_another(bench: PilotBench) -> None:
    """Of two minutes; Slurm tells a pilot of its end up to a minute too early."""
    async with bench.opened(time_limit_s=120.0) as backend:
        await holds(backend, "n1")
        await order(backend, bench.launching("n1", work_s=600.0))
        await seen_until(backend, AttemptStarted)
        (number,) = bench.pilots()["n1"]
        backend.want(wanting("n1"))
        (ended,) = ends_in(await leaves(backend, 130))
        assert isinstance(ended, JobSuspended)
        assert most_at_once(bench.pilots("RUNNING").values()) <= 1
        await holds(backend, "n1")
        await comes(lambda: number not in bench.pilots()["n1"], lambda: str(bench.pilots()))
        await goes_on(bench, backend, "n1")
    assert bench.resumed() == ["j0.2.0"]
