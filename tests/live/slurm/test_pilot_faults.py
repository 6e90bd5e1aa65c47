"""Faults of Slurm, of its administrators and of the daemon, two or more at a time, on real jobs.

Each test runs a whole daemon as a process of its own on a real cluster, and kills for real. Jobs
keep a ledger: none may run twice, each does its last step once, and the log verifies.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from shunter.backends.slurm import node_service
from shunter.daemon import Site, Submission
from shunter.events import AttemptStarted, GpuType, Outcome
from tests.live.site.daemons import Daemon
from tests.live.site.sites import NOBODY
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.pilots import PATIENCE_S, PilotBench, most_at_once
from tests.live.slurm.site import assert_all_well, cluster, served, until, worker

pytestmark = [pytest.mark.live, pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


@pytest.fixture
def bench(
    slurm: SlurmBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PilotBench]:
    """A cluster, an empty folder, and daemons that look at nodes as often as at the queue."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setattr(node_service, "POLLS_BETWEEN", 0.25)
    found = PilotBench(slurm, tmp_path)
    found.root.mkdir(mode=0o700)
    yield found
    found.clean()


def daemon_of(
    bench: PilotBench,
    nodes: tuple[str, ...],
    *requests: Submission,
    cancels: tuple[str, int] | None = None,
    **changes: object,
) -> Daemon:
    """Start a daemon that submits jobs, unless they were before, and stops when all have ended.

    It cancels a job once a certain attempt of it has started.
    """

    async def deed(site: Site) -> None:
        for request in requests:
            await site.submit(request, NOBODY)
        async for _, event in site.follow(0):
            if isinstance(event, AttemptStarted) and (event.job_id, event.attempt) == cancels:
                await site.tell(site.commands.cancel(event.job_id, NOBODY))
            if not site.state.jobs:
                return

    return Daemon(cluster(bench, *nodes, **changes), deed)


def begun(bench: PilotBench, key: str, attempt: int = 1) -> Callable[[], bool]:
    """Return whether an attempt of a job has begun, by its ledger."""
    return lambda: bench.runs()[f"{key}.{attempt}.0"] > 0


