"""When a host is unreachable and when it is lost, in virtual time; what its clock says."""

import time
from collections.abc import Callable

import anyio

from shunter.backends.live import RETRY_S_MAX, ClockOffset, Limits, Owner, SupervisedBackend
from shunter.core import Input
from shunter.events import NodeLost, NodeName, NodeReachable, NodeUnreachable
from tests.doubles.virtual_clock import VirtualClock
from tests.unit.backends.agents.memory_host import MemoryHost

SECOND_US = 1_000_000
HOUR_S = 3600.0
LIMITS = Limits(heartbeat_deadline_s=HOUR_S, margin_s=30.0, patrol_s=5.0, call_s=20.0)
OWNER = Owner("c0", 1, "h", "/memory")
N0 = NodeName("n0")

Change = tuple[float, Callable[[], None]]


def observed(
    hosts: list[MemoryHost], changes: list[Change], until_s: float, limits: Limits = LIMITS
) -> list[Input]:
    """Return what a backend of hosts observes, while changes come at instants in seconds."""
    found: list[Input] = []

    async def change(at_s: float, what: Callable[[], None]) -> None:
        await anyio.sleep(at_s)
        what()

    async def main() -> None:
        async with (
            SupervisedBackend(limits, OWNER, hosts) as backend,
            anyio.create_task_group() as tasks,
        ):
            for each in changes:
                tasks.start_soon(change, *each)
            now_us, until_us = 0, round(until_s * SECOND_US)
            while now_us < until_us:
                now_us, inputs = await backend.observe(until_us)
                found.extend(inputs)

    VirtualClock().run(main)
    return found


def falls_silent(host: MemoryHost, at_s: float) -> Change:
    return at_s, lambda: setattr(host, "is_silent", True)


def comes_back(host: MemoryHost, at_s: float) -> Change:
    return at_s, lambda: setattr(host, "is_silent", False)


def test_silent_host_is_unreachable_and_then_lost_at_the_exact_instants() -> None:
    """Goal: lost at deadline and margin after the last sign of life that may have arrived.

    Method: it answers the look of 3,600 s and falls silent. That of 3,605 s may have reached it all
    the same; it waits 20 s for its answer. An hour and 30 s after it, and no sooner, it is lost.
    """
    began_s = time.monotonic()
    host = MemoryHost("n0")
    found = observed([host], [falls_silent(host, 3602.0)], 12 * HOUR_S)
    assert time.monotonic() - began_s < 20.0
    silent, lost = found
    assert silent == NodeUnreachable(3625 * SECOND_US, N0)
    assert isinstance(lost, NodeLost)
    assert lost.at_us == (3605 + 3600 + 30) * SECOND_US
    assert host.asked[-1] == (1000.0 + 3605.0, "look")


def test_host_that_comes_back_in_time_is_reachable_and_never_lost() -> None:
    host = MemoryHost("n0")
    back_s = 3605 + 3600
    found = observed([host], [falls_silent(host, 3602.0), comes_back(host, back_s)], 3 * HOUR_S)
    assert [type(each) for each in found] == [NodeUnreachable, NodeReachable]
    assert back_s * SECOND_US <= found[1].at_us <= (back_s + RETRY_S_MAX) * SECOND_US


def test_what_this_term_told_of_a_host_stands_above_what_the_log_had() -> None:
    host, found = MemoryHost("n0"), list[Input]()
    host.is_silent = True

    async def main() -> None:
        async with SupervisedBackend(LIMITS, OWNER, [host]) as backend:
            host.is_silent = False
            found.extend((await backend.observe(60 * SECOND_US))[1])
            found.extend((await backend.observe(60 * SECOND_US))[1])
            backend.recall([N0])
            found.extend((await backend.observe(120 * SECOND_US))[1])

    VirtualClock().run(main)
    assert [type(each) for each in found] == [NodeUnreachable, NodeReachable]


def test_each_host_is_lost_in_its_own_time_and_twice_the_same() -> None:
    def run() -> list[Input]:
        hosts = [MemoryHost(f"n{number}") for number in range(4)]
        changes = [falls_silent(host, 100.0 * n + 2.5) for n, host in enumerate(hosts)]
        changes += [comes_back(hosts[3], 1.5 * HOUR_S), falls_silent(hosts[3], 2 * HOUR_S)]
        return observed(hosts, changes, 3.2 * HOUR_S)

    found = run()
    lost = {each.node: each.at_us for each in found if isinstance(each, NodeLost)}
    again_us = lost.pop(NodeName("n3")) - 3630 * SECOND_US
    assert lost == {f"n{n}": (100 * n + 5 + 3630) * SECOND_US for n in range(3)}
    assert 0 <= again_us - 2 * 3600 * SECOND_US <= 5 * SECOND_US
    assert run() == found


def test_signs_of_life_between_looks_come_when_they_are_due() -> None:
    host = MemoryHost("n0")
    limits = Limits(patrol_s=60.0, beat_s=15.0)
    observed([host], [], 120.0 - 1e-3, limits)
    begun_s = 1000.0
    assert [(at_s - begun_s, do) for at_s, do in host.asked if do != "claim"] == [
        *((0.0, "look"), (15.0, "beat"), (30.0, "beat"), (45.0, "beat")),
        *((60.0, "look"), (75.0, "beat"), (90.0, "beat"), (105.0, "beat")),
    ]


def test_narrowest_answer_says_how_far_a_clock_is_ahead() -> None:
    clock = ClockOffset()
    clock.note(asked_ns=100, remote_ns=1100, came_ns=300)
    assert clock.ahead_ns == 900
    clock.note(asked_ns=400, remote_ns=1350, came_ns=420)
    assert clock.ahead_ns == 940
    clock.note(asked_ns=500, remote_ns=1500, came_ns=600)
    assert (clock.ahead_ns, clock.to_local(1440), clock.to_remote(500)) == (940, 500, 1440)


def test_clock_that_drifts_is_followed_for_ever() -> None:
    """Goal: days later it is known as well as at first. Method: 50 ppm, answers within 200 us."""
    clock, day_us = ClockOffset(), 86_400_000_000
    for at_us in range(0, 10 * day_us, 600_000_000):
        ahead_us = at_us * 50 // 1_000_000
        clock.note(at_us, at_us + 100 + ahead_us, at_us + 200)
        assert abs(clock.ahead_ns - ahead_us) <= 200


def test_clock_that_stood_still_is_followed_at_once() -> None:
    clock = ClockOffset()
    clock.note(1000, 6005, 1010)
    clock.note(9000, 9005, 9030)
    assert clock.ahead_ns == -10
