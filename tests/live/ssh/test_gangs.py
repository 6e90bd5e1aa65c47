"""Gangs over several hosts: whole or not at all, one world, and one end."""

import json
import os
import shutil
import signal
import sys

import pytest

from shunter.backends.node import attempts, folder_of
from shunter.core import AttemptExited, Launch, SuspendAttempt
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobSpec,
    JobSuspended,
    LaunchFailed,
)
from tests.factories import job_id
from tests.faults.supervised import pid_of, wait_for
from tests.live.ssh.bench import Bench, is_of, kinds, order, rest, seen_until

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

J0 = job_id(0)
SECOND_FAILS = """
import os, sys, time
time.sleep(0.3 if os.environ["RANK"] == "1" else 60)
sys.exit(3)
"""


async def test_ranks_find_each_other_by_their_environment(bench: Bench) -> None:
    async with bench.opened() as backend:
        await order(backend, bench.launching("n1", "n0", "n2", work_s=0.3, mask=0b0110))
        await order(backend, bench.launching("n1", job="j1", work_s=0.3, mask=0b1000))
        await seen_until(backend, AttemptExited, job="j0")
        wait_for(lambda: sum(line[4] == "done" for line in bench.ledger()) == 4, "both jobs")
        said = []
        for rank in range(3):
            text, size = await backend.read_output(J0, 1, rank, "stdout", 0, 10_000)
            assert size == len(text)
            said.append(json.loads(text))
        other = json.loads((await backend.read_output(job_id(1), 1, 0, "stdout", 0, 9999))[0])
    assert [each["RANK"] for each in said] == ["0", "1", "2"]
    assert {each["WORLD_SIZE"] for each in said} == {"3"}
    assert {each["LOCAL_RANK"] for each in said} == {"0"}
    assert {each["MASTER_ADDR"] for each in said} == {bench.farm["n1"].address}
    assert {each["CUDA_VISIBLE_DEVICES"] for each in said} == {"1,2"}
    ports = {each["MASTER_PORT"] for each in said}
    assert len(ports) == 1
    assert other["MASTER_PORT"] not in ports
    bench.assert_nothing_twice()


async def test_port_of_an_attempt_is_nobody_elses_after_a_restart(bench: Bench) -> None:
    """Goal: no two attempts meet at a port. Method: two ports, and nobody who listens yet."""
    ports = set()
    async with bench.opened(gang_ports=(29_500, 29_502)) as backend:
        await order(backend, bench.launching("n0", job="j0"))
        await seen_until(backend, AttemptStarted)
    async with bench.opened(2, gang_ports=(29_500, 29_502)) as backend:
        backend.adopt(J0, 1, started=True, on=bench.launching("n0").allocation)
        await order(backend, bench.launching("n0", job="j1", mask=2))
        await seen_until(backend, AttemptStarted, job="j1")
        await order(backend, bench.launching("n0", job="j2", mask=4))
        failed = (await seen_until(backend, LaunchFailed))[-1]
        assert isinstance(failed, LaunchFailed)
        assert "no port of 29500 to 29501 is free" in failed.cause
        for job in (J0, job_id(1)):
            wait_for(lambda: len(bench.runs()) == 2, "both")
            said, _ = await backend.read_output(job, 1, 0, "stdout", 0, 9999)
            ports.add(json.loads(said)["MASTER_PORT"])
    assert ports == {"29500", "29501"}


async def test_gang_that_cannot_begin_everywhere_begins_nowhere(bench: Bench) -> None:
    """One host has fenced the attempt: the others end theirs before it is said to have failed."""
    async with bench.opened() as backend:
        attempts.raise_fence(str(bench.farm["n2"].root / "clusters/lab"), "j0", 1)
        await order(backend, bench.launching("n0", "n1", "n2"))
        told = await seen_until(backend, LaunchFailed)
        assert kinds(told) == [LaunchFailed]
        hosts = bench.farm.hosts.values()
        held = [attempts.inventory(str(host.root / "clusters/lab")) for host in hosts]
        assert {each["state"] for found in held for each in found} <= {"ended", "absent"}
        await order(backend, bench.launching("n0", "n1", attempt=2, work_s=0.2))
        await seen_until(backend, AttemptExited)
    bench.assert_nothing_twice()


