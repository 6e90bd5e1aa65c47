"""Checkpoints on their way between hosts: cut off, damaged, too late, too large, both ways at once.

A checkpoint arrives whole or not at all, and what does not arrive leaves nothing behind.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from shunter.backends.live import SshBackend, checkpoint_lists, node_agent
from shunter.backends.node import hold
from shunter.core import AttemptExited, Effect, Launch, Resume, SuspendAttempt
from shunter.events import AttemptStarted, GpusReleased, JobId, JobSpec, LaunchFailed, NodeName
from tests.factories import allocation, job_id
from tests.faults.supervised import wait_for
from tests.live.ssh.bench import Bench, is_of, order, rest, seen_until

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

J0 = job_id(0)
BIG_BYTES = 64 << 20
TOGETHER = 6
# Saves a large checkpoint when asked; the next attempt says its digest.
SAVES_MUCH = """
import hashlib, os, sys, time
path = os.environ["SHUNTER_CHECKPOINT_DIR"] + "/large"
if os.path.exists(path):
    print(hashlib.sha256(open(path, "rb").read()).hexdigest())
    sys.exit(0)
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.01)
with open(path, "wb") as file:
    file.write(os.urandom(int(sys.argv[1])))
sys.exit(75)
"""

FILES = 700  # more than a record tells
# Saves so many files below each other or beside each other; the next attempt says what it finds.
SAVES_FILES = """
import os, sys, time
place, count, depth = os.environ["SHUNTER_CHECKPOINT_DIR"], int(sys.argv[1]), int(sys.argv[2])
if os.environ.get("SHUNTER_RESUME"):
    found = [open(os.path.join(place, name)).read() for name in os.listdir(place)]
    print(len(found), sum(map(int, found)))
    sys.exit(0)
folder = os.open(place, os.O_RDONLY)
for _ in range(depth):
    os.mkdir(b"\\xff" * 250, dir_fd=folder)
    folder = os.open(b"\\xff" * 250, os.O_RDONLY, dir_fd=folder)
for number in range(count):
    file = os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=folder)
    os.write(file, str(number).encode())
    os.close(file)
open(sys.argv[3], "w").close()
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.01)
sys.exit(75)
"""


def saving(
    node: str, attempt: int, job: JobId = J0, mask: int = 1, size: int = BIG_BYTES
) -> Launch | Resume:
    kind = Launch if attempt == 1 else Resume
    spec = JobSpec(1, command=(sys.executable, "-I", "-S", "-c", SAVES_MUCH, str(size)))
    return kind(job, attempt, allocation(**{node: mask}), spec)


async def suspended(backend: SshBackend, attempt: int = 1) -> None:
    await order(backend, SuspendAttempt(J0, attempt))
    await seen_until(backend, GpusReleased)


def saved(bench: Bench, name: str) -> Path:
    return bench.farm[name].root / "clusters/lab/jobs/j0/checkpoints/large"


async def said_digest(backend: SshBackend, attempt: int) -> str:
    said, _ = await backend.read_output(J0, attempt, 0, "stdout", 0, 1000)
    return said.decode().strip()


async def waits_for(look: Callable[[], object], what: str) -> None:
    """Wait beside the backend, which must be able to go on meanwhile."""
    await anyio.to_thread.run_sync(lambda: wait_for(look, what))


async def test_checkpoint_cut_off_on_its_way_arrives_whole_at_the_next_try(bench: Bench) -> None:
    """The copy is interrupted while pieces of it lie on the other host already."""
    async with bench.opened() as backend:
        await order(backend, saving("n0", 1))
        await seen_until(backend, AttemptStarted)
        await suspended(backend)
        job = bench.farm["n1"].root / "clusters/lab/jobs/j0"
        await order(backend, saving("n1", 2))
        await waits_for(lambda: sorted(job.glob("checkpoints.incoming.*/large")), "a first piece")
        bench.farm.disconnect("n1")
        failed = (await seen_until(backend, LaunchFailed))[-1]
        assert isinstance(failed, LaunchFailed)
        assert failed.retryable
        assert not (job / "checkpoints" / "large").exists()
        await waits_for(lambda: backend.agents[NodeName("n1")].is_up, "the host")
        await order(backend, saving("n1", 3))
        await seen_until(backend, AttemptExited)
        said = await said_digest(backend, 3)
    assert said == hashlib.sha256(saved(bench, "n0").read_bytes()).hexdigest()
    left = [each.name for each in sorted(job.iterdir()) if each.name.startswith("checkpoints")]
    inode = (job / "checkpoints").stat().st_ino
    assert left == ["checkpoints", "checkpoints.lock", f"checkpoints.received.{inode}"]


async def test_checkpoint_that_does_not_fit_fails_the_launch_and_leaves_nothing(
    bench: Bench, small_disk: Path
) -> None:
    """Goal: a disk that a copy has filled is not full for ever. Method: 64 MB onto a disk of 2."""
    async with bench.opened() as backend:
        await order(backend, saving("n1", 1))
        await seen_until(backend, AttemptStarted)
        await suspended(backend)
        for attempt in (2, 3):
            await order(backend, saving("n0", attempt))
            failed = (await seen_until(backend, LaunchFailed))[-1]
            assert isinstance(failed, LaunchFailed)
            assert "cannot be copied to n0" in failed.cause
            assert failed.retryable
            assert pieces_in(small_disk) == []
        await order(backend, bench.launching("n0", job="j1", work_s=0.1))
        await seen_until(backend, AttemptExited, job="j1")
        await order(backend, saving("n2", 4))
        await seen_until(backend, AttemptExited, job="j0")
        said = await said_digest(backend, 4)
    assert said == hashlib.sha256(saved(bench, "n1").read_bytes()).hexdigest()
    bench.assert_nothing_twice()


def pieces_in(root: Path) -> list[Path]:
    """Return what copies of checkpoints have left on a host."""
    return sorted(root.glob("clusters/lab/jobs/*/checkpoints.incoming*"))


async def test_jobs_that_change_places_do_not_wait_for_each_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: copies both ways end, though each needs a channel of both hosts, of which few are.

    Method: with one channel a host, jobs go from the first host to the second, and as many back.
    """
    monkeypatch.setattr(node_agent, "PROGRAMS", 1)
    one_way = [(job_id(number), "n0", "n1") for number in range(TOGETHER)]
    other_way = [(job_id(TOGETHER + number), "n1", "n0") for number in range(TOGETHER)]
    jobs = [*one_way, *other_way]
    async with bench.opened() as backend:
        await order(backend, *(saving(at, 1, job, size=1 << 20) for job, at, _ in jobs))
        await seen_until_all(backend, AttemptStarted, len(jobs))
        await order(backend, *(SuspendAttempt(job, 1) for job, *_ in jobs))
        await seen_until_all(backend, GpusReleased, len(jobs))
        await order(backend, *(saving(to, 2, job) for job, _, to in jobs))
        ended = await seen_until_all(backend, AttemptExited, len(jobs))
    assert [seen.exit_code for seen in ended if isinstance(seen, AttemptExited)] == [0] * len(jobs)


