"""Attempts that are Slurm jobs of their own, on a real cluster, and all that goes wrong there."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from shunter.backends.slurm import JobBackend, Slurm
from shunter.core import AttemptExited, Continue, Input, Stop, SuspendAttempt, Terminate
from shunter.errors import SlurmUnknownError
from shunter.events import (
    AllocationLearned,
    AttemptLost,
    AttemptStarted,
    GpusTaken,
    JobContinued,
    JobStopped,
    JobSuspended,
    LaunchFailed,
    NodeName,
)
from tests.factories import allocation, job_id
from tests.live.slurm.bench import SEARCHED, SlurmBench
from tests.live.slurm.jobs import JobBench
from tests.live.slurm.pilots import comes, ends_in, leaves
from tests.live.ssh.bench import order, rest, seen_until

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm-jobs"),
]
J0 = job_id(0)
NAME = "j0.a1"
AT_LIMIT = """#!/bin/sh
[ -e '{full}' ] || exec '{real}' "$@"
echo 'sbatch: error: AssocMaxSubmitJobLimit' >&2
echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" >&2
exit 1
"""


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


def occupied(bench: JobBench, node: str) -> str:
    """Have somebody else's job take all CPUs of a node; return its number."""
    number = bench.slurm.submit("exec sleep 300", f"--nodelist={node}", "--exclusive")
    bench.slurm.wait_for(lambda: bench.slurm.state_of(number) == "RUNNING", "the stranger")
    return str(number)


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
        await order(backend, SuspendAttempt(J0, 1))
        (ended,) = ends_in(await leaves(backend))
        assert isinstance(ended, JobSuspended)
        await order(backend, bench.launching("n1", "n2", attempt=2, work_s=0.1))
        await seen_until(backend, AttemptExited)
    assert bench.resumed() == ["j0.2.0", "j0.2.1"]
    bench.assert_nothing_twice()


@pytest.mark.parametrize("masks", [{"n1": 0b1, "n2": 0b111}, {"n2": 0b1, "n1": 0b1110}])
async def test_gang_of_unequal_parts_gets_them_where_they_were_planned(
    bench: JobBench, masks: dict[str, int]
) -> None:
    """The first rank where it was planned, all alike in what they see, CPUs as many as GPUs."""
    keeps = f'env > "{bench.folder}/env.$RANK"; exec "$@"'
    effects = []
    for attempt, work_s in ((1, 600.0), (2, 0.1)):
        launch = bench.launching("n1", attempt=attempt, work_s=work_s)
        spec = replace(launch.spec, command=("/bin/sh", "-c", keeps, "sh", *launch.spec.command))
        effects.append(replace(launch, allocation=allocation(**masks), spec=spec))
    nodes = tuple(replace(each, cpus=tuple(range(16))) for each in bench.settings().nodes)
    async with bench.jobs_opened(nodes=nodes) as backend:
        await order(backend, effects[0])
        await seen_until(backend, AttemptStarted)
        await comes(lambda: len(bench.runs()) == 2, lambda: str(bench.ledger()))
        running = bench.slurm.command("squeue", "-h", "-a", "-t", "RUNNING", "-o", "%j %N %C")
        cpus = sorted(
            (nodes, cpus)
            for name, nodes, cpus in map(str.split, running.splitlines())
            if name.endswith(NAME)
        )
        assert cpus == sorted((node, str(4 * mask.bit_count())) for node, mask in masks.items())
        await order(backend, SuspendAttempt(J0, 1))
        (ended,) = ends_in(await leaves(backend))
        assert isinstance(ended, JobSuspended)
        await order(backend, effects[1])
        await seen_until(backend, AttemptExited)
        await comes(lambda: not bench.jobs(), lambda: str(bench.jobs()))
    assert {(rank, node) for _, _, rank, node, _ in bench.ledger()} == {
        (str(rank), node) for rank, node in enumerate(masks)
    }
    for rank, mask in enumerate(masks.values()):
        seen = dict(
            line.partition("=")[::2]
            for line in (bench.folder / f"env.{rank}").read_text().splitlines()
        )
        assert len(seen["CUDA_VISIBLE_DEVICES"].split(",")) == mask.bit_count()
        assert not [name for name in seen if name.startswith("SLURM")]
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
        backend.adopt(J0, 1, started=True, noted={NodeName("n1"): 1}, on=allocation(n1=0b0001))
        await order(backend, Continue(J0, 1))
        told = await seen_until(backend, JobContinued)
        await order(backend, Terminate(J0, 1))
        told += await seen_until(backend, AttemptExited)
        assert len(ends_in(told)) == 1
    bench.assert_nothing_twice()


