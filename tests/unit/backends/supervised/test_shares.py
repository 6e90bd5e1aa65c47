"""What agents are told of shares, and what people are."""

from collections.abc import Mapping

import pytest

from shunter.backends.agents.answers import ReshapeAnswer
from shunter.backends.agents.orders import Shares
from shunter.backends.agents.transport import Transport
from shunter.backends.local import LocalNode, LocalSettings
from shunter.backends.local.transport import LocalTransport
from shunter.backends.supervised.shares import NOTICES_MOST, ShareNotices, shares_kept, shares_of
from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.ids import NodeName

N0, N1, GONE = map(NodeName, ("n0", "n1", "gone"))


def one_machine() -> Mapping[NodeName, Transport]:
    """Return two servers of one agent."""
    nodes = (LocalNode(N0, ("0",), (0, 1)), LocalNode(N1, ("1",), (1, 2)))
    transport = LocalTransport(LocalSettings("/attempts", nodes, 1))
    return {N0: transport, N1: transport}


def test_agent_of_several_servers_is_told_of_all_that_its_part_of_a_gang_has() -> None:
    allocation = Allocation((Share(N0, 1, 500, 100), Share(N1, 1, 700, 50), Share(GONE, 1, 9, 9)))
    held = shares_of(allocation, one_machine())
    assert held == {NodeName("local"): Shares(cpus_milli=1200, memory_mb=150, cpus=(0, 1, 2))}


def test_who_was_given_neither_is_held_to_nothing() -> None:
    assert shares_of(Allocation((Share(N0, 1),)), one_machine()) == {}


@pytest.mark.parametrize(
    ("had", "told", "kept"),
    [
        ((900, 30), (1200, 60), [(400, 20), (800, 40)]),
        ((900, 30), (0, 0), [(300, 10), (600, 20)]),
        ((900, 30), None, [(300, 10), (600, 20)]),
        (None, None, [(100, 1), (200, 2)]),
    ],
    ids=["what the kernel has", "what was held last", "no answer", "nobody knows"],
)
def test_what_is_kept_is_what_holds_as_far_as_anybody_knows(
    had: tuple[int, int] | None, told: tuple[int, int] | None, kept: list[tuple[int, int]]
) -> None:
    """Two servers of one agent, with 1 and 2 GPUs of a gang."""
    before = None if had is None else Shares(cpus_milli=had[0], memory_mb=had[1], cpus=())
    answer = None
    if told is not None:
        answer = ReshapeAnswer(now_ns=1, up_ns=1, cpus_milli=told[0], memory_mb=told[1])
    found = shares_kept((Share(N0, 1, 100, 1), Share(N1, 3, 200, 2)), before, answer)
    assert [(share.cpus_milli, share.memory_mb) for share in found] == kept


@pytest.mark.asyncio
async def test_each_way_is_told_once_and_of_what_nobody_takes_the_newest_stays() -> None:
    notices = ShareNotices()
    for name in (N0, N1):
        notices.put_means(name, "CPUs by affinity")
    notices.put_means(N0, "")
    assert await notices.take() == "shares of jobs on n0: CPUs by affinity"
    for number in range(NOTICES_MOST + 5):
        notices.put(str(number))
    assert await notices.take() == "5"
