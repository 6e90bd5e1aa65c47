"""Attempts that are Slurm jobs of their own, on a real cluster, and all that goes wrong there."""

import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from shunter.backends.slurm import Slurm
from shunter.backends.slurm.commands import Submitted
from shunter.backends.slurm.jobs.backend import JobBackend
from shunter.core.effects import Continue, Stop, Suspend, Terminate
from shunter.core.intake.inputs import AttemptExited, Input
from shunter.errors import SlurmUnknownError
from shunter.events.facts.cluster import GpusTaken
from shunter.events.facts.execution import (
    AllocationLearned,
    AttemptLost,
    AttemptStarted,
    JobContinued,
    JobStopped,
    JobSuspended,
    LaunchFailed,
)
from shunter.events.values.ids import NodeName
from tests.factories import allocation, job_id
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.jobs import JobBench
from tests.live.slurm.pilots import comes, ends_in, leaves
from tests.live.ssh.bench import order, rest, seen_until

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
]
J0 = job_id(0)
NAME = "j0.a1"


@pytest.fixture
def bench(slurm: SlurmBench, tmp_path: Path) -> Iterator[JobBench]:
    """A cluster, and a folder that is empty."""
    found = JobBench(slurm, tmp_path)
    yield found
    found.clean()


async def runs_on(bench: JobBench, backend: JobBackend, node: str) -> list[Input]:
    """Have the first job run on a node, until it was told of."""
    await order(backend, bench.launching(node))
    return await seen_until(backend, AttemptStarted)


async def goes_on(bench: JobBench, backend: JobBackend, node: str, attempt: int = 2) -> None:
    """Have the first job resumed on a node, and hold that it does what is left, and once."""
    await order(backend, bench.launching(node, attempt=attempt, work_s=0.1))
    (ended,) = ends_in(await seen_until(backend, AttemptExited, job="j0"))
    assert isinstance(ended, AttemptExited)
    assert (ended.attempt, ended.exit_code) == (attempt, 0)
    bench.assert_nothing_twice()


async def test_gang_runs_on_the_nodes_it_was_given_and_is_resumed_whole(bench: JobBench) -> None:
    """Its second rank is started by srun, and asked to leave by a file that nodes share."""
    async with bench.jobs_opened() as backend:
        await order(backend, bench.launching("n1", "n2", mask=0b11))
        await seen_until(backend, AttemptStarted)
        await comes(lambda: len(bench.ledger()) == 2, lambda: str(bench.ledger()))
        assert {(rank, node) for _, _, rank, node, _ in bench.ledger()} == {
            ("0", "n1"),
            ("1", "n2"),
        }
        (number,) = bench.jobs()[NAME]
        shown = bench.slurm.command("scontrol", "show", "job", "-d", str(number))
        assert "NodeList=n[1-2]" in shown
        assert shown.count("GRES=gpu:v100:2") >= 1
        assert "Requeue=0" in shown
        folder = bench.root / "jobs" / "j0" / "1"
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in sorted(folder.iterdir())}
        assert {name for name, mode in modes.items() if mode & 0o077} == set()
        assert {"order", "claim", "started", "slurm.out", "stdout.0"} <= modes.keys()
        await order(backend, Suspend(J0, 1))
        (ended,) = ends_in(await leaves(backend))
        assert isinstance(ended, JobSuspended)
        await order(backend, bench.launching("n1", "n2", attempt=2, work_s=0.1))
        await seen_until(backend, AttemptExited)
    assert bench.resumed() == ["j0.2.0", "j0.2.1"]
    bench.assert_nothing_twice()


async def test_gpus_that_slurm_gives_and_others_hold_are_facts(bench: JobBench) -> None:
    """The plan names a GPU that a stranger has: Slurm gives another one, and that is told first."""
    stranger = bench.slurm.submit("exec sleep 300", "--nodelist=n1", "--gres=gpu:v100:2")
    bench.slurm.wait_for(lambda: bench.slurm.state_of(stranger) == "RUNNING", "the stranger")
    async with bench.jobs_opened() as backend:
        await order(backend, bench.launching("n2", job="j1"))  # something to ask the queue for
        told = await seen_until(backend, GpusTaken)
        while not any(isinstance(each, GpusTaken) and each.node == "n1" for each in told):
            told += await seen_until(backend, GpusTaken)
        masks = {each.node: each.gpu_mask for each in told if isinstance(each, GpusTaken)}
        assert masks[NodeName("n1")] == 0b0011
        await order(backend, bench.launching("n1"))
        told = await seen_until(backend, AttemptStarted, job="j0")
        (learned,) = [each for each in told if isinstance(each, AllocationLearned)]
        assert (learned.job_id, learned.allocation) == (J0, allocation(n1=0b0100))
        of_j0 = [type(each) for each in told if getattr(each, "job_id", "") == J0]
        assert of_j0 == [AllocationLearned, AttemptStarted]
        bench.slurm.command("scancel", str(stranger))
        told = await rest(backend, 4.0)
        taken = [each for each in told if isinstance(each, GpusTaken) and each.node == "n1"]
        assert [each.gpu_mask for each in taken] == [0]
    bench.assert_nothing_twice()


