"""Which nodes Slurm has out of service, and which it keeps from us, by recorded answers."""

import dataclasses
from collections.abc import Sequence

import pytest

from shunter.backends.slurm import (
    NodeService,
    Partition,
    Reservation,
    Slurm,
    SlurmNode,
    SlurmServer,
    read_nodes,
    read_partitions,
    read_reservations,
    reservation_in,
    reservations_by_node,
)
from shunter.clock import clock_set
from shunter.errors import SlurmUnknownError
from shunter.events import NodeName
from tests.doubles.virtual_clock import VirtualClock
from tests.unit.backends.slurm.recorded import recorded

N1, N2, N9 = NodeName("n1"), NodeName("n2"), NodeName("n9")
(MAINT,) = read_reservations(recorded("22.05", "reservations.txt"))
(FIRST, *_) = read_nodes(recorded("22.05", "nodes.txt"))
BEGINS_S = 1795526563


def servers(*names: NodeName) -> list[SlurmServer]:
    return [SlurmServer(name, (), (), "v100", "", 0) for name in names]


class ToldSlurm(Slurm):
    """A Slurm that tells what a test says; nothing told is no answer."""

    def __init__(self) -> None:
        super().__init__()
        self.told: Sequence[SlurmNode] | None = None
        self.kept: Sequence[Reservation] = ()

    async def nodes(self) -> tuple[SlurmNode, ...]:
        if self.told is None:
            raise SlurmUnknownError("no answer", "wait")
        return tuple(self.told)

    async def partitions(self) -> tuple[Partition, ...]:
        main, shared = read_partitions(recorded("22.05", "partitions.txt"))
        return main, dataclasses.replace(shared, time_limit_s=7_200)

    async def reservations(self) -> tuple[Reservation, ...]:
        return tuple(self.kept)


def node(name: str, state: str = "IDLE", *flags: str, reason: str = "") -> SlurmNode:
    return dataclasses.replace(FIRST, name=name, state=state, flags=frozenset(flags), reason=reason)


async def looked(*told: SlurmNode, nodes: Sequence[NodeName] = (N1,)) -> dict[NodeName, str]:
    slurm = ToldSlurm()
    slurm.told = told
    service = NodeService(slurm, servers(*nodes), least_s=600.0)
    await service.look()
    return dict(service.out_of_service(0.0) or {})


@pytest.mark.asyncio
async def test_drained_and_down_nodes_are_out_with_the_administrators_word() -> None:
    drained = node("n1", "IDLE", "DRAIN", reason="a fan")
    assert await looked(drained) == {N1: "Slurm has node n1 drained: a fan"}
    down = node("n1", "DOWN", "NOT_RESPONDING", reason="Not responding")
    assert await looked(down) == {N1: "Slurm has node n1 down: Not responding"}
    assert await looked(node("n2"), nodes=(N9,)) == {N9: "Slurm has no node n9"}


@pytest.mark.asyncio
async def test_node_that_does_not_answer_for_a_moment_stays_in_service() -> None:
    assert await looked(node("n1", "ALLOCATED", "NOT_RESPONDING")) == {}
    assert await looked(node("n1", "UNKNOWN")) == {}, "a controller that has just started says so"


@pytest.mark.asyncio
async def test_what_was_known_stays_while_slurm_does_not_answer() -> None:
    slurm = ToldSlurm()
    service = NodeService(slurm, servers(N1), least_s=600.0)
    with pytest.raises(SlurmUnknownError):
        await service.look()
    assert service.out_of_service(0.0) is None
    slurm.told = [node("n1", "DOWN")]
    await service.look()
    slurm.told = None
    with pytest.raises(SlurmUnknownError):
        await service.look()
    assert service.out_of_service(0.0) == {N1: "Slurm has node n1 down"}


@pytest.mark.asyncio
async def test_node_is_out_of_service_shortly_before_a_reservation_and_back_after() -> None:
    slurm = ToldSlurm()
    slurm.told, slurm.kept = [node("n1")], [dataclasses.replace(MAINT, end_s=2**40)]
    service = NodeService(slurm, servers(N1), least_s=600.0)
    await service.look()
    assert service.out_of_service(BEGINS_S - 601) == {}
    out = service.out_of_service(BEGINS_S - 599)
    assert out is not None
    assert out[N1].startswith("Slurm keeps node n1 for maintenance from ")
    assert service.out_of_service(2.0**40) == {}
    named = NodeService(slurm, servers(N1), least_s=600.0, options=["--reservation=maint"])
    await named.look()
    assert named.nodes[N1].reservation is None


def test_reservation_that_begins_first_counts_and_one_that_is_over_does_not() -> None:
    later = dataclasses.replace(MAINT, name="later", start_s=BEGINS_S + 9, nodes=("n1",))
    found = reservations_by_node([later, MAINT], (N1, N2, N9), BEGINS_S)
    assert {node: kept.name for node, kept in found.items()} == {N1: "maint", N2: "maint"}
    assert reservations_by_node([MAINT], (N1,), MAINT.end_s) == {}
    assert reservation_in(["--constraint=a", "--reservation=x"]) == "x"


def test_limit_ends_before_a_reservation_in_whole_minutes() -> None:
    kept = reservations_by_node([MAINT], (N1,), 0.0)[N1]
    assert kept.limit_s(BEGINS_S - 3600) == 54 * 60
    assert kept.limit_s(BEGINS_S - 200) == 120
    assert kept.limit_s(BEGINS_S + 1) == 0


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("partition", "kept", "longest_s"),
    [("", (), None), ("main", (), None), ("shared", (), 7_200), ("shared", (MAINT,), 54 * 60)],
)
async def test_job_is_asked_for_no_longer_than_partition_and_reservations_allow(
    partition: str, kept: Sequence[Reservation], longest_s: float | None
) -> None:
    slurm = ToldSlurm()
    slurm.told, slurm.kept = [node("n1")], kept
    service = NodeService(slurm, servers(N1), least_s=600.0, partition=partition)
    with clock_set(VirtualClock(wall_ns=(BEGINS_S - 3600) * 10**9)):
        await service.look()
        assert service.longest_s([N1]) == longest_s