def wait(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds, of which no daemon tells."""
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s, f"waited for {what}"
        time.sleep(0.02)


def ends_well(bench: PilotBench, daemon: Daemon, *outcomes: Outcome) -> None:
    """Await the end of all jobs, and hold that nothing went wrong."""
    assert daemon.wait() == 0
    assert most_at_once(bench.pilots("RUNNING").values()) <= 1
    anyio.run(assert_all_well, bench, *outcomes)


@pytest.mark.asyncio
async def test_held_partition_and_held_pilot_are_waited_for_with_their_reason(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = bench.slurm
    slurm.command("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        async with served(bench, monkeypatch, "n1") as site:
            await site.submit(worker(bench, "one", 0.1), NOBODY)
            await until(site, lambda: "PartitionDown" in str(site.node_causes), "its reason")
            (number,) = bench.pilots("PENDING")["n1"]
            slurm.command("scontrol", "hold", str(number))
            slurm.command("scontrol", "update", "PartitionName=main", "State=UP")
            await until(site, lambda: "JobHeld" in str(site.node_causes), "the other reason")
            print(dict(site.node_causes))
            slurm.command("scontrol", "release", str(number))
            await until(site, lambda: not site.state.jobs, "the end of the job")
            assert bench.pilots()["n1"] == [number]
    finally:
        slurm.command("scontrol", "update", "PartitionName=main", "State=UP")
    await assert_all_well(bench)


def test_pilot_that_ends_while_the_daemon_is_dead_suspends_its_job(bench: PilotBench) -> None:
    """Slurm tells a pilot of its time limit as scancel does here; the job goes on in another."""
    request = worker(bench, "one", 3.0)
    daemon = daemon_of(bench, ("n1",), request)
    wait(begun(bench, "j1"), "the job")
    (number,) = bench.pilots()["n1"]
    daemon.kill()
    bench.slurm.command("scancel", "--signal=USR1", "--batch", str(number))
    wait(lambda: bench.slurm.state_of(number) == "COMPLETED", "the end of the pilot")
    ends_well(bench, daemon_of(bench, ("n1",), request))
    assert bench.resumed() == ["j1.2.0"]


def test_pilots_cancelled_and_requeued_by_an_administrator_lose_no_job(bench: PilotBench) -> None:
    """The one is cancelled, and the other run again by Slurm, though it asked not to be."""
    requests = [worker(bench, key, 4.0, gpus=4) for key in ("one", "two")]
    daemon = daemon_of(bench, ("n1", "n2"), *requests)
    wait(lambda: begun(bench, "j1")() and begun(bench, "j2")(), "both jobs")
    (one,), (two,) = bench.pilots()["n1"], bench.pilots()["n2"]
    bench.slurm.command("scancel", str(one))
    bench.slurm.command("scontrol", "update", f"JobId={two}", "Requeue=1")
    bench.slurm.command("scontrol", "requeue", str(two))
    ends_well(bench, daemon)
    assert sum(bench.runs().values()) == 4


def test_files_of_pilots_that_are_gone_hinder_nobody(bench: PilotBench) -> None:
    """The daemon is killed as well, so that it has to find its pilots without them."""
    requests = [worker(bench, key, 5.0, gpus=4) for key in ("one", "two")]
    daemon = daemon_of(bench, ("n1", "n2"), *requests)
    wait(lambda: begun(bench, "j1")() and begun(bench, "j2")(), "both jobs")
    daemon.kill()
    shutil.rmtree(bench.root / "pilots")
    ends_well(bench, daemon_of(bench, ("n1", "n2"), *requests))


def test_attempt_whose_folder_is_gone_goes_on_and_ends_once(bench: PilotBench) -> None:
    """It is gone while the daemon is dead: its supervisor makes it anew, and tells its end."""
    request = worker(bench, "one", 4.0)
    daemon = daemon_of(bench, ("n1",), request)
    wait(begun(bench, "j1"), "the job")
    daemon.kill()
    (folder,) = sorted(bench.root.glob("nodes/n1/clusters/*/jobs/j1"))
    shutil.rmtree(folder)
    ends_well(bench, daemon_of(bench, ("n1",), request))


def test_controller_killed_right_after_submissions_and_the_daemon_with_it(
    bench: PilotBench,
) -> None:
    """What Slurm forgot is asked for again, and a stranger that got its id is left alone."""
    slurm = bench.slurm
    requests = [worker(bench, key, 1.0, gpus=4) for key in ("one", "two")]
    daemon = daemon_of(bench, ("n1", "n2"), *requests)
    wait(lambda: len(bench.pilots()) == 2, "both pilots")
    slurm.kill_slurmctld()
    daemon.kill()
    slurm.start_slurmctld()
    known = bench.pilots()
    stranger = slurm.submit("exec sleep 300", "--nodelist=n4")
    ends_well(bench, daemon_of(bench, ("n1", "n2"), *requests))
    print(f"the controller knew {known} after its crash, and gave id {stranger} to a stranger")
    assert slurm.state_of(stranger) in {"RUNNING", "PENDING"}


def test_controller_that_is_away_while_the_daemon_is_killed_and_a_job_submitted(
    bench: PilotBench,
) -> None:
    slurm = bench.slurm
    one = worker(bench, "one", 6.0, gpu_types=(GpuType("v100"),))
    two = worker(bench, "two", 0.5, gpu_types=(GpuType("p100"),))
    daemon = daemon_of(bench, ("n1", "n3"), one, call=2.0)
    wait(begun(bench, "j1"), "the first job")
    slurm.wait_until_saved(bench.pilots()["n1"][0])
    slurm.kill_slurmctld()
    daemon.kill()
    daemon = daemon_of(bench, ("n1", "n3"), one, two, call=2.0)
    time.sleep(3)
    assert not begun(bench, "j2")(), "nobody gives it a node"
    slurm.start_slurmctld()
    ends_well(bench, daemon)
    assert bench.runs() == {"j1.1.0": 1, "j2.1.0": 1}


def test_node_that_slurm_gave_up_and_the_daemon_killed_meanwhile(bench: PilotBench) -> None:
    """Its job lives on; the next daemon starts nothing else there until the node is back."""
    slurm = bench.slurm
    requests = [worker(bench, "one", 300.0, gpus=2), worker(bench, "two", 0.1, gpus=2)]
    daemon = daemon_of(bench, ("n1",), requests[0])
    wait(begun(bench, "j1"), "the first job")
    (number,) = bench.pilots()["n1"]
    slurm.kill_slurmd("n1")
    daemon.kill()
    daemon = daemon_of(bench, ("n1",), requests[0])
    wait(lambda: slurm.state_of(number) == "NODE_FAIL", "Slurm giving the node up")
    wait(lambda: slurm.states()["n1"].startswith("down"), "the node down")
    daemon.kill()
    daemon = daemon_of(bench, ("n1",), *requests, cancels=("j1", 2))
    time.sleep(3)
    assert bench.runs() == {"j1.1.0": 1}
    slurm.start_slurmd("n1")
    ends_well(bench, daemon, Outcome.cancelled, Outcome.finished)