async def test_attempt_that_stands_still_is_suspended_in_slurm_where_that_is_wanted(
    bench: JobBench,
) -> None:
    """For longer than its supervisor goes without a sign of life; its CPUs are others', no GPU."""
    async with bench.jobs_opened(
        is_suspended_in_slurm=True, heartbeat_deadline_s=4.0, patrol_s=1.0
    ) as backend:
        await runs_on(bench, backend, "n1")
        (number,) = bench.jobs()[NAME]
        await order(backend, Stop(J0, 1))
        await seen_until(backend, JobStopped)
        await comes(lambda: bench.slurm.state_of(number) == "SUSPENDED", lambda: "not suspended")
        shown = bench.slurm.command("scontrol", "show", "node", "n1", "-d")
        assert "CPUAlloc=0" in shown
        assert "GresUsed=gpu:v100:1" in shown
        assert ends_in(await rest(backend, 6.0)) == []
        await order(backend, Stop(J0, 1))  # again, which changes nothing
        await order(backend, Continue(J0, 1))
        await seen_until(backend, JobContinued)
        assert bench.slurm.state_of(number) == "RUNNING"
        await order(backend, Stop(J0, 1))
        await comes(lambda: bench.slurm.state_of(number) == "SUSPENDED", lambda: "not suspended")
        await order(backend, SuspendAttempt(J0, 1))
        (ended,) = ends_in(await leaves(backend))
        assert isinstance(ended, JobSuspended)
        await goes_on(bench, backend, "n2")


def has_session_leader(processes: list[int]) -> bool:
    """Say whether a process that sleeps leads a session of its own."""
    with suppress(OSError):
        for pid in processes:
            if Path(f"/proc/{pid}/comm").read_text() == "sleep\n" and os.getsid(pid) == pid:
                return True
    return False


@pytest.mark.parametrize("heeds", [False, True], ids=["is-killed", "saves"])
async def test_attempt_that_an_administrator_cancels_goes_on_elsewhere(
    bench: JobBench, *, heeds: bool
) -> None:
    """Also where Slurm has ended it before its answers about the attempt count (`settle_s`)."""
    launch = bench.launching("n1")
    if not heeds:  # nor does what it started in a session of its own
        ignoring = "trap '' TERM; setsid sleep 600 & trap '' TERM; while true; do sleep 1; done"
        launch = replace(launch, spec=replace(launch.spec, command=("/bin/bash", "-c", ignoring)))
    async with bench.jobs_opened(cooperative_s=600.0, settle_s=8.0) as backend:
        await order(backend, launch)
        await seen_until(backend, AttemptStarted)
        if not heeds:
            await comes(lambda: has_session_leader(bench.processes_of("j0", 1)), "its own session")
        (number,) = bench.jobs()[NAME]
        refused = bench.slurm.command("scontrol", "requeue", str(number), check=False)
        assert refused == ""  # --no-requeue: whatever it said, the job runs on
        bench.slurm.command("scancel", str(number))
        (ended,) = ends_in(await leaves(backend))
        assert isinstance(ended, JobSuspended if heeds else AttemptLost)
        assert ended.cause == "it was cancelled in Slurm (scancel)"
        if heeds:
            await goes_on(bench, backend, "n2")
        else:
            assert bench.processes_of("j0", 1) == []


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
            await order(backend, SuspendAttempt(J0, 1))  # it has nothing to save
            bench.slurm.command("scancel", str(number))
            told = await seen_until(backend, LaunchFailed, job="j0")
            told += await seen_until(backend, LaunchFailed, job="j1")
            failed = {each.job_id: each.cause for each in told if isinstance(each, LaunchFailed)}
            print(failed)
            by_hand = "before it began: it was cancelled in Slurm (scancel)"
            assert failed[job_id(1)] == by_hand
            assert bench.jobs("PENDING", "RUNNING") == {}
            bench.slurm.command("scontrol", "update", "PartitionName=main", "State=UP")
            await goes_on(bench, backend, "n1")
    finally:
        bench.slurm.command("scontrol", "update", "PartitionName=main", "State=UP")


