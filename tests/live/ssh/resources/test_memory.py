"""The memory of jobs on hosts: a limit where a control group may be divided, and a word where not.

Goal: what the helper does with a group. Method: folders stand for the kernel's groups, since most
machines that run tests have none to divide; that the kernel holds to a limit, they do not show.
"""

import sys
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import pytest

from shunter.backends.live import host_inventories
from shunter.core import AttemptExited, Launch
from shunter.events import Allocation, JobSpec, NodeName, Share
from tests.factories import job_id
from tests.live.ssh.bench import Bench, order, seen_until

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

J0 = job_id(0)
# Notes in its group, as the kernel would, that one of its processes was killed, and ends like it.
KILLED = """
import os, sys, time
with open(sys.argv[1] + "/memory.events", "w") as events:
    events.write("oom 1\\noom_kill 1\\n")
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def group(bench: Bench) -> Path:
    group = bench.folder / "group"
    group.mkdir()
    (group / "cgroup.controllers").write_text("memory\n")
    (group / "cgroup.subtree_control").write_text("memory\n")
    (group / "cgroup.procs").write_text("")
    return group


def launching(*argv: str, memory_mb: int) -> Launch:
    allocation = Allocation((Share(NodeName("n0"), 1, 0, memory_mb),))
    return Launch(J0, 1, allocation, JobSpec(1, command=(sys.executable, "-I", "-S", "-c", *argv)))


def groups_in(group: Path) -> list[str]:
    return [each.name for each in sorted(group.iterdir()) if each.is_dir()]


async def test_job_is_held_to_its_memory_in_a_group_of_its_own(bench: Bench, group: Path) -> None:
    own = group / "shunter-lab-j0.1"
    host = replace(bench.host("n0"), cgroup=str(group))
    async with bench.opened(hosts=(host,)) as backend:
        await order(backend, launching(KILLED, str(own), memory_mb=100))
        exited = (await seen_until(backend, AttemptExited))[-1]
        assert isinstance(exited, AttemptExited)
        assert exited.exit_code == 128 + 9
        said, _ = await backend.read_output(J0, 1, 0, "stderr", 0, 1000)
    assert said == b"shunter: killed for using more than its 100 MB of memory\n"
    assert (own / "memory.max").read_text() == str(100_000_000)
    assert (own / "cgroup.procs").read_text() == "0"  # what a process writes to enter


async def test_job_that_asked_for_no_memory_has_no_limit(bench: Bench, group: Path) -> None:
    host = replace(bench.host("n0"), cgroup=str(group))
    async with bench.opened(hosts=(host,)) as backend:
        await order(backend, launching("print('ran')", memory_mb=0))
        await seen_until(backend, AttemptExited)
    assert groups_in(group) == []


async def test_host_without_a_group_runs_jobs_all_the_same(bench: Bench) -> None:
    host = replace(bench.host("n0"), cgroup=str(bench.folder / "nowhere"))
    async with bench.opened(hosts=(host,)) as backend:
        await order(backend, launching("print('ran')", memory_mb=100))
        exited = (await seen_until(backend, AttemptExited))[-1]
        assert isinstance(exited, AttemptExited)
        assert exited.exit_code == 0
        printed, _ = await backend.read_output(J0, 1, 0, "stdout", 0, 100)
    assert printed == b"ran\n"


async def test_survey_says_whether_memory_is_limited_and_why_not(bench: Bench, group: Path) -> None:
    hosts = tuple(
        replace(bench.host("n0"), name=NodeName(name), cgroup=cgroup)
        for name, cgroup in (("held", str(group)), ("free", "/nowhere"))
    )
    held, free = await anyio.to_thread.run_sync(
        host_inventories, hosts, bench.settings().access, 5.0
    )
    assert held.found is not None
    assert free.found is not None
    assert (held.found["memory_group"], held.found["memory_unlimited"]) == (str(group), "")
    assert "/nowhere cannot be divided" in free.found["memory_unlimited"]