async def test_launch_repeated_after_its_supervisors_died_is_known_to_be_over(
    bench: Bench,
) -> None:
    """Goal: who asks again whether it runs does not keep it alive.

    Method: of a gang that the log takes for launching, one part was fenced and one never began, as
    if its host had been cut off; the supervisor of the third was killed.
    """
    roots = {name: str(bench.farm[name].root / "clusters/lab") for name in ("n0", "n1", "n2")}
    launched = bench.launching("n0", "n1", "n2")
    async with bench.opened() as backend:
        await order(backend, launched)
        await seen_until(backend, AttemptStarted)
        wait_for(lambda: len(bench.runs()) == 3, "all ranks")
    (found,) = attempts.inventory(roots["n2"])
    os.kill(pid_of(found), signal.SIGKILL)
    for name in ("n0", "n1"):
        attempts.raise_fence(roots[name], "j0", 1)
        attempts.send(folder_of(roots[name], "j0", 1), {"do": "fence", "term": 1})
    ended = [folder_of(roots[name], "j0", 1) for name in ("n0", "n1")]
    wait_for(lambda: {attempts.probe(each)["state"] for each in ended} == {"ended"}, "their end")
    # A supervisor that has told the end still removes what it kept room with.
    wait_for(lambda: not any(attempts.is_held(f"{each}/lock") for each in ended), "their exit")
    shutil.rmtree(folder_of(roots["n1"], "j0", 1))
    async with bench.opened(2) as backend:
        assert [one["state"] for one in await backend.inventory([(J0, 1)])] == ["absent"]
        await order(backend, launched)
        assert kinds(await seen_until(backend, LaunchFailed)) == [LaunchFailed]
    bench.assert_nothing_twice()


async def test_failure_of_one_rank_ends_all_with_its_code(bench: Bench) -> None:
    async with bench.opened() as backend:
        whole = bench.launching("n0", "n1")
        spec = JobSpec(2, command=(sys.executable, "-I", "-S", "-c", SECOND_FAILS))
        await order(backend, Launch(J0, 1, whole.allocation, spec))
        exited = (await seen_until(backend, AttemptExited))[-1]
        assert isinstance(exited, AttemptExited)
        assert exited.exit_code == 3
        assert exited.released
        assert await rest(backend) == []


async def test_suspended_gang_leaves_together_and_goes_on_elsewhere(bench: Bench) -> None:
    """What each rank saved on its host is there on the hosts of the next attempt."""
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", "n1", work_s=2.0))
        await seen_until(backend, AttemptStarted)
        await rest(backend, 1.0)
        await order(backend, SuspendAttempt(J0, 1))
        told = await seen_until(backend, GpusReleased)
        assert sum(is_of(seen, JobSuspended) for seen in told) == 1
        await order(backend, bench.launching("n2", "n1", attempt=2, work_s=2.0))
        await seen_until(backend, AttemptExited)
    assert bench.resumed() == ["j0.2.0", "j0.2.1"]
    bench.assert_nothing_twice()


async def test_gang_that_goes_on_where_it_was_finds_what_all_its_ranks_have_saved(
    bench: Bench,
) -> None:
    """A checkpoint that counts only with the files of all ranks counts on every host."""
    saved = {f"done.{rank}" for rank in range(2)}
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", "n1", work_s=60.0))
        await seen_until(backend, AttemptStarted)
        wait_for(lambda: len(bench.runs()) == 2, "both ranks")
        await order(backend, SuspendAttempt(J0, 1))
        await seen_until(backend, GpusReleased)
        await order(backend, bench.launching("n0", "n1", attempt=2, work_s=0.2))
        await seen_until(backend, AttemptStarted)
        for name in ("n0", "n1"):
            folder = bench.farm[name].root / "clusters/lab/jobs/j0/checkpoints"
            assert {path.name for path in sorted(folder.iterdir())} >= saved, name
        await seen_until(backend, AttemptExited)
    assert bench.resumed() == ["j0.2.0", "j0.2.1"]
    bench.assert_nothing_twice()


async def test_killed_supervisor_of_one_rank_loses_the_gang(bench: Bench) -> None:
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", "n1"))
        await seen_until(backend, AttemptStarted)
        (found,) = attempts.inventory(str(bench.farm["n1"].root / "clusters/lab"))
        os.kill(pid_of(found), signal.SIGKILL)
        told = await seen_until(backend, AttemptLost)
        assert kinds(told) == [AttemptLost]
        await order(backend, bench.launching("n0", "n1", attempt=2, work_s=0.2))
        await seen_until(backend, AttemptExited)
    bench.assert_nothing_twice()
