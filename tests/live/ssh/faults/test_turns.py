"""Links that are cut while jobs take turns: these go on, and each is told once, in order."""

from itertools import pairwise

import anyio
import pytest

from shunter.backends.live import TurnSettings
from shunter.core import Input, Launch, Weigh
from shunter.events import (
    Allocation,
    JobSpec,
    NodeName,
    NodeReachable,
    NodeUnreachable,
    Share,
    Sharing,
    TurnEnded,
    TurnStarted,
)
from tests.factories import job_id
from tests.live.ssh.bench import Bench, order, rest, seen_until
from tests.live.ssh.namespaces import Namespaces

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

JOBS = [job_id(number) for number in range(2)]
QUANTUM_US = 300_000
CLOCK_US = 100_000
CUT_S = 3.0


def spans(seen: list[Input], job: str) -> list[tuple[int, int]]:
    """Return the whole turns of a job; hold them to come one after the other."""
    told = [each for each in seen if isinstance(each, TurnStarted | TurnEnded)]
    mine = [each for each in told if each.job_id == job]
    kinds = [type(each) for each in mine]
    assert kinds == [TurnStarted, TurnEnded] * (len(kinds) // 2) + [TurnStarted] * (len(kinds) % 2)
    starts = [each.began_us or 0 for each in mine if isinstance(each, TurnStarted)]
    ends = [each.ended_us or 0 for each in mine if isinstance(each, TurnEnded)]
    return list(zip(starts, ends, strict=False))


async def test_turns_go_on_over_a_cut_link_and_a_weight_given_then_counts_afterwards(
    network: tuple[Bench, Namespaces],
) -> None:
    bench, farm = network
    shared = Allocation((Share(NodeName("n0"), 1),), Sharing.sliced)
    spec = JobSpec(1, command=("/bin/sleep", "600"))
    async with bench.opened(slicing=TurnSettings(quantum_us=QUANTUM_US)) as backend:
        await order(backend, *[Launch(job, 1, shared, spec) for job in JOBS])
        seen = await rest(backend, 3.0)
        farm.cut("n0")
        seen += await seen_until(backend, NodeUnreachable)
        cut_us = backend.now_us()
        await order(backend, Weigh(JOBS[1], 1, 8.0))
        await anyio.sleep(CUT_S)
        healed_us = backend.now_us()
        farm.heal("n0")
        seen += await seen_until(backend, NodeReachable)
        seen += await rest(backend, 2.0)
        weighed_us = backend.now_us()
        seen += await rest(backend, 6.0)
    turns = {job: spans(seen, job) for job in JOBS}
    both = sorted(span for each in turns.values() for span in each)
    # Instants are of the host's clock, read anew with each connection, to within a round trip.
    assert all(end <= began + CLOCK_US for (_, end), (began, _) in pairwise(both))
    meanwhile = [span for span in both if cut_us < span[0] < healed_us]
    print(len(both), "turns, of these", len(meanwhile), "while the link was cut")
    assert len(meanwhile) >= 3
    had = {
        job: sum(end - max(began, weighed_us) for began, end in turns[job] if end > weighed_us)
        for job in JOBS
    }
    assert had[JOBS[1]] > 2 * had[JOBS[0]], had
    bench.assert_nothing_twice()
