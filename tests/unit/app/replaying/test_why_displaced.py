"""Why a job waits whose GPUs turned out to be others', and what is told of GPUs that are taken."""

import asyncio

from shunter.api import nodes_of
from shunter.ask import down_in_words, fact_in_words, is_part, read_histories, told_apart
from shunter.core.fold import replay
from shunter.events import (
    AllocationChanged,
    Event,
    GpuQuarantined,
    GpusTaken,
    NodeLost,
    Reason,
    Wait,
)
from tests.behaviour import displacements
from tests.behaviour.waits_scenes import played
from tests.factories import job_id, node_added, node_name, servers
from tests.replay.recording import reading

J0 = job_id(0)
N0 = node_name(0)
DISPLACED = played(displacements.DISPLACED)


def test_a_lost_server_is_told_as_lost_though_others_hold_gpus_too() -> None:
    """With the GPUs of others there would be four up, and the job needs eight."""
    wait = Wait(Reason.node_lost, 8)
    history: list[Event] = [*servers(4, 4), GpusTaken(0, N0, 0b1111)]
    assert told_apart(wait, (), replay(history).cluster) is Reason.gpus_taken
    lost = NodeLost(1, node_name(1), "heartbeat")
    assert told_apart(wait, (), replay([*history, lost]).cluster) is Reason.node_lost
    assert told_apart(Wait(Reason.node_lost, 4), (), replay([*history, lost]).cluster) is (
        Reason.gpus_taken
    )


def test_a_job_is_where_it_was_found_and_not_where_it_was_to_be() -> None:
    async def found() -> list[str]:
        async with reading(DISPLACED.events) as reader:
            return [one.where for one in (await read_histories(reader, [J0]))[J0].attempts]

    assert asyncio.run(found()) == ["n1[0-3]"]


def test_a_displacement_is_no_part_of_a_round_and_says_who_has_the_gpus() -> None:
    event = DISPLACED.at(
        next(
            seq
            for seq in DISPLACED.seqs(AllocationChanged)
            if DISPLACED.at(seq).because.rule == "displaced"
        )
    )

    assert not is_part(event)
    assert fact_in_words(event) == ("take everything from j1, because Slurm gave its GPUs to j0")


def test_gpus_of_others_are_told_apart_from_those_set_aside() -> None:
    held = replay([node_added(cpus_milli=16_000), GpusTaken(0, N0, 0, cpus_milli=12_000)])
    part = nodes_of(held)[0]
    assert (part["cpus"], part["cpus_free"], part["cpus_taken"]) == (16, 4, 12)
    state = replay([*servers(4), GpuQuarantined(0, N0, 0), GpusTaken(0, N0, 0b0110)])

    gpus = nodes_of(state)[0]["gpus"]
    assert isinstance(gpus, list)
    assert [gpu["state"] for gpu in gpus] == ["quarantined", "taken", "taken", "free"]
    assert down_in_words(state.cluster) == (
        "GPU 0 of n0 is set aside, GPU 1-2 of n0 is held by others"
    )
