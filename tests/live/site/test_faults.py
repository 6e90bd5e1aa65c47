"""Jobs that misbehave and machines that fail, under a whole site with real processes.

Goal: no job is lost, none runs twice, no GPU has two jobs at once. Method: jobs hold a lock for
their GPUs, and so does whatever they fork; after each fault a gang of all GPUs must find every lock
free and run to its end.
"""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import lowlevel, to_thread

from shunter.backends.node import attempts, get, put
from shunter.daemon import Site, Submission, watch_clock
from shunter.errors import LogError, UnreachableError
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    ClockStepped,
    Event,
    JobFailed,
    JobFinished,
    JobId,
    JobSpec,
    JobSubmitted,
    JobSuspended,
    RoundPlanned,
    SuspendEscalated,
)
from shunter.events.log import read_log
from tests.live.site.daemons import Daemon
from tests.live.site.sites import (
    NOBODY,
    at_work,
    config,
    events_until,
    machine,
    of,
    outcome,
    verified,
    wait_for,
)
from tests.live.site.witnesses import marks, witness, wrongs

pytestmark = pytest.mark.live

J1 = JobId("j1")
WORKS = "time.sleep(float(sys.argv[2])); mark('worked')"
IGNORES = "signal.signal(signal.SIGTERM, signal.SIG_IGN); mark('deaf'); time.sleep(60)"
FORKS = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        time.sleep(60)
    os._exit(0)
os.wait()
mark("forked")
"""
PRINTS = """
line = b"x" * (1 << 20)
for _ in range(100):
    os.write(1, line)
mark("printed")
"""
FILLS = """
with open(sys.argv[2] + "/full", "wb", buffering=0) as file:
    while True:
        file.write(bytes(1 << 16))
"""
CANNOT_SAVE = """
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]) and os.environ["SHUNTER_ATTEMPT"] == "1":
    time.sleep(0.01)
if os.environ["SHUNTER_ATTEMPT"] == "1":
    say("acknowledged")
    say("failed")
    time.sleep(60)
mark("worked")
"""


@asynccontextmanager
async def endured(root: Path, **changes: Any) -> AsyncIterator[Site]:
    """Run a site; at the end, a gang of all GPUs must run, and everything must add up."""
    async with machine(root, **changes) as site:
        yield site
        gang = await site.submit(witness(root, "mark('worked')", gpus=4), NOBODY)
        assert await outcome(site, gang) == "finished"
        assert not site.state.jobs
        servers = site.state.cluster.servers.values()
        assert not any(server.held or server.decided for server in servers)
    assert wrongs(root) == []
    assert f"{gang}.1 worked" in marks(root)
    assert (await verified(root)).divergence is None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 16 MiB."""
    where = tmp_path / "disk"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(where)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs to mount a tmpfs, as root")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def fill(disk: Path) -> Path:
    """Leave no room on a disk; return the file to remove."""
    path = disk / "filling"
    with suppress(OSError), path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    return path


def is_full(disk: Path) -> bool:
    return os.statvfs(disk).f_bavail == 0


def has_marked(root: Path, mark: str) -> Callable[[], bool]:
    return lambda: mark in marks(root)


async def marked(root: Path, mark: str) -> None:
    """Wait for a mark while the site works on."""
    await to_thread.run_sync(wait_for, has_marked(root, mark))


async def all_events(root: Path) -> list[Event]:
    async with read_log(str(root / "log.db")) as reader:
        return [event async for event in reader.events()]


@pytest.mark.asyncio
async def test_job_that_ignores_sigterm_keeps_its_gpu_until_it_is_killed(tmp_path: Path) -> None:
    async with endured(tmp_path) as site:
        deaf = await site.submit(witness(tmp_path, IGNORES, gpus=4), NOBODY)
        await marked(tmp_path, "j1.1 deaf")
        await site.tell(site.commands.cancel(deaf, NOBODY))
        assert await outcome(site, deaf) == "cancelled"


@pytest.mark.asyncio
async def test_process_that_forked_away_is_gone_before_its_gpu_is_given_on(tmp_path: Path) -> None:
    async with endured(tmp_path) as site:
        job_id = await site.submit(witness(tmp_path, FORKS, gpus=4), NOBODY)
        assert await outcome(site, job_id) == "finished"


@pytest.mark.asyncio
async def test_job_that_fills_its_disk_fails_alone(tmp_path: Path, small_disk: Path) -> None:
    async with endured(tmp_path) as site:
        filling = await site.submit(witness(tmp_path, FILLS, str(small_disk)), NOBODY)
        other = await site.submit(witness(tmp_path, WORKS, "0.2"), NOBODY)
        assert await outcome(site, filling) == "failed"
        assert await outcome(site, other) == "finished"


