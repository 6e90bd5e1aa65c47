"""What agents are told of shares, and what people are."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from shunter.backends.live import (
    NOTICES_MOST,
    LocalNode,
    LocalSettings,
    LocalTransport,
    ShareNotices,
    Socket,
    Transport,
    Where,
    cpus_for,
    cpus_near,
    orders_for,
    shares_kept,
    shares_of,
)
from shunter.backends.node import ReshapeAnswer, Shares
from shunter.core import Launch
from shunter.events import Allocation, JobId, JobSpec, NodeName, Share, Sharing

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


ON_TWO = LocalNode(
    N0, ("0", "1", "2", "3"), (0, 1, 2, 3), (Socket(0b0011, (0, 1)), Socket(0b1100, (2, 3)))
)


@given(
    mask=st.integers(0, 15), cpus_milli=st.integers(0, 4000), sharing=st.sampled_from([*Sharing])
)
def test_share_may_use_the_cpus_beside_its_gpus_or_all_if_these_are_too_few(
    mask: int, cpus_milli: int, sharing: Sharing
) -> None:
    share = Share(N0, mask, cpus_milli)
    allocation = Allocation((share,), sharing)
    beside = tuple(cpu for cpu in range(4) if mask & (0b0011 if cpu < 2 else 0b1100))
    if not beside or sharing is Sharing.sliced:
        beside = (0, 1, 2, 3)
    assert cpus_near(ON_TWO, allocation, share) == beside
    enough = len(beside) * 1000 >= cpus_milli
    assert cpus_for(ON_TWO, allocation, share) == (beside if enough else (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("mask", "cpus_milli", "tenants", "cpus", "is_pinned"),
    [
        (0b0100, 0, {}, (2, 3), False),
        (0b0100, 1000, {2: 1}, (3,), True),
        (0b0100, 1000, {2: 2, 3: 2}, (2,), True),
        (0b0011, 3000, {2: 1}, (0, 1, 3), True),
        (0b0110, 1000, {0: 1, 1: 1}, (2,), True),
    ],
    ids=["asks for none", "the quieter", "not far away", "further ones", "of both sockets"],
)
def test_rank_is_bound_to_cpus_beside_its_gpus(
    mask: int, cpus_milli: int, tenants: dict[int, int], cpus: tuple[int, ...], *, is_pinned: bool
) -> None:
    settings = LocalSettings("/attempts", (ON_TWO,), 1)
    where = Where(LocalTransport(settings), "/attempts", Counter(tenants))
    share = Share(N0, mask, cpus_milli)
    effect = Launch(JobId("j1"), 1, Allocation((share,)), JobSpec(command=("true",)))
    (order,) = orders_for(effect, settings, settings.owner, {N0: where}, {}, 29500).values()
    (rank,) = order.ranks
    assert (rank.cpus, rank.pinned) == (cpus, is_pinned)


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
