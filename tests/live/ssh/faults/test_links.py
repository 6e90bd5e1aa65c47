"""Links that are cut and hosts that go: nothing is lost, and nothing runs twice.

A cut takes the link down; a drop lets packets vanish. Both look the same to whoever waits.
"""

import time
from collections.abc import Callable

import anyio
import pytest

from shunter.backends.live import SshBackend, node_agent
from shunter.backends.node import attempts, folder_of
from shunter.core import AttemptExited, Input, SuspendAttempt, Terminate
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobSuspended,
    LaunchFailed,
    NodeLost,
    NodeName,
    NodeReachable,
    NodeUnreachable,
)
from tests.factories import job_id
from tests.faults.supervised import wait_for
from tests.live.ssh.bench import Bench, is_of, kinds, order, rest, seen_until
from tests.live.ssh.namespaces import Namespaces

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

J0 = job_id(0)
Network = tuple[Bench, Namespaces]
Cut = Callable[[Namespaces, str], None]
WAYS = [
    pytest.param((Namespaces.cut, Namespaces.heal), id="down"),
    pytest.param((Namespaces.drop, Namespaces.undrop), id="dropped"),
]
KEEPALIVE_S = 0.5


async def assert_settled(bench: Bench, backend: SshBackend, told: list[Input]) -> None:
    """Wait until a launch has ended or failed; hold its runs to what was told of it."""
    until_s = time.monotonic() + 60
    while not any(is_of(seen, AttemptExited) or is_of(seen, LaunchFailed) for seen in told):
        assert time.monotonic() < until_s, told
        told += await rest(backend, 0.5)
    began = any(is_of(seen, AttemptStarted) for seen in told)
    assert sum(bench.runs().values()) == int(began)


@pytest.mark.parametrize("way", WAYS)
async def test_cut_link_is_noticed_and_the_job_runs_on(
    network: Network, way: tuple[Cut, Cut]
) -> None:
    bench, farm = network
    cut, heal = way
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0"))
        await seen_until(backend, AttemptStarted)
        cut(farm, "n0")
        assert kinds(await seen_until(backend, NodeUnreachable)) == [NodeUnreachable]
        heal(farm, "n0")
        assert kinds(await seen_until(backend, NodeReachable)) == [NodeReachable]
        (bench.folder / "enough").touch()
        assert kinds(await seen_until(backend, AttemptExited)) == [AttemptExited]
    bench.assert_nothing_twice()


@pytest.mark.parametrize("way", WAYS)
async def test_launch_before_a_cut_was_noticed_runs_once_or_never(
    network: Network, way: tuple[Cut, Cut]
) -> None:
    bench, farm = network
    cut, heal = way
    async with bench.opened() as backend:
        cut(farm, "n0")
        await order(backend, bench.launching("n0", work_s=0.5))
        told = await seen_until(backend, NodeUnreachable)
        assert not any(is_of(seen, AttemptStarted) for seen in told)
        heal(farm, "n0")
        told += await seen_until(backend, NodeReachable)
        await assert_settled(bench, backend, told)
    bench.assert_nothing_twice()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("after_ms", [1, 5, 10, 20, 40])
async def test_cut_in_the_middle_of_a_launch_is_settled_by_the_host(
    network: Network, way: tuple[Cut, Cut], after_ms: int
) -> None:
    bench, farm = network
    cut, heal = way
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", work_s=0.5))
        await anyio.sleep(after_ms / 1000)
        cut(farm, "n0")
        told = await seen_until(backend, NodeUnreachable)
        heal(farm, "n0")
        await assert_settled(bench, backend, told)
    bench.assert_nothing_twice()


async def test_order_given_while_a_host_is_silent_is_carried_out_when_it_answers(
    network: Network,
) -> None:
    bench, farm = network
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0"))
        await seen_until(backend, AttemptStarted)
        farm.drop("n0")
        await seen_until(backend, NodeUnreachable)
        await order(backend, SuspendAttempt(J0, 1))
        assert await rest(backend, 1.0) == []
        farm.undrop("n0")
        told = await seen_until(backend, GpusReleased)
        assert any(is_of(seen, JobSuspended) for seen in told)
    bench.assert_nothing_twice()


