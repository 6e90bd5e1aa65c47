"""A whole cluster over SSH: scheduler, log, and hosts that are cut and powered off."""

import importlib.util
import os
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from shunter.api import NODE_STATES, Metrics
from shunter.config import LoadedConfig, make_config
from shunter.daemon import Site, Submission
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    GpuType,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobId,
    JobSpec,
    JobSuspended,
    LaunchFailed,
    NodeLost,
    NodeReachable,
    NodeUnreachable,
    Outcome,
)
from shunter.events.log import read_log
from tests.live.site.sites import NOBODY, at_work, events_until, remove_ended, verified
from tests.live.ssh.bench import Bench
from tests.live.ssh.namespaces import Namespaces
from tests.live.ssh.site import cluster, worker

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

EXAMPLE = Path(__file__).parents[3] / "examples" / "live" / "local"
PATIENCE_S = 120.0
TRAINED = {"narrow": (1, 4, 40), "wide": (2, 6, 60)}  # GPUs, seed and steps, as in the example
HAS_TORCH = importlib.util.find_spec("torch") is not None


async def all_end(site: Site, names: list[JobId]) -> list[Outcome | None]:
    """Wait until jobs have ended; return how."""
    left = set(names)
    with anyio.fail_after(PATIENCE_S):
        async for _, event in site.follow(0):
            if isinstance(event, JobFinished | JobFailed | JobCancelled):
                left.discard(event.job_id)
            if not left:
                break
    return [site.past.outcome(name) for name in names]


@asynccontextmanager
async def working(bench: Bench, **changes: object) -> AsyncIterator[Site]:
    async with at_work(cluster(bench.farm, bench.folder, **changes)) as site:
        yield site


def moved(bench: Bench) -> LoadedConfig:
    """Return the config of the example for this machine, with another table [backend]."""
    tree = tomllib.loads((EXAMPLE / "cluster.toml").read_text())
    host = bench.farm["n0"]
    ssh = {
        "root": str(bench.folder / "daemon"),
        "known_hosts": str(bench.farm.known_hosts),
        "keys": [str(bench.farm.key)],
        "python": sys.executable,
        "hosts": {"gpu1": {"address": host.address, "port": host.port, "base": str(host.root)}},
    }
    tree["backend"] = {"kind": "ssh", "ssh": ssh}
    tree["log"]["url"] = str(bench.folder / "log.db")  # beside the example nothing is written
    return make_config(tree)


async def test_nothing_but_the_backend_moves_a_cluster_to_ssh(bench: Bench) -> None:
    async with at_work(moved(bench)) as site:
        says = Submission(JobSpec(command=("/bin/echo", "over SSH")))
        names = [await site.submit(says, NOBODY) for _ in range(3)]
        names.append(await site.submit(worker(bench.folder, "both", 0.1, gpus=2), NOBODY))
        assert await all_end(site, names) == [Outcome.finished] * 4
        assert await site.read_output(names[0], 1, "stdout.0", 0, 100) == (b"over SSH\n", 9)
    assert (await verified(bench.folder)).divergence is None


def training(name: str) -> tuple[Submission, list[str]]:
    """Return a job as the example submits it, and the command that nobody interrupts."""
    gpus, seed, steps = TRAINED[name]
    command = (sys.executable, "train.py", str(seed), str(steps))
    spec = JobSpec(
        command=(*command, "0.04"),
        directory=str(EXAMPLE),
        name=name,
        gpus=gpus,
        total_steps=steps,
    )
    return Submission(spec), [sys.executable, str(EXAMPLE / "train.py"), str(seed), str(steps)]


@pytest.mark.xdist_group("training")
@pytest.mark.rotating(among="training example")
@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed: make live does it")
async def test_training_of_the_example_goes_on_over_ssh_with_the_same_losses(bench: Bench) -> None:
    """Goal: PyTorch jobs move by [backend] alone. Method: two of the example's, one suspended."""
    async with at_work(moved(bench)) as site:
        names = [await site.submit(training(name)[0], NOBODY) for name in TRAINED]
        with anyio.fail_after(PATIENCE_S):
            while (await printed(site, names[1], 1)).count("\n") < 10:  # noqa: ASYNC110  no event
                await anyio.sleep(0.1)
        await site.tell(site.commands.suspend(names[1], NOBODY))
        await events_until(site, lambda seen: any(isinstance(one, JobSuspended) for one in seen))
        await site.tell(site.commands.resume(names[1], NOBODY))
        assert await all_end(site, names) == [Outcome.finished] * 2
        losses = [
            await printed(site, names[0], 1),
            await printed(site, names[1], 1) + await printed(site, names[1], 2),
        ]
    for name, found in zip(TRAINED, losses, strict=True):
        whole = await anyio.run_process(training(name)[1])
        assert found == whole.stdout.decode()
        print(f"{name}: {found.count(chr(10))} losses, the same bit for bit")
    assert (await verified(bench.folder)).divergence is None