async def test_attempt_stands_still_with_its_gpus_and_survives_the_daemon(bench: JobBench) -> None:
    async with bench.jobs_opened() as backend:
        await runs_on(bench, backend, "n1")
        await order(backend, Stop(J0, 1))
        await seen_until(backend, JobStopped)
    async with bench.jobs_opened(2) as backend:
        found = [
            (each["job"], each["attempt"], each["state"]) for each in await backend.inventory()
        ]
        assert found == [("j0", 1, "running")]
        backend.adopt(J0, 1, started=True, noted=1, on=allocation(n1=0b0001))
        await order(backend, Continue(J0, 1))
        told = await seen_until(backend, JobContinued)
        await order(backend, Terminate(J0, 1))
        told += await seen_until(backend, AttemptExited)
        assert len(ends_in(told)) == 1
    bench.assert_nothing_twice()


@pytest.mark.parametrize("heeds", [False, True], ids=["is-killed", "saves"])
async def test_attempt_that_an_administrator_cancels_goes_on_elsewhere(
    bench: JobBench, *, heeds: bool
) -> None:
    launch = bench.launching("n1")
    if not heeds:  # nor does what it started in a session of its own
        ignoring = "trap '' TERM; setsid sleep 600 & trap '' TERM; while true; do sleep 1; done"
        launch = replace(launch, spec=replace(launch.spec, command=("/bin/bash", "-c", ignoring)))
    async with bench.jobs_opened(cooperative_s=600.0) as backend:
        await order(backend, launch)
        await seen_until(backend, AttemptStarted)
        (number,) = bench.jobs()[NAME]
        refused = bench.slurm.command("scontrol", "requeue", str(number), check=False)
        assert refused == ""  # --no-requeue: whatever it said, the job runs on
        bench.slurm.command("scancel", str(number))
        (ended,) = ends_in(await leaves(backend))
        if heeds:
            assert isinstance(ended, JobSuspended)
            await goes_on(bench, backend, "n2")
        else:
            assert isinstance(ended, AttemptLost)
            print(ended.cause)
            assert "CANCELLED" in ended.cause
            assert b"600" not in bench.command_lines(b"sleep")


