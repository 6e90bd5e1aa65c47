"""Supervisors killed on hosts that nobody reaches: what they leave is gone before the next attempt.

The ranks hold locks of their job and GPUs, and what forks away below them holds these on: an
attempt beside it would find them taken.
"""

import os
import signal
from dataclasses import replace

import pytest

from shunter.backends.node import alive_below, attempts
from shunter.core import AttemptExited, Launch, Resume
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    NodeLost,
    NodeReachable,
    NodeUnreachable,
    SuspendMode,
)
from tests.faults.supervised import wait_for
from tests.live.ssh.bench import WORKER, Bench, kinds, order, rest, seen_until
from tests.live.ssh.farm import descendants, name_of
from tests.live.ssh.namespaces import Namespaces

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

Network = tuple[Bench, Namespaces]
FORK = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note("away")
        AWAY
    os._exit(0)
os.wait()
"""
AWAY = {
    "marked": "time.sleep(60)",
    "hidden": "[os.set_inheritable(lock, True) for lock in held]; "
    "os.execve('/bin/sleep', ['sleep', '60'], {})",
}


def forking(launched: Launch | Resume, how: str) -> Launch | Resume:
    """Have each rank of a worker leave a process behind that never ends by itself."""
    fork = FORK.replace("AWAY", AWAY[how])
    program = WORKER.replace('note("begun")\n', f'note("begun")\n{fork}')
    assert program != WORKER
    command = tuple(program if word == WORKER else word for word in launched.spec.command or ())
    spec = replace(launched.spec, command=command, suspend_mode=SuspendMode.stop)
    return replace(launched, spec=spec)


def left_on(farm: Namespaces, name: str) -> list[str]:
    """Return the names of what runs on a host beside what serves connections."""
    process = farm[name].process
    assert process is not None, f"{name} does not run"
    names = [name_of(pid) for pid in descendants(process.pid)]
    return [each for each in names if each.startswith(("python", "sleep"))]


@pytest.mark.parametrize("how", sorted(AWAY))
async def test_supervisor_killed_on_a_host_that_was_cut_off_leaves_nothing_beside_the_next_attempt(
    network: Network, how: str
) -> None:
    """Goal: no attempt runs beside what is left of one on a host that nobody reaches to sweep.

    Method: a gang of mode `stop` forks processes away; one of its hosts is cut off, and there its
    supervisor is killed. The next attempt starts elsewhere once the host is lost.
    """
    bench, farm = network
    # On a busy machine it takes seconds to see that a host is silent; none may fence by then.
    async with bench.opened(heartbeat_deadline_s=10.0) as backend:
        await order(backend, forking(bench.launching("n0", "n1"), how))
        await seen_until(backend, AttemptStarted)
        wait_for(lambda: [line[4] for line in bench.ledger()].count("away") == 2, "all processes")
        farm.cut("n0")
        await seen_until(backend, NodeUnreachable)
        root = str(bench.farm["n0"].root / "clusters/lab")
        (supervisor,) = alive_below(root)[("j0", 1)].supervisors
        os.kill(supervisor, signal.SIGKILL)
        told = await seen_until(backend, AttemptLost)
        # Another host may fall silent for a moment on a busy machine.
        there = [each for each in told if getattr(each, "node", "n0") == "n0"]
        assert kinds(there) == [NodeLost, AttemptLost]
        await order(backend, bench.launching("n1", "n2", attempt=2, work_s=0.5))
        await seen_until(backend, AttemptExited)
        farm.heal("n0")
        assert kinds(await seen_until(backend, NodeReachable)) == [NodeReachable]
        assert await rest(backend) == []
        assert attempts.running(root, []) == []
    bench.assert_nothing_twice()
    assert len(bench.runs()) == 4
    wait_for(lambda: not any(left_on(farm, name) for name in farm.hosts), "the end of all helpers")