async def printed(site: Site, job_id: JobId, attempt: int) -> str:
    """Return what an attempt has printed; nothing if it has not begun."""
    said, _ = await site.read_output(job_id, attempt, "stdout.0", 0, 100_000)
    return said.decode()


async def test_cluster_lives_through_cuts_and_a_lost_host(
    network: tuple[Bench, Namespaces],
) -> None:
    """Eight jobs on three hosts: one is cut off for a while, one loses its power for good."""
    bench, farm = network
    async with working(bench, heartbeat_deadline=3.0) as site:
        names = [
            await site.submit(worker(bench.folder, f"w{number}", 2.0), NOBODY)
            for number in range(7)
        ]
        names.append(await site.submit(worker(bench.folder, "gang", 1.0, gpus=2), NOBODY))
        await started(site, 3)
        farm.drop("n0")
        await events_until(site, lambda seen: any(isinstance(one, NodeUnreachable) for one in seen))
        farm.undrop("n0")
        await events_until(site, lambda seen: any(isinstance(one, NodeReachable) for one in seen))
        farm.power_off("n1")
        seen = await events_until(site, lambda seen: any(isinstance(one, NodeLost) for one in seen))
        assert await all_end(site, names) == [Outcome.finished] * 8
        lost = [one for one in seen if isinstance(one, AttemptLost)]
        assert all(one.job_id in names for one in lost)
    bench.assert_nothing_twice()
    assert (await verified(bench.folder)).divergence is None


async def test_metrics_tell_a_host_that_does_not_answer_from_one_that_is_lost(
    network: tuple[Bench, Namespaces],
) -> None:
    bench, farm = network

    async def comes(site: Site, state: str) -> None:
        wanted = {
            *(
                f'shunter_node_state{{node="n0",state="{one}"}} {one == state:d}.0'
                for one in NODE_STATES
            ),
            f'shunter_node_up{{node="n0"}} {state == "up":d}.0',
        }
        page = Metrics(site).page
        with anyio.fail_after(PATIENCE_S):
            while wanted.difference(page(0).decode().splitlines()):  # noqa: ASYNC110  no event
                await anyio.sleep(0.05)

    async with working(bench, heartbeat_deadline=600.0) as site:
        await comes(site, "up")
        farm.drop("n0")
        await comes(site, "unreachable")
    async with working(bench, heartbeat_deadline=3.0) as site:
        await comes(site, "lost")
        farm.undrop("n0")
        await comes(site, "up")


async def test_attempt_whose_records_are_gone_was_lost_and_not_a_launch_that_failed(
    bench: Bench,
) -> None:
    """As on one machine: somebody tidied its folder while no scheduler looked."""
    async with working(bench) as site:
        name = await site.submit(worker(bench.folder, "tidied", 0.2), NOBODY)
        await started(site, 1)
    (folder,) = sorted(bench.folder.glob(f"*/clusters/*/jobs/{name}/1"))
    await to_thread.run_sync(remove_ended, folder)
    async with working(bench) as site:
        assert await all_end(site, [name]) == [Outcome.finished]
    async with read_log(str(bench.folder / "log.db")) as reader:
        events = [event async for event in reader.events()]
    told = [type(event) for event in events if isinstance(event, AttemptLost | LaunchFailed)]
    assert told == [AttemptLost]


async def started(site: Site, count: int) -> None:
    """Wait until so many attempts have started."""
    await events_until(
        site, lambda seen: sum(isinstance(one, AttemptStarted) for one in seen) >= count
    )


async def test_units_of_cpu_are_devices_over_ssh_too(bench: Bench) -> None:
    """A job on units is bound to their CPUs, and sees no GPU; one on both types takes either."""
    first, second, *others = [str(name) for name in bench.farm.hosts]
    units = {"name": second, "gpus": 0, "units": 2, "type": "cpu", "cpus": 2}
    nodes = [{"name": name, "gpus": 1, "type": "v100"} for name in (first, *others)]
    says = (
        "import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']), len(os.sched_getaffinity(0)))"
    )
    spec = JobSpec(
        command=(sys.executable, "-c", says), gpu_types=(GpuType("v100"), GpuType("cpu"))
    )
    changed = {"cluster.nodes": [*nodes, units]}
    async with at_work(cluster(bench.farm, bench.folder).replaced(changed, "test")) as site:
        jobs = await site.submit_together([Submission(spec)] * 4, NOBODY)
        assert await all_end(site, jobs) == [Outcome.finished] * 4
        said = [(await site.read_output(job, 1, "stdout.0", 0, 100))[0].decode() for job in jobs]
    cpus = len(os.sched_getaffinity(0))
    assert said == [f"'0' {cpus}\n"] * 2 + ["'' 1\n"] * 2
    assert (await verified(bench.folder)).divergence is None