@pytest.mark.asyncio
async def test_job_that_fills_the_disk_of_all_attempts_holds_nobody_up_for_good(
    tmp_path: Path, small_disk: Path
) -> None:
    """Its own end is recorded in the room that was kept for it; others begin once there is some."""
    local = {"kind": "local", "local": {"root": str(small_disk), "patrol": 0.2}}
    async with endured(tmp_path, backend=local) as site:
        running = await site.submit(witness(tmp_path, WORKS, "0.5"), NOBODY)
        await marked(tmp_path, "j1.1 began")
        filling = await site.submit(witness(tmp_path, FILLS, str(small_disk)), NOBODY)
        await marked(tmp_path, "j1.1 worked")
        late = await site.submit(witness(tmp_path, WORKS, "0.1"), NOBODY)
        await to_thread.run_sync(wait_for, lambda: is_full(small_disk))
        await anyio.sleep(0.3)  # for what cannot be written now to be tried
        (small_disk / "full").unlink()
        assert await outcome(site, filling) == "failed"
        assert await outcome(site, running) == "finished"
        assert await outcome(site, late) == "finished"


@pytest.mark.asyncio
async def test_job_that_prints_100_megabytes_finishes_and_all_can_be_read(tmp_path: Path) -> None:
    async with endured(tmp_path) as site:
        job_id = await site.submit(witness(tmp_path, PRINTS), NOBODY)
        assert await outcome(site, job_id) == "finished"
        piece, size = await site.read_output(job_id, 1, "stdout.0", (100 << 20) - 5, 100)
        assert (piece, size) == (b"x" * 5, 100 << 20)


@pytest.mark.asyncio
async def test_job_that_exits_at_once_leaves_its_code(tmp_path: Path) -> None:
    async with endured(tmp_path) as site:
        job_id = await site.submit(witness(tmp_path, "os._exit(7)"), NOBODY)
        assert await outcome(site, job_id) == "failed"
        failed = of(await events_until(site, lambda seen: bool(of(seen, JobFailed))), JobFailed)
        assert [(one.cause, one.exit_code) for one in failed] == [("exit", 7)]


@pytest.mark.asyncio
async def test_command_that_is_not_there_fails_and_says_so(tmp_path: Path) -> None:
    async with endured(tmp_path) as site:
        job_id = await site.submit(
            Submission(JobSpec(command=("no-such-program", "--fast"))), NOBODY
        )
        assert await outcome(site, job_id) == "failed"
        piece, _ = await site.read_output(job_id, 1, "stderr.0", 0, 1000)
        assert b"cannot run ['no-such-program', '--fast']" in piece


@pytest.mark.asyncio
async def test_checkpoint_that_fails_costs_work_and_not_the_job(tmp_path: Path) -> None:
    async with endured(tmp_path) as site:
        job_id = await site.submit(witness(tmp_path, CANNOT_SAVE), NOBODY)
        await marked(tmp_path, "j1.1 began")
        await site.tell(site.commands.suspend(job_id, NOBODY))
        seen = await events_until(site, lambda seen: bool(of(seen, JobSuspended)))
        assert of(seen, SuspendEscalated)
        assert of(seen, JobSuspended)[0].lost_us > 0
        await site.tell(site.commands.resume(job_id, NOBODY))
        assert await outcome(site, job_id) == "finished"
    assert "j1.2 worked" in marks(tmp_path)


@pytest.mark.asyncio
async def test_job_runs_anew_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    async with endured(tmp_path) as site:
        job_id = await site.submit(witness(tmp_path, WORKS, "0.4"), NOBODY)
        await marked(tmp_path, "j1.1 began")
        started = get(str(tmp_path / "attempts/jobs/j1/1/started")) or {}
        os.kill(int(str(started["pid"])), signal.SIGKILL)
        assert await outcome(site, job_id) == "finished"
        lost = of(await events_until(site, lambda seen: bool(of(seen, AttemptLost))), AttemptLost)
        assert [one.attempt for one in lost] == [1]
    assert "j1.2 worked" in marks(tmp_path)


@pytest.mark.asyncio
async def test_step_of_the_wall_clock_is_recorded_and_not_followed(tmp_path: Path) -> None:
    ahead_us = 5_000_000

    async with endured(tmp_path) as site, anyio.create_task_group() as tasks:
        tasks.start_soon(watch_clock, site._backend.post, lambda: ahead_us, 0.01)
        job_id = await site.submit(witness(tmp_path, WORKS, "0.3"), NOBODY)
        await marked(tmp_path, "j1.1 began")
        before_us = site.now_us()
        ahead_us -= 3_600_000_000
        seen = await events_until(site, lambda seen: bool(of(seen, ClockStepped)))
        assert of(seen, ClockStepped)[0].by_us == -3_600_000_000
        assert 0 <= of(seen, ClockStepped)[0].at_us - before_us < 30_000_000
        assert await outcome(site, job_id) == "finished"
        tasks.cancel_scope.cancel()
    instants = [event.at_us for event in await all_events(tmp_path)]
    assert instants == sorted(instants)