async def test_attempt_that_waits_says_for_what_and_can_be_taken_back(bench: JobBench) -> None:
    """A held partition, a job that somebody holds, and one that is cancelled while it waits."""
    bench.slurm.command("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        async with bench.jobs_opened() as backend:
            await order(backend, bench.launching("n1"), bench.launching("n2", job="j1"))
            await comes(lambda: "asked" in backend.launch_wait(J0), lambda: backend.launch_wait(J0))
            print(backend.launch_wait(J0))
            assert "waiting for Slurm to start job" in backend.launch_wait(J0)
            await comes(lambda: len(bench.jobs("PENDING")) == 2, lambda: str(bench.jobs()))
            (number,) = bench.jobs("PENDING")["j1.a1"]
            await order(backend, Suspend(J0, 1))  # it has nothing to save
            bench.slurm.command("scancel", str(number))
            told = await seen_until(backend, LaunchFailed, job="j0")
            told += await seen_until(backend, LaunchFailed, job="j1")
            failed = {each.job_id: each.cause for each in told if isinstance(each, LaunchFailed)}
            print(failed)
            assert "CANCELLED" in failed[job_id(1)]
            assert bench.jobs("PENDING", "RUNNING") == {}
            bench.slurm.command("scontrol", "update", "PartitionName=main", "State=UP")
            await goes_on(bench, backend, "n1")
    finally:
        bench.slurm.command("scontrol", "update", "PartitionName=main", "State=UP")


async def test_attempts_that_slurm_forgot_run_once_all_the_same(bench: JobBench) -> None:
    """One that waited, and one that ran; their ids are another user's by then."""
    forgets = bench.remembers()
    bench.slurm.drain("n2")
    async with bench.jobs_opened(heartbeat_deadline_s=4.0, margin_s=1.0) as backend:
        await order(backend, bench.launching("n2", job="j1", work_s=0.2))
        await comes(lambda: bool(bench.jobs()), "its submission")
        await runs_on(bench, backend, "n1")
        numbers = sorted(number for each in bench.jobs().values() for number in each)
        forgets()
        strangers = [bench.slurm.submit("exec sleep 300", "--nodelist=n4") for _ in numbers]
        assert strangers == numbers
        told = await leaves(backend)
        assert len(ends_in(told)) == 1
        bench.slurm.resume("n2")  # if that it was drained is not forgotten too
        if not any(isinstance(seen, AttemptExited) for seen in told):
            await seen_until(backend, AttemptExited, job="j1")
        assert [bench.slurm.state_of(each) for each in strangers] == ["RUNNING"] * 2
        await goes_on(bench, backend, "n1")


async def test_controller_that_is_away_ends_nothing_and_loses_nothing(bench: JobBench) -> None:
    async with bench.jobs_opened(command_s=1.0) as backend:
        await order(backend, bench.launching("n1", work_s=2.0))
        told = await seen_until(backend, AttemptStarted)
        bench.slurm.wait_until_saved(bench.jobs()[NAME][0])
        bench.slurm.kill_slurmctld()
        await order(backend, bench.launching("n2", job="j1", work_s=0.1))
        told += await seen_until(backend, AttemptExited, job="j0")
        assert len(ends_in(told)) == 1
        assert not backend.unreachable
        assert not any(isinstance(each, LaunchFailed) for each in told + await rest(backend))
        bench.slurm.start_slurmctld()
        await seen_until(backend, AttemptExited, job="j1")
    bench.assert_nothing_twice()


async def test_node_that_slurm_gave_up_has_its_attempt_ended_before_it_goes_on(
    bench: JobBench,
) -> None:
    """Its processes live on, and nothing but the shared folder reaches them."""
    async with bench.jobs_opened() as backend:
        await runs_on(bench, backend, "n1")
        (number,) = bench.jobs()[NAME]
        bench.slurm.kill_slurmd("n1")
        (ended,) = ends_in(await leaves(backend))
        assert bench.slurm.state_of(number) == "NODE_FAIL"
        assert isinstance(ended, AttemptLost)
        await goes_on(bench, backend, "n2")
        bench.slurm.start_slurmd("n1")


async def test_lost_answers_and_double_submissions_run_each_attempt_once(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Slurm.submit

    async def unheard(*words: object, **named: object) -> Submitted:
        await submit(*words, **named)  # type: ignore[arg-type]  # as given
        await submit(*words, **named)  # type: ignore[arg-type]  # as given
        raise SlurmUnknownError("sbatch did not answer", "wait")

    monkeypatch.setattr(Slurm, "submit", unheard)
    async with bench.jobs_opened() as backend:
        jobs = ["j0", "j1", "j2"]
        await order(backend, *(bench.launching("n1", job=job, work_s=0.3) for job in jobs))
        ended: set[str] = set()
        while ended < set(jobs):
            for seen in await seen_until(backend, AttemptExited):
                if isinstance(seen, AttemptExited):
                    assert seen.exit_code == 0
                    assert seen.job_id not in ended
                    ended.add(seen.job_id)
        await comes(lambda: not bench.jobs("PENDING", "RUNNING"), lambda: str(bench.jobs()))
        assert ends_in(await rest(backend)) == []
    assert sum(bench.runs().values()) == 3
    bench.assert_nothing_twice()


async def test_folders_that_are_gone_end_nothing_twice(bench: JobBench) -> None:
    """Of one that runs, and of one that waits, which cannot begin without its order."""
    bench.slurm.drain("n2")
    async with bench.jobs_opened() as backend:
        await order(backend, bench.launching("n1"), bench.launching("n2", job="j1"))
        await seen_until(backend, AttemptStarted)
        await comes(lambda: len(bench.jobs()) == 2, lambda: str(bench.jobs()))
        for job in ("j0", "j1"):
            shutil.rmtree(bench.root / "jobs" / job)
        bench.slurm.resume("n2")
        told = await seen_until(backend, LaunchFailed, job="j1")
        await anyio.sleep(2.0)  # its supervisor makes the folder anew
        await order(backend, Terminate(J0, 1))
        told += await seen_until(backend, AttemptExited, job="j0")
        assert len(ends_in(told)) == 1
        bench.slurm.resume("n2")
    bench.assert_nothing_twice()
