"""The virtual clock: waits take no real time, and end at the nanosecond they were set for."""

import socket
import time
from collections.abc import Sequence

import anyio
import pytest
from anyio import to_thread

from shunter import clock
from shunter.backends.live import Inbox, Stamped
from shunter.core import Input
from shunter.daemon import watch_clock
from shunter.events import ClockStepped, NodeName, NodeReachable
from tests.doubles.virtual_clock import VirtualClock

HOUR_S = 3600.0
REAL_S_MOST = 20.0  # far more than any machine needs, far less than what is waited for


def test_year_of_waits_takes_no_time_and_ends_exactly() -> None:
    instants = []

    async def main() -> None:
        for _ in range(365):
            await anyio.sleep(24 * HOUR_S)
            instants.append((clock.monotonic_ns(), clock.wall_ns(), clock.uptime_ns()))

    began_s = time.monotonic()
    VirtualClock(monotonic_ns=0, wall_ns=10**18).run(main)
    assert time.monotonic() - began_s < REAL_S_MOST
    day_ns = 86_400 * 10**9
    assert instants == [(n * day_ns, 10**18 + n * day_ns, n * day_ns) for n in range(1, 366)]


def test_reads_and_the_time_of_the_loop_are_one_number() -> None:
    async def main() -> None:
        for delay_s in (0.1, 1 / 3, 1e-9, 7.7, 123_456.789):
            await anyio.sleep(delay_s)
            assert clock.monotonic_s() == anyio.current_time()

    VirtualClock(monotonic_ns=123_456_789_012_345).run(main)


@pytest.mark.parametrize("start_ns", [0, 1, 10**12 + 7, 3 * 10**16 + 1])
@pytest.mark.parametrize("delay_s", [1e-12, 1e-9, 0.1, 1 / 3, 930.7, 40 * HOUR_S])
def test_waiting_for_a_deadline_ends_at_it(start_ns: int, delay_s: float) -> None:
    """Goal: no wait ends a rounding before its deadline and is set again without end.

    Method: the loop in which agents wait, from starts up to a year of uptime.
    """
    turns = 0

    async def main() -> None:
        nonlocal turns
        end_s = clock.monotonic_s() + delay_s
        while (left_s := end_s - clock.monotonic_s()) > 0:
            turns += 1
            assert turns < 10
            await anyio.sleep(left_s)

    virtual = VirtualClock(monotonic_ns=start_ns)
    virtual.run(main)
    late_ns = virtual.monotonic_ns() - start_ns - delay_s * 1e9
    assert abs(late_ns) <= 1 + start_ns / 1e15, "a nanosecond, or what a float can tell"


def test_timers_run_in_the_order_of_their_instants() -> None:
    order: list[tuple[float, float]] = []

    async def note(delay_s: float) -> None:
        await anyio.sleep(delay_s)
        order.append((delay_s, clock.monotonic_s()))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for delay_s in (5.0, 1.0, 3.0, 1e6, 3.5):
                tasks.start_soon(note, delay_s)

    VirtualClock(monotonic_ns=0).run(main)
    assert order == [(delay_s, delay_s) for delay_s in (1.0, 3.0, 3.5, 5.0, 1e6)]


def test_timeout_that_something_comes_before_moves_no_time() -> None:
    async def main() -> float:
        came = anyio.Event()
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(HOUR_S):
                tasks.start_soon(_set_after, 2.0, came)
                await came.wait()
        with pytest.raises(TimeoutError), anyio.fail_after(10.0):
            await anyio.sleep_forever()
        return clock.monotonic_s()

    assert VirtualClock(monotonic_ns=0).run(main) == 12.0


async def _set_after(delay_s: float, came: anyio.Event) -> None:
    await anyio.sleep(delay_s)
    came.set()


def test_what_is_computed_takes_no_time_and_advance_lets_some_pass() -> None:
    virtual = VirtualClock(monotonic_ns=0)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.move_on_after(60.0) as scope:
                tasks.start_soon(_advance, virtual, 90 * 10**9)
                await anyio.sleep_forever()
            assert scope.cancelled_caught
            assert clock.monotonic_s() == 90.0

    virtual.run(main)


async def _advance(virtual: VirtualClock, by_ns: int) -> None:
    sum(range(10_000))
    assert virtual.monotonic_ns() == 0
    virtual.advance(by_ns)