@pytest.mark.parametrize("way", WAYS)
async def test_job_of_a_silent_host_goes_elsewhere_only_after_its_end(
    network: Network, way: tuple[Cut, Cut]
) -> None:
    """The supervisor ends its ranks by itself; only a margin later the scheduler counts on it."""
    bench, farm = network
    cut, heal = way
    async with bench.opened(heartbeat_deadline_s=2.0) as backend:
        await order(backend, bench.launching("n0"))
        await seen_until(backend, AttemptStarted)
        wait_for(bench.runs, "the first run")
        cut(farm, "n0")
        cut_us = backend.now_us()
        told = await seen_until(backend, AttemptLost)
        assert kinds(told) == [NodeUnreachable, NodeLost, AttemptLost]
        assert told[-1].at_us - cut_us >= 2_000_000
        # Here the ledger would tell of two runs if the first were still alive.
        await order(backend, bench.launching("n1", attempt=2, work_s=0.5))
        await seen_until(backend, AttemptExited)
        heal(farm, "n0")
        assert kinds(await seen_until(backend, NodeReachable)) == [NodeReachable]
        assert await rest(backend) == []
    bench.assert_nothing_twice()
    assert len(bench.runs()) == 2


@pytest.mark.parametrize("comes_back", [True, False], ids=["back", "gone"])
async def test_scheduler_that_starts_while_a_host_is_silent_takes_its_jobs_for_running(
    network: Network, *, comes_back: bool
) -> None:
    """What the log says of such a host is all there is: nothing of it is launched anew."""
    bench, farm = network
    launched = bench.launching("n0", work_s=8.0)
    # A busy machine needs more than a second to connect to the other host, and to come back.
    deadline_s = 30.0 if comes_back else 6.0
    async with bench.opened(heartbeat_deadline_s=deadline_s) as backend:
        await order(backend, launched)
        await seen_until(backend, AttemptStarted)
        wait_for(bench.runs, "the first run")
    farm.drop("n0")
    async with bench.opened(2, heartbeat_deadline_s=deadline_s, connect_s=4.0) as backend:
        assert backend.unreachable == {"n0"}
        assert await backend.inventory() == []
        backend.adopt(J0, 1, started=True, on=launched.allocation)
        if comes_back:
            farm.undrop("n0")
            told = await seen_until(backend, NodeReachable)
            told += await seen_until(backend, AttemptExited)
            assert kinds(told) == [NodeUnreachable, NodeReachable, AttemptExited]
        else:
            told = await seen_until(backend, AttemptLost)
            assert kinds(told) == [NodeUnreachable, NodeLost, AttemptLost]
            await order(backend, bench.launching("n1", attempt=2, work_s=0.2))
            await seen_until(backend, AttemptExited)
    bench.assert_nothing_twice()


async def test_host_that_was_given_up_by_an_earlier_term_is_emptied_before_it_is_used(
    network: Network,
) -> None:
    """Goal: what lives on although it was given up is ended, whoever gave it up.

    Method: its supervisor has another deadline than the scheduler that waits for it; so has one in
    a machine that was paused. The next scheduler knows of nothing there.
    """
    bench, farm = network
    folder = folder_of(str(bench.farm["n0"].root / "clusters/lab"), "j0", 1)
    async with bench.opened() as backend:
        launched = bench.launching("n0")
        await order(backend, launched)
        await seen_until(backend, AttemptStarted)
    farm.drop("n0")
    async with bench.opened(2, heartbeat_deadline_s=0.5, connect_s=1.0) as backend:
        backend.adopt(J0, 1, started=True, on=launched.allocation)
        await seen_until(backend, AttemptLost)
    async with bench.opened(3, connect_s=1.0) as backend:
        backend.recall([NodeName("n0")])
        await order(backend)
        assert attempts.probe(folder)["state"] == "running"
        farm.undrop("n0")
        assert NodeReachable in kinds(await seen_until(backend, NodeReachable))
        assert attempts.probe(folder)["state"] == "ended"
        await order(backend, bench.launching("n0", attempt=2, work_s=0.2))
        await seen_until(backend, AttemptExited)
    bench.assert_nothing_twice()