@pytest.mark.asyncio
async def test_policy_that_fails_decides_nothing_and_the_scheduler_goes_on(
    tmp_path: Path,
) -> None:
    """Goal: what runs runs on, who asks is answered, and all is well once the cause is gone.

    Method: this policy raises when a job is there whose model is not in its table.
    """
    changes = {
        "cluster": {"nodes": [{"name": "n0", "gpus": 4, "type": "v100"}]},
        "policy": {"name": "gavel_peer", "trigger": "round", "round": 0.2},
        "workload": {"throughputs": "builtin:gavel"},
    }
    known = {"model": "ResNet-18", "batch_size": 32, "total_steps": 10**7}
    async with machine(tmp_path, **changes) as site:
        works = await site.submit(witness(tmp_path, WORKS, "1.0", **known), NOBODY)
        await marked(tmp_path, "j1.1 began")
        unknown = await site.submit(witness(tmp_path, WORKS, "0"), NOBODY)
        seen = await events_until(
            site, lambda seen: any(one.fault for one in of(seen, RoundPlanned))
        )
        assert "its model is not in the table" in of(seen, RoundPlanned)[-1].fault
        assert await outcome(site, works) == "finished"
        assert unknown in site.state.jobs
    async with machine(tmp_path, **changes) as site:  # a start does not fail of it either
        assert "its model is not in the table" in site.state.policy_fault
        await site.tell(site.commands.cancel(unknown, NOBODY))
        after = await site.submit(witness(tmp_path, WORKS, "0", **known), NOBODY)
        assert await outcome(site, after) == "finished"
        await events_until(site, lambda _: not site.state.policy_fault)
    assert f"{unknown}.1 began" not in marks(tmp_path)
    assert (await verified(tmp_path)).divergence is None


def test_full_disk_of_the_log_stops_the_scheduler_and_no_job(
    tmp_path: Path, small_disk: Path
) -> None:
    loaded = config(tmp_path, log={"url": str(small_disk / "log.db")})

    async def fill_and_submit(site: Site) -> None:
        await site.submit(witness(tmp_path, WORKS, "1.0"), NOBODY)
        await marked(tmp_path, "j1.1 began")
        fill(small_disk)
        with suppress(UnreachableError):
            for _ in range(100):  # until what the log still had room for is used up
                await site.submit(witness(tmp_path, WORKS, "0"), NOBODY)

    assert Daemon(loaded, fill_and_submit).wait() == LogError.exit_code
    durable = anyio.run(submitted, small_disk)
    assert all(int(mark.split(".")[0][1:]) <= durable for mark in marks(tmp_path))
    assert Daemon(loaded, lambda _: lowlevel.checkpoint()).wait() == LogError.exit_code
    wait_for(has_marked(tmp_path, "j1.1 worked"))  # it has run on, whoever watches
    (small_disk / "filling").unlink()

    async def goes_on() -> None:
        async with at_work(loaded) as site:
            await events_until(site, lambda _: not site.state.jobs)
            gang = await site.submit(witness(tmp_path, WORKS, "0", gpus=4), NOBODY)
            assert await outcome(site, gang) == "finished"
            assert [str(outcome) for outcome in site.state.outcomes] == ["finished"]

    anyio.run(goes_on)
    assert wrongs(tmp_path) == []
    assert anyio.run(verified, small_disk).divergence is None


async def submitted(root: Path) -> int:
    async with read_log(str(root / "log.db")) as reader:
        return len([1 async for event in reader.events() if isinstance(event, JobSubmitted)])


@pytest.mark.parametrize("has_ended", [False, True])
def test_job_is_settled_after_a_reboot(tmp_path: Path, has_ended: bool) -> None:
    """Goal: after a power cut nothing of before runs, and times of that boot mean nothing.

    Method: scheduler, supervisor and job are killed at once, or the job had just ended; then the
    records are made those of another boot, whose monotonic clock was far ahead.
    """

    async def submit(site: Site) -> None:
        await site.submit(witness(tmp_path, WORKS, "0" if has_ended else "30"), NOBODY)
        await anyio.sleep_forever()

    daemon = Daemon(config(tmp_path), submit)
    wait_for(has_marked(tmp_path, "j1.1 began"))
    daemon.kill()
    folder = tmp_path / "attempts/jobs/j1/1"
    started = get(str(folder / "started")) or {}
    if has_ended:
        wait_for((folder / "status").exists)
        status = get(str(folder / "status")) or {}
        put(str(folder / "status"), {**status, "ended_ns": 1 << 60})
    else:
        os.kill(int(str(started["pid"])), signal.SIGKILL)
        wait_for(lambda: not attempts.sweep(str(folder)))
    put(str(folder / "started"), {**started, "boot": "another", "started_ns": 1 << 60})

    async def goes_on() -> None:
        async with endured(tmp_path) as site:
            if not has_ended:
                await marked(tmp_path, "j1.2 began")
                await site.tell(site.commands.cancel(J1, NOBODY))
            assert await outcome(site, J1) == ("finished" if has_ended else "cancelled")

    anyio.run(goes_on)
    events = anyio.run(all_events, tmp_path)
    assert len(of(events, AttemptLost)) == (0 if has_ended else 1)
    assert len([one for one in of(events, AttemptStarted) if one.job_id == J1]) <= 2
    ends = [one for one in of(events, JobFinished) if one.job_id == J1]
    assert all(one.ended_us is None or 0 <= one.ended_us <= one.at_us for one in ends)
