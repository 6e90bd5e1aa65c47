"""Hosts whose clocks are not ours: booted at another time, and an hour off by the wall.

Goal: nothing that a host does depends on what its clocks say, only on how they go. Method: time
namespaces set the clocks that count from the boot, each on its own; a Python that starts with its
wall clock shifted stands for a host on which that is wrong.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shunter.backends.live import SshHost
from shunter.backends.node import attempts, folder_of
from shunter.core import AttemptExited, SuspendAttempt
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobSuspended,
    NodeLost,
    NodeReachable,
    NodeUnreachable,
)
from tests.factories import job_id
from tests.faults.supervised import wait_for
from tests.live.ssh.bench import PROMPT, Bench, is_of, kinds, order, rest, seen_until
from tests.live.ssh.conftest import HOSTS
from tests.live.ssh.namespaces import Namespaces, lacking

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

J0 = job_id(0)
Network = tuple[Bench, Namespaces]
# Booted a day before us, having slept for another; and an hour after us.
AHEAD_S = {"n0": (100_000, 200_000), "n1": (-1_000, -1_000)}


@pytest.fixture
def strange(folder: Path) -> Iterator[Network]:
    """Three hosts in namespaces, of which two have clocks of their own."""
    if lacking():
        pytest.skip(lacking())
    tried = ["unshare", "--time", "--monotonic", "1", "--boottime", "1", "--fork", "true"]
    if subprocess.run(tried, check=False, capture_output=True, timeout=60).returncode:
        pytest.skip("needs a kernel with time namespaces")
    farm = Namespaces(folder / "farm", HOSTS)
    try:
        farm.ahead_s = AHEAD_S
        for name in HOSTS:
            farm.start(name)
        yield Bench(farm, folder, PROMPT), farm
    finally:
        farm.close()


def an_hour_late(bench: Bench, name: str) -> SshHost:
    """Return a host whose wall clock is an hour behind, in all that we run there."""
    late = bench.folder / "late.py"
    late.write_text(
        "import runpy, sys, time\n"
        "real = time.time\n"
        "time.time = lambda: real() - 3600\n"
        "path, sys.argv = sys.argv[1], sys.argv[1:]\n"
        "runpy.run_path(path, run_name='__main__')\n"
    )
    python = bench.folder / "python"
    python.write_text(
        f'#!/bin/sh\nfor word do case $word in *.pyz) set -- "$@" {late};; esac; '
        f'set -- "$@" "$word"; shift; done\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    return replace(bench.host(name), python=str(python))


async def test_instants_of_a_host_are_told_by_our_clock(strange: Network) -> None:
    bench, _ = strange
    async with bench.opened() as backend:
        for number, node in enumerate(HOSTS):
            job = f"j{number}"
            await order(backend, bench.launching(node, job=job, work_s=0.5))
            begun = (await seen_until(backend, AttemptStarted, job=job))[-1]
            ended = (await seen_until(backend, AttemptExited, job=job))[-1]
            assert isinstance(ended, AttemptExited)
            assert ended.ended_us is not None
            assert begun.at_us < ended.ended_us <= ended.at_us
    folder = folder_of(str(bench.farm["n0"].root / "clusters/lab"), "j0", 1)
    started = attempts.probe(folder)["started"]
    assert started is not None
    assert started["started_ns"] - time.monotonic_ns() > 90_000e9, "its clock was not its own"
    bench.assert_nothing_twice()


async def test_job_lives_on_and_moves_between_hosts_of_other_clocks(strange: Network) -> None:
    """Longer than its deadline, so that it lives by signs that arrive in the host's own time."""
    bench, _ = strange
    hosts = (an_hour_late(bench, "n0"), bench.host("n1"), bench.host("n2"))
    async with bench.opened(hosts=hosts, heartbeat_deadline_s=2.0) as backend:
        await order(backend, bench.launching("n0", "n1", work_s=8.0))
        await seen_until(backend, AttemptStarted)
        assert await rest(backend, 4.0) == []
        await order(backend, SuspendAttempt(J0, 1))
        told = await seen_until(backend, GpusReleased)
        assert sum(is_of(seen, JobSuspended) for seen in told) == 1
        await order(backend, bench.launching("n2", "n0", attempt=2, work_s=5.0))
        exited = (await seen_until(backend, AttemptExited))[-1]
        assert isinstance(exited, AttemptExited)
        assert exited.exit_code == 0
    assert bench.resumed() == ["j0.2.0", "j0.2.1"]
    bench.assert_nothing_twice()


@pytest.mark.parametrize("name", ["n0", "n1"])
async def test_silent_host_of_other_clocks_ends_its_job_in_time(
    strange: Network, name: str
) -> None:
    bench, farm = strange
    folder = folder_of(str(bench.farm[name].root / "clusters/lab"), "j0", 1)
    async with bench.opened(heartbeat_deadline_s=2.0) as backend:
        await order(backend, bench.launching(name))
        await seen_until(backend, AttemptStarted)
        wait_for(bench.runs, "the first run")
        farm.drop(name)
        told = await seen_until(backend, AttemptLost)
        assert kinds(told) == [NodeUnreachable, NodeLost, AttemptLost]
        status = attempts.probe(folder)["status"]
        assert status is not None, "given up before it had ended"
        assert status["why"] == "heartbeat"
        await order(backend, bench.launching("n2", attempt=2, work_s=0.2))
        await seen_until(backend, AttemptExited)
        farm.undrop(name)
        await seen_until(backend, NodeReachable)
    bench.assert_nothing_twice()