async def test_host_that_was_stopped_ends_its_jobs_when_it_wakes(network: Network) -> None:
    """Goal: a host that sleeps through the deadline runs nothing on, though nobody reaches it.

    Method: stop all of it; looks that were sent meanwhile lie in its buffers, and are the first
    that it hears when it wakes, cut off from the scheduler, which has given it up.
    """
    bench, farm = network
    async with bench.opened(heartbeat_deadline_s=3.0) as backend:
        await order(backend, bench.launching("n0"))
        await seen_until(backend, AttemptStarted)
        wait_for(bench.runs, "the first run")
        farm.freeze("n0")
        await rest(backend, 0.8)
        farm.drop("n0")
        told = await seen_until(backend, AttemptLost)
        assert kinds(told) == [NodeUnreachable, NodeLost, AttemptLost]
        root = bench.farm["n0"].root / "clusters/lab"
        beat, folder = root / "heartbeat", folder_of(str(root), "j0", 1)
        before = beat.stat().st_mtime_ns
        farm.thaw_sessions("n0")
        wait_for(lambda: beat.stat().st_mtime_ns != before, "a sign of life that came late")
        woken_ns = time.monotonic_ns()
        farm.thaw("n0")
        status = await anyio.to_thread.run_sync(
            wait_for, lambda: attempts.probe(folder)["status"], "its end"
        )
        print(f"ended {(status['ended_ns'] - woken_ns) / 1e6:.0f} ms after waking")
        assert status["why"] == "heartbeat"
        assert status["ended_ns"] - woken_ns < 3e9
        farm.undrop("n0")
        await seen_until(backend, NodeReachable)
        await order(backend, bench.launching("n0", attempt=2, work_s=0.2))
        await seen_until(backend, AttemptExited)
    bench.assert_nothing_twice()


async def test_host_that_lost_its_power_and_came_back_has_lost_its_jobs(network: Network) -> None:
    bench, farm = network
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0"))
        await seen_until(backend, AttemptStarted)
        farm.power_off("n0")
        assert kinds(await seen_until(backend, NodeUnreachable)) == [NodeUnreachable]
        farm.power_on("n0")
        told = await seen_until(backend, AttemptLost)
        assert kinds(told) == [NodeReachable, AttemptLost]
        await order(backend, bench.launching("n0", attempt=2, work_s=0.2))
        await seen_until(backend, AttemptExited)
    bench.assert_nothing_twice()


async def test_gang_is_lost_as_a_whole_with_one_of_its_hosts(network: Network) -> None:
    bench, farm = network
    async with bench.opened(heartbeat_deadline_s=2.0) as backend:
        await order(backend, bench.launching("n0", "n1", "n2"))
        await seen_until(backend, AttemptStarted)
        wait_for(lambda: len(bench.runs()) == 3, "all ranks")
        farm.power_off("n1")
        told = await seen_until(backend, AttemptLost)
        assert kinds(told) == [NodeUnreachable, NodeLost, AttemptLost]
        await order(backend, bench.launching("n0", "n2", attempt=2, work_s=0.3))
        await seen_until(backend, AttemptExited)
    bench.assert_nothing_twice()
    assert sum(bench.runs().values()) == 5


async def test_no_rank_of_a_gang_runs_while_a_host_has_not_said_that_it_started(
    network: Network,
) -> None:
    """One host hears nothing of its start: the other holds its rank back."""
    bench, farm = network
    async with bench.opened(heartbeat_deadline_s=2.0) as backend:
        farm.drop("n1")
        await order(backend, bench.launching("n0", "n1", work_s=0.0))
        told = await seen_until(backend, NodeLost)
        told += await rest(backend, 1.0)
        assert bench.runs() == {}
        assert not any(is_of(seen, AttemptStarted) for seen in told)
        farm.undrop("n1")
        await seen_until(backend, NodeReachable)
        await order(backend, bench.launching("n0", "n1", attempt=2, work_s=0.1))
        await seen_until(backend, AttemptExited)
    assert sum(bench.runs().values()) == 2
    bench.assert_nothing_twice()


async def test_connection_that_is_cut_off_and_comes_back_at_once_is_not_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "At once" is what this machine can do when other tests keep it busy.
    monkeypatch.setattr(node_agent, "GRACE_S", 60.0)
    async with bench.opened(keepalive_s=60.0) as backend:
        await order(backend, bench.launching("n0"))
        await seen_until(backend, AttemptStarted)
        bench.farm.disconnect("n0")
        await order(backend, Terminate(J0, 1))
        assert kinds(await seen_until(backend, AttemptExited)) == [AttemptExited]
    bench.assert_nothing_twice()