async def test_attempt_that_a_limit_on_submissions_refuses_is_submitted_later(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bench has no accounting, so its sbatch says what one at a limit says, for a while."""
    real, full = shutil.which("sbatch", path=SEARCHED), bench.folder / "full"
    (bench.folder / "bin").mkdir()
    sbatch = bench.folder / "bin" / "sbatch"
    sbatch.write_text(AT_LIMIT.format(full=full, real=real))
    sbatch.chmod(0o755)
    full.touch()
    monkeypatch.setenv("PATH", f"{sbatch.parent}:{SEARCHED}")
    async with bench.jobs_opened() as backend:
        await order(backend, bench.launching("n1", work_s=0.1), bench.launching("n2", job="j1"))
        told = (
            "Slurm takes it only later (AssocMaxSubmitJobLimit: a limit of the account on jobs "
            "submitted, for each user)"
        )
        await comes(lambda: backend.launch_wait(J0) == told, lambda: backend.launch_wait(J0))
        await order(
            backend, SuspendAttempt(job_id(1), 1)
        )  # it is withdrawn like one that waits in Slurm
        await seen_until(backend, LaunchFailed, job="j1")
        assert backend.launch_wait(J0) == told
        full.unlink()
        (ended,) = ends_in(await seen_until(backend, AttemptExited, job="j0"))
        assert isinstance(ended, AttemptExited)
        assert ended.exit_code == 0
    assert set(bench.runs()) == {"j0.1.0"}
    bench.assert_nothing_twice()


async def test_attempt_starts_where_slurm_runs_jobs_for_less_than_it_may_take(
    bench: JobBench,
) -> None:
    """The partition's limit is half an hour; asked for longer, jobs wait there for ever."""
    async with bench.jobs_opened(partition="short") as backend:
        await comes(lambda: backend.out_of_service(0.0) is not None, lambda: "no look at nodes")
        own = bench.launching("n2", job="j1")
        own = replace(own, spec=replace(own.spec, time_limit_us=29 * 60_000_000))
        await order(backend, bench.launching("n1"), own)
        await seen_until(backend, AttemptStarted, job="j0")
        asked = bench.slurm.command("squeue", "-h", "-a", "-t", "RUNNING", "-o", "%l").split()
        assert asked == ["30:00"] * 2


async def test_attempt_that_waits_for_a_node_that_is_drained_is_withdrawn(
    bench: JobBench,
) -> None:
    """One that waits for a node in service stays in Slurm's queue."""
    held = [occupied(bench, node) for node in ("n1", "n2")]
    async with bench.jobs_opened() as backend:
        await order(backend, bench.launching("n1"), bench.launching("n2", job="j1"))
        await comes(lambda: len(bench.jobs("PENDING")) == 2, lambda: str(bench.jobs()))
        bench.slurm.drain("n1", "a fan is broken")
        (failed,) = [
            each
            for each in await seen_until(backend, LaunchFailed)
            if isinstance(each, LaunchFailed)
        ]
        assert (failed.job_id, failed.cause) == (J0, "Slurm has node n1 drained: a fan is broken")
        await comes(lambda: sorted(bench.jobs()) == ["j1.a1"], lambda: str(bench.jobs()))
        bench.slurm.command("scancel", *held)
        await goes_on(bench, backend, "n3")
        await comes(lambda: bench.runs() == {"j0.2.0": 1, "j1.1.0": 1}, lambda: str(bench.runs()))
        bench.slurm.resume("n1")


async def test_attempts_that_slurm_forgot_run_once_all_the_same(bench: JobBench) -> None:
    """One that waited, and one that ran; their ids are another user's by then."""
    held = occupied(bench, "n2")
    forgets = bench.remembers()
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
        bench.slurm.command("scancel", held)
        if not any(isinstance(seen, AttemptExited) for seen in told):
            await seen_until(backend, AttemptExited, job="j1")
        await comes(  # Slurm may take its time, but a job that was cancelled never runs again
            lambda: [bench.slurm.state_of(each) for each in strangers] == ["RUNNING"] * 2,
            lambda: str([bench.slurm.state_of(each) for each in strangers]),
        )
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
        await comes(
            lambda: "has not answered" in backend.launch_wait(job_id(1)), lambda: "no silence"
        )
        assert not any(isinstance(each, LaunchFailed) for each in told + await rest(backend))
        bench.slurm.start_slurmctld()
        await seen_until(backend, AttemptExited, job="j1")
        assert backend.silence == ""
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
        assert ended.cause == "Slurm ended it: NODE_FAIL"
        await goes_on(bench, backend, "n2")
        bench.slurm.start_slurmd("n1")


async def test_lost_answers_and_double_submissions_run_each_attempt_once(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Slurm.submit

    async def unheard(*words: object, **named: object) -> int:
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
    held = occupied(bench, "n2")
    async with bench.jobs_opened() as backend:
        await order(backend, bench.launching("n1"), bench.launching("n2", job="j1"))
        await seen_until(backend, AttemptStarted)
        await comes(lambda: len(bench.jobs()) == 2, lambda: str(bench.jobs()))
        for job in ("j0", "j1"):
            shutil.rmtree(bench.root / "jobs" / job)
        bench.slurm.command("scancel", held)
        told = await seen_until(backend, LaunchFailed, job="j1")
        await anyio.sleep(2.0)  # its supervisor makes the folder anew
        await order(backend, Terminate(J0, 1))
        told += await seen_until(backend, AttemptExited, job="j0")
        assert len(ends_in(told)) == 1
    bench.assert_nothing_twice()