def test_thread_is_waited_for_where_real_time_is_given() -> None:
    """Goal: no deadline passes while a thread works. Method: it takes less than `idle_s`."""

    async def main() -> float:
        with anyio.fail_after(0.5):
            await to_thread.run_sync(time.sleep, 0.05)
        return clock.monotonic_s()

    assert VirtualClock(monotonic_ns=0).run(main, idle_s=30.0) == 0.0


def test_sockets_are_read_while_time_stands_still() -> None:
    async def main() -> tuple[bytes, float]:
        one, other = socket.socketpair()
        with one:
            async with await anyio.abc.UNIXSocketStream.from_socket(other) as stream:
                one.sendall(b"news")
                with anyio.fail_after(HOUR_S):
                    found = await stream.receive()
                return found, clock.monotonic_s()

    assert VirtualClock(monotonic_ns=0).run(main) == (b"news", 0.0)


def test_inbox_observes_to_its_deadline_and_stamps_what_comes() -> None:
    async def main() -> list[tuple[int, Sequence[Input]]]:
        inbox = Inbox(start_us=500)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_put_after, 1.25, inbox)
            found = [await inbox.observe(1_000_500), await inbox.observe(None)]
        return [*found, await inbox.observe(30 * 3_600_000_000)]

    came = NodeReachable(1_250_500, NodeName("n0"))
    assert VirtualClock().run(main) == [
        (1_000_500, ()),
        (1_250_500, (came,)),
        (30 * 3_600_000_000, ()),
    ]


def test_inbox_takes_nothing_before_it_came_however_late_a_deadline_is_asked_for() -> None:
    """As where a start or a plan took two seconds: rounds have what had come by then."""

    async def main() -> list[tuple[int, Sequence[Input]]]:
        inbox = Inbox()
        for delay_s in (0.2, 0.3, 1.5):
            await _put_after(delay_s, inbox)
        found = [await inbox.observe(until_us) for until_us in (100, 200_000, 500_000, 500_001)]
        await anyio.sleep(1.0)
        return [*found, await inbox.observe(4_000_000)]

    first, second, third = (
        NodeReachable(us, NodeName("n0")) for us in (200_000, 500_000, 3_000_000)
    )
    assert VirtualClock().run(main) == [
        (100, ()),
        (200_000, (first,)),
        (500_000, (second,)),
        (500_001, ()),
        (3_000_000, (third,)),
    ]


async def _put_after(delay_s: float, inbox: Inbox) -> None:
    await anyio.sleep(delay_s)
    inbox.put(lambda at_us: NodeReachable(at_us, NodeName("n0")))


class Posted:
    """Takes what the watcher of the wall clock posts."""

    def __init__(self) -> None:
        self.facts: list[tuple[float, Input]] = []

    def post(self, stamped: Stamped) -> None:
        self.facts.append((clock.monotonic_s(), stamped(0)))


def test_steps_of_the_wall_clock_and_a_machine_that_slept_are_seen() -> None:
    virtual, posted = VirtualClock(monotonic_ns=0), Posted()

    async def main() -> None:
        with anyio.move_on_after(HOUR_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch_clock, posted.post)
                await anyio.sleep(61.0)
                virtual.step_wall(-7_200 * 10**9)
                await anyio.sleep(61.0)
                virtual.sleep_machine(600 * 10**9)

    virtual.run(main)
    assert posted.facts == [
        (65.0, ClockStepped(0, -7_200_000_000)),
        (125.0, ClockStepped(0, 600_000_000)),
    ]
    assert virtual.uptime_ns() - virtual.monotonic_ns() == 600 * 10**9


def test_two_runs_are_the_same() -> None:
    def run() -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        async def note(name: str, every_s: float) -> None:
            while True:
                await anyio.sleep(every_s)
                seen.append((name, clock.monotonic_s()))

        async def main() -> None:
            with anyio.move_on_after(100.0):
                async with anyio.create_task_group() as tasks:
                    for name, every_s in (("a", 1.0), ("b", 0.5), ("c", 1 / 3), ("d", 1.0)):
                        tasks.start_soon(note, name, every_s)

        VirtualClock().run(main)
        return seen

    assert run() == run()