async def seen_until_all(backend: SshBackend, kind: type, count: int) -> list[object]:
    """Observe until so many inputs of a kind came; return them."""
    found: list[object] = []
    while len(found) < count:
        found += [seen for seen in await seen_until(backend, kind) if is_of(seen, kind)]
    return found


async def test_attempt_does_not_begin_while_its_checkpoints_are_arriving(bench: Bench) -> None:
    """What arrived behind its back would take the place of what it saves."""
    async with bench.opened() as backend:
        job = bench.farm["n0"].root / "clusters/lab/jobs/j0"
        job.mkdir(parents=True)
        busy = hold(f"{job}/checkpoints.lock", 2)
        assert busy is not None
        await order(backend, saving("n0", 1))
        failed = (await seen_until(backend, LaunchFailed))[-1]
        assert isinstance(failed, LaunchFailed)
        assert "its checkpoints are still arriving on this host" in failed.cause
        assert failed.retryable
        os.close(busy)
        await order(backend, saving("n0", 2))
        await seen_until(backend, AttemptStarted)


async def test_checkpoint_passes_shells_that_print(bench: Bench) -> None:
    for name in ("n0", "n1"):
        bench.farm[name].noisy("echo 'Welcome {\"id\": 1}'; echo oops >&2\n")
    async with bench.opened() as backend:
        await order(backend, saving("n0", 1, size=1 << 20))
        await seen_until(backend, AttemptStarted)
        await suspended(backend)
        await order(backend, saving("n1", 2))
        await seen_until(backend, AttemptExited)
        said = await said_digest(backend, 2)
    assert said == hashlib.sha256(saved(bench, "n0").read_bytes()).hexdigest()


async def test_checkpoints_in_a_shared_folder_are_not_copied(bench: Bench) -> None:
    shared = bench.folder / "shared"
    async with bench.opened(checkpoints=str(shared)) as backend:
        await order(backend, saving("n0", 1))
        await seen_until(backend, AttemptStarted)
        await suspended(backend)
        await order(backend, saving("n1", 2))
        await seen_until(backend, AttemptExited)
    assert (shared / "lab/j0/large").stat().st_size == BIG_BYTES
    assert not sorted(bench.farm["n1"].root.glob("clusters/lab/jobs/j0/checkpoints/*"))


