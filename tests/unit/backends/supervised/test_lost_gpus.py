"""GPUs that are lost: two readings in a row quarantine one, with a cause."""

from dataclasses import dataclass

from shunter.backends.live import LostGpus, Socket
from shunter.backends.node import GpuReading
from shunter.events import GpuQuarantined, NodeName

LOST, RESET_REQUIRED, NOT_SUPPORTED = 15, 16, 3
AGENT = NodeName("host")


@dataclass(frozen=True)
class Part:
    """A server of the agent."""

    name: NodeName
    gpus: tuple[str, ...]
    cpus: tuple[int, ...] = ()
    sockets: tuple[Socket, ...] = ()


BY_INDEX = (Part(NodeName("n0"), ("0", "1")), Part(NodeName("n1"), ("2", "3")))


def reading(codes: dict[int, int], what: str = "device", uuids: bool = False) -> list[GpuReading]:
    """Return a reading of four GPUs; one whose device is lost has no UUID."""
    return [
        GpuReading(
            index=index,
            uuid=None if (index in codes and what == "device") or not uuids else f"GPU-{index}",
            faults={what: codes[index]} if index in codes else {},
        )
        for index in range(4)
    ]


def taken(
    counts: LostGpus, gpus: list[GpuReading], servers: tuple[Part, ...] = BY_INDEX
) -> list[tuple[str, int]]:
    facts = [stamped(7) for stamped in counts.take(AGENT, servers, gpus)]
    return [(fact.node, fact.gpu) for fact in facts if isinstance(fact, GpuQuarantined)]


def test_one_reading_is_not_believed_and_the_second_in_a_row_is() -> None:
    counts = LostGpus()
    assert taken(counts, reading({3: LOST})) == []
    assert taken(counts, reading({})) == []
    assert taken(counts, reading({3: LOST})) == []
    assert taken(counts, []) == []  # a driver that does not answer says nothing
    assert taken(counts, reading({3: LOST, 0: RESET_REQUIRED})) == [("n1", 1)]
    assert taken(counts, reading({0: RESET_REQUIRED}, what="memory")) == [("n0", 0)]


def test_quarantine_says_what_was_read_and_what_to_do() -> None:
    counts = LostGpus()
    taken(counts, reading({1: LOST}))
    (stamped,) = counts.take(AGENT, BY_INDEX, reading({1: LOST}))

    assert stamped(7) == GpuQuarantined(
        7,
        NodeName("n0"),
        1,
        "2 readings in a row say: the GPU fell off the bus: drain the node, restart it, and "
        "release the GPU",
    )


def test_reading_that_a_card_does_not_offer_is_no_loss() -> None:
    counts = LostGpus()
    for _ in range(3):
        assert taken(counts, reading({1: NOT_SUPPORTED}, what="utilisation")) == []


def test_lost_gpu_is_known_by_the_uuid_that_it_had() -> None:
    """One that is lost tells none any more, and this server's GPUs are named by theirs."""
    counts, servers = LostGpus(), (Part(NodeName("n0"), ("GPU-2", "GPU-1")),)
    taken(counts, reading({}, uuids=True), servers)
    taken(counts, reading({2: LOST}, uuids=True), servers)

    assert taken(counts, reading({2: LOST}, uuids=True), servers) == [("n0", 0)]
