"""How Slurm ends what programs of suspend mode `signal` run in, and what of it they can save.

The bench tracks processes by linuxproc: SIGTERM reaches all of a job's at once. One program here
saves on SIGUSR1 and dies of SIGTERM; the other is the same, started with SIGTERM ignored.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.daemon import Submission
from shunter.events import AttemptStarted, JobId, JobSpec, JobSuspended, JobWarned, SuspendMode
from shunter.events.log import read_log
from tests.live.site.sites import NOBODY, of, verified
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.pilots import PilotBench
from tests.live.slurm.site import served, until
from tests.live.ssh.bench import WORKER

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
]
IS_ASKED = 'if os.path.exists(os.environ["SHUNTER_SUSPEND"]):'
SAVES_ON_SIGUSR1 = (
    "import signal\nasked = []\nsignal.signal(signal.SIGUSR1, lambda *_: asked.append(1))\n"
    + WORKER.replace(IS_ASKED, "if asked:")
)
ENDS_WITH_0 = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n" + WORKER
IGNORES = ("/bin/sh", "-c", "trap '' TERM; exec \"$@\"", "sh")
BOTH = pytest.mark.parametrize("mode", ["pilot", "per-job"])
GANG = pytest.mark.parametrize("gpus", [1, 8], ids=["one-server", "gang"])


@pytest.fixture
def bench(slurm: SlurmBench, tmp_path: Path) -> Iterator[PilotBench]:
    """A cluster with partitions that preempt others, and a folder that is empty."""
    assert IS_ASKED in WORKER
    found = PilotBench(slurm, tmp_path)
    usual = ("Nodes=n1,n2", "State=UP", "MaxTime=INFINITE", "DefaultTime=60")
    for name, how in (
        ("urgent", ("PriorityTier=10", "PreemptMode=OFF")),
        ("cancels", ("PriorityTier=1", "PreemptMode=CANCEL")),
        ("requeues", ("PriorityTier=1", "PreemptMode=REQUEUE")),
        ("warns", ("PriorityTier=1", "PreemptMode=CANCEL", "GraceTime=45")),
    ):
        slurm.command("scontrol", "create", f"PartitionName={name}", *how, *usual)
    yield found
    found.clean()
    slurm.restore()
    for name in ("urgent", "cancels", "requeues", "warns"):
        slurm.command("scontrol", "delete", f"PartitionName={name}")


def saver(
    bench: PilotBench, *first: str, gpus: int = 1, text: str = SAVES_ON_SIGUSR1
) -> Submission:
    """Return a job that works until there is a file `enough`, and saves on SIGUSR1."""
    program = (sys.executable, "-I", "-S", "-c", text, str(bench.folder), "600", "0")
    spec = JobSpec(gpus, command=(*first, *program), suspend_mode=SuspendMode.signal)
    return Submission(spec, key="one")


def running(bench: PilotBench) -> list[int]:
    """Return the Slurm jobs of ours that run, pilots or attempts."""
    words = ("squeue", "-h", "-a", "-t", "RUNNING", "-o", "%A %j")
    lines = [line.split() for line in bench.slurm.command(*words).splitlines()]
    return sorted(int(number) for number, name in lines if name.startswith("shunter:"))


async def ended_by(
    bench: PilotBench, patch: pytest.MonkeyPatch, job: Submission, *how: str, **changes: object
) -> JobSuspended:
    """Have a command end what a job runs in, and the job go on; return what is told of it.

    Args:
        bench: the cluster.
        patch: for the daemon.
        job: what is submitted.
        how: the command, to which the number of the Slurm job is added.
        changes: of the config.
    """
    ranks = 2 if job.spec.gpus > 4 else 1
    async with served(bench, patch, "n1", "n2", **changes) as site:
        await site.submit(job, NOBODY)
        await until(site, lambda: len(bench.runs()) == ranks, "the first attempt")
        number = "" if how[0] == "sbatch" else str(running(bench)[0])
        bench.slurm.command(*how, *([number] if number else []), stdin="#!/bin/sh\nsleep 2\n")
        await until(site, lambda: len(bench.runs()) == 2 * ranks, "the next attempt")
        (bench.folder / "enough").touch()
        await until(site, lambda: not site.state.jobs, "the end of the job")
    bench.assert_nothing_twice()
    verdict = await verified(bench.folder)
    assert (verdict.divergence, verdict.past.outcome(JobId("j1"))) == (None, "finished")
    assert len([line for line in bench.ledger() if line[4] == "done"]) == ranks
    async with read_log(str(bench.folder / "log.db")) as reader:
        events = [event async for event in reader.events()]
    (suspended,) = of(events, JobSuspended)
    assert len(of(events, AttemptStarted)) == 2
    return suspended


def saved(bench: PilotBench) -> int:
    """Return how many ranks have saved."""
    return len([line for line in bench.ledger() if line[4] == "saved"])


@pytest.mark.rotating("mode", "gpus")
@BOTH
@GANG
async def test_program_that_ignores_sigterm_saves_when_it_is_cancelled_in_slurm(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch, mode: str, gpus: int
) -> None:
    job = saver(bench, *IGNORES, gpus=gpus)
    seen = await ended_by(bench, monkeypatch, job, "scancel", mode=mode)
    ranks = 2 if gpus > 4 else 1
    assert (saved(bench), seen.lost_us) == (ranks, 0)
    assert len(bench.resumed()) == ranks
    assert "scancel" in seen.cause


@pytest.mark.rotating("mode")
@BOTH
async def test_program_without_a_handler_for_sigterm_begins_again_and_the_log_says_so(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """It does run again, and once: what is lost is all since its start."""
    seen = await ended_by(bench, monkeypatch, saver(bench), "scancel", mode=mode)
    assert (saved(bench), bench.resumed()) == (0, [])
    assert seen.lost_us > 0
    if mode == "pilot":
        assert "to programs that handle it" in seen.cause
    else:
        assert seen.cause == "it was cancelled in Slurm (scancel)"


@pytest.mark.rotating("mode", "gpus")
@BOTH
@GANG
async def test_program_that_ends_with_0_at_sigterm_has_not_finished(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch, mode: str, gpus: int
) -> None:
    """As Lightning does; its owner is told. A rank in another pilot is asked, and saves."""
    job = saver(bench, gpus=gpus, text=ENDS_WITH_0)
    seen = await ended_by(bench, monkeypatch, job, "scancel", mode=mode)
    others = 1 if (mode, gpus) == ("pilot", 8) else 0
    assert (saved(bench), len(bench.resumed()), seen.exit_code) == (others, others, 0)
    assert seen.lost_us > 0
    async with read_log(str(bench.folder / "log.db")) as reader:
        warned = of([event async for event in reader.events()], JobWarned)
    assert warned
    assert all(one.text.startswith("ended with status 0 when SIGTERM told it") for one in warned)


@pytest.mark.rotating("mode", "gpus")
@BOTH
@GANG
async def test_notice_that_a_person_sends_has_every_program_save(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch, mode: str, gpus: int
) -> None:
    """The signal that Slurm sends before the time limit reaches our own program alone.

    In per-job mode srun has to hand SIGUSR1 on to the second rank of a gang.
    """
    notice = "--signal=USR1" if mode == "pilot" else "--signal=USR2"
    how = ("scancel", notice, "--batch")
    seen = await ended_by(bench, monkeypatch, saver(bench, gpus=gpus), *how, mode=mode)
    ranks = 2 if gpus > 4 else 1
    assert (saved(bench), seen.lost_us) == (ranks, 0)
    assert len(bench.resumed()) == ranks
    assert "time limit" not in seen.cause


@pytest.mark.rotating("mode", "partition")
@BOTH
@pytest.mark.parametrize("partition", ["cancels", "requeues", "warns"])
async def test_preempted_job_goes_on_elsewhere_and_saves_in_the_grace_of_its_partition(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch, mode: str, partition: str
) -> None:
    """Slurm tells a batch script nothing of a grace that has begun: squeue does."""
    usual = ("sbatch", "--partition=urgent", "--nodelist=n1", "--exclusive", "--output=/dev/null")
    changes = {"mode": mode, "partition": partition}
    seen = await ended_by(bench, monkeypatch, saver(bench), *usual, **changes)
    assert saved(bench) == (1 if partition == "warns" else 0)
    assert len(bench.resumed()) == saved(bench)
    assert "preempt" in seen.cause