async def test_older_checkpoint_is_taken_once_the_newest_is_given_up(bench: Bench) -> None:
    """Until then a launch fails, and says on which host the newest lies."""
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", work_s=3.0))
        await seen_until(backend, AttemptStarted)
        await rest(backend, 2.0)
        await suspended(backend)
        await order(backend, bench.launching("n1", attempt=2, work_s=3.0))
        await seen_until(backend, AttemptStarted)
        await suspended(backend, 2)
        bench.farm.stop("n1")
        await rest(backend, 1.0)
        await order(backend, bench.launching("n2", attempt=3, work_s=3.0))
        failed = (await seen_until(backend, LaunchFailed))[-1]
        assert isinstance(failed, LaunchFailed)
        assert failed.checkpoint_on == ("n1",)
        given_up = bench.launching("n2", attempt=4, work_s=3.0)
        assert isinstance(given_up, Resume)
        await order(backend, replace(given_up, checkpoints=((NodeName("n0"),),)))
        await seen_until(backend, AttemptExited)
    assert bench.resumed() == ["j0.2.0", "j0.4.0"]
    bench.assert_nothing_twice()


def saving_files(bench: Bench, job: JobId, node: str, attempt: int, depth: int = 0) -> Effect:
    kind = Launch if attempt == 1 else Resume
    words = (str(FILES), str(depth), str(bench.folder / f"saved.{job}"))
    spec = JobSpec(1, command=(sys.executable, "-I", "-S", "-c", SAVES_FILES, *words))
    return kind(job, attempt, allocation(**{node: 1 << int(job[1:])}), spec)


async def save_files(bench: Bench, backend: SshBackend, job: JobId, depth: int = 0) -> None:
    """Have a job save on the first host, and leave it."""
    await order(backend, saving_files(bench, job, "n0", 1, depth))
    await seen_until(backend, AttemptStarted, job=job)
    await waits_for((bench.folder / f"saved.{job}").exists, "what it saves")
    await order(backend, SuspendAttempt(job, 1))
    await seen_until(backend, GpusReleased, job=job)


async def test_checkpoints_of_many_files_arrive_whole_though_few_are_copied_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: lists that are worked with in a thread are read as well as others."""
    monkeypatch.setattr(checkpoint_lists, "FEW", FILES // 2)
    jobs = [job_id(number) for number in range(3)]
    async with bench.opened() as backend:
        for job in jobs:
            await save_files(bench, backend, job)
        await order(backend, *(saving_files(bench, job, "n1", 2) for job in jobs))
        ended: set[str] = set()
        while len(ended) < len(jobs):
            seen = await seen_until(backend, AttemptExited)
            ended |= {each.job_id for each in seen if isinstance(each, AttemptExited)}
        for job in jobs:
            said, _ = await backend.read_output(job, 2, 0, "stdout", 0, 100)
            assert said.split() == [b"%d" % FILES, b"%d" % sum(range(FILES))]


async def test_folder_beyond_the_bound_fails_its_job_alone_and_keeps_the_checkpoint(
    bench: Bench,
) -> None:
    large, small = job_id(0), job_id(1)
    async with bench.opened() as backend:
        await save_files(bench, backend, large, depth=180)
        await save_files(bench, backend, small)
        await order(
            backend, saving_files(bench, large, "n1", 2, 180), saving_files(bench, small, "n1", 2)
        )
        seen = await seen_until(backend, AttemptExited, job=small)
        failed = [each for each in seen if isinstance(each, LaunchFailed)]
        while not failed:
            seen = await seen_until(backend, LaunchFailed, job=large)
            failed = [each for each in seen if isinstance(each, LaunchFailed)]
    assert [each.job_id for each in failed] == [large]
    place = bench.farm["n0"].root / f"clusters/lab/jobs/{large}/checkpoints"
    cause = failed[0].cause
    assert f"{place} has paths and targets of links of more than 16 MiB in all; it stays" in cause
    assert "pack or remove files there" in cause
    assert "on host n0 the job goes on without a copy" in cause
    assert "backend.ssh.checkpoints" in cause
    assert (failed[0].checkpoint_on, failed[0].checkpoint_stays) == (("n0",), True)
    assert [each.name for each in sorted(place.iterdir())] == [os.fsdecode(b"\xff" * 250)]
    assert not (bench.farm["n1"].root / f"clusters/lab/jobs/{large}/checkpoints").exists()


async def test_older_folder_beyond_the_bound_is_replaced_where_the_job_goes_on(
    bench: Bench, tmp_path: Path
) -> None:
    job = job_id(0)
    async with bench.opened() as backend:
        await save_files(bench, backend, job)
        old = bench.farm["n1"].root / f"clusters/lab/jobs/{job}/checkpoints"
        old.mkdir(parents=True)
        asked = tmp_path / "asked"
        asked.touch()
        words = (str(FILES), "180", str(tmp_path / "saved"))
        saved = await anyio.run_process(
            [sys.executable, "-I", "-S", "-c", SAVES_FILES, *words],
            env={"SHUNTER_CHECKPOINT_DIR": str(old), "SHUNTER_SUSPEND": str(asked)},
            check=False,
        )
        assert saved.returncode == 75
        await order(backend, saving_files(bench, job, "n1", 2))
        await seen_until(backend, AttemptExited)
        said, _ = await backend.read_output(job, 2, 0, "stdout", 0, 100)
    assert said.split() == [b"%d" % FILES, b"%d" % sum(range(FILES))]
