"""The port to time: the clocks of this machine, unless a run has another."""

import threading
import time
from datetime import UTC, datetime

import anyio
from anyio import to_thread

from shunter import clock
from shunter.backends.node import uptime_ns
from tests.doubles.virtual_clock import VirtualClock


def test_without_another_these_are_the_clocks_of_the_machine() -> None:
    for ours, machines in (
        (clock.monotonic_ns, time.monotonic_ns),
        (clock.monotonic_s, time.monotonic),
        (clock.wall_ns, time.time_ns),
        (clock.wall_s, time.time),
        (clock.wall_now, lambda: datetime.now(UTC)),
    ):
        before, found, after = machines(), ours(), machines()
        assert before <= found <= after  # type: ignore[operator]  # each is of one type thrice


def test_uptime_is_what_agents_read() -> None:
    """Goal: a heartbeat tells an instant that the supervisor of this machine can compare."""
    before, found, after = uptime_ns(), clock.uptime_ns(), uptime_ns()
    assert before <= found <= after


def test_another_clock_counts_until_its_block_ends() -> None:
    other = VirtualClock(monotonic_ns=5 * 10**9, wall_ns=7_000_001_999)
    with clock.clock_set(other):
        assert (clock.monotonic_ns(), clock.monotonic_s()) == (5 * 10**9, 5.0)
        assert (clock.wall_ns(), clock.wall_s()) == (7_000_001_999, 7.000001999)
        assert clock.wall_now() == datetime(1970, 1, 1, 0, 0, 7, 1, tzinfo=UTC)
        assert clock.uptime_ns() == 5 * 10**9
    assert clock.wall_s() > 1.5e9


def test_tasks_and_threads_have_the_clock_of_whoever_started_them() -> None:
    read: list[float] = []

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(note)
        read.append(await to_thread.run_sync(clock.monotonic_s))

    async def note() -> None:
        read.append(clock.monotonic_s())

    VirtualClock(monotonic_ns=8 * 10**9).run(main)
    assert read == [8.0, 8.0]


def test_thread_that_nobody_of_the_run_started_has_the_clock_of_the_machine() -> None:
    read: list[float] = []
    with clock.clock_set(VirtualClock(monotonic_ns=0)):
        thread = threading.Thread(target=lambda: read.append(clock.wall_s()))
        thread.start()
        thread.join()
    assert abs(read[0] - time.time()) < 60
