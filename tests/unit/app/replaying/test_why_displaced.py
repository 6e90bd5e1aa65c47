"""Why a job waits whose GPUs turned out to be others', and what is told of GPUs that are taken."""

import asyncio
from dataclasses import replace

from shunter.api import nodes_of, queue_document
from shunter.ask import down_in_words, fact_in_words, history_of, is_part, told_apart
from shunter.ask.why import Explanation, details, document, headline
from shunter.cli import clause
from shunter.core import Input, SubmitJob
from shunter.core.fold import replay
from shunter.events import (
    AllocationChanged,
    AllocationLearned,
    Event,
    GpuQuarantined,
    GpusReleased,
    GpusTaken,
    NodeAdded,
    NodeLost,
    Reason,
    Wait,
)
from tests.factories import (
    World,
    allocation,
    job_id,
    job_spec,
    node_added,
    node_name,
    policy,
    servers,
)
from tests.replay.recording import Recorded, asked, rebuilt

J0, J1, J2 = job_id(0), job_id(1), job_id(2)
N0 = node_name(0)


def played(*steps: list[Input], there: tuple[NodeAdded, ...] = ()) -> Recorded:
    """Return what a live scheduler records, stepped once each 10 us; two servers of four GPUs."""
    chosen = policy()
    core, events = World(servers=there or servers(4, 4), is_live=True, round_us=10).scheduler(
        chosen, instant=False
    )
    for number, inputs in enumerate(steps):
        at_us = 10 * number
        events += core.step(at_us, [replace(one, at_us=at_us) for one in inputs])[0]
    return Recorded(list(events), rebuilt(chosen, core.rules))


def why(recorded: Recorded, job: str, at: int | None = None) -> Explanation:
    return asyncio.run(asked(recorded, job, at))


BOTH: list[Input] = [SubmitJob(0, J0, job_spec(4)), SubmitJob(0, J1, job_spec(4))]
FOUND = AllocationLearned(0, J0, 1, allocation(n1=0b1111))
DISPLACED = played(
    BOTH,
    [FOUND],
    [],
    [GpusReleased(0, J1, 1), GpusTaken(0, N0, 0b1111), SubmitJob(0, J2, job_spec(8))],
)


SIZED = tuple(node_added(number, 4, cpus_milli=16_000) for number in (0, 1))


def test_a_job_that_waits_for_cpus_says_what_others_hold_of_them() -> None:
    recorded = played(
        [GpusTaken(0, N0, 0, cpus_milli=12_000), GpusTaken(0, node_name(1), 0, cpus_milli=9000)],
        [SubmitJob(0, J0, job_spec(1, cpus_milli=8000))],
        [],
        there=SIZED,
    )
    found = why(recorded, "j0", 20)

    assert document(found)["reason"]["name"] == "cpu_or_memory_short"
    held = "others hold 12 CPUs of n0, 9 CPUs of n1"
    assert details(found)[0] == (
        "it needs 1 GPU, and 8 are free, but not with the 8 CPUs that it needs beside it: "
        "n1 has 7 CPUs beside 4 GPUs, n0 has 4 CPUs beside 4 GPUs; " + held
    )
    state = replay(recorded.events)
    (row,) = queue_document(state, state.jobs.values(), str, now="", ranks={J0: 1})["jobs"]
    assert row["reason"]["detail"] == held
    part = nodes_of(state)[0]
    assert (part["cpus"], part["cpus_free"], part["cpus_taken"]) == (16, 4, 12)


def test_gpus_of_others_are_no_lost_server_in_the_queue_either() -> None:
    state = replay(DISPLACED.events)
    found = queue_document(state, state.jobs.values(), str, now="", ranks={J2: 1})
    (row,) = [row for row in found["jobs"] if row["id"] == J2]

    assert row["reason"]["name"] == "gpus_taken"
    assert clause(row["reason"]) == (
        "others hold too many of the GPUs; needs 8, 0 free; others hold 4 GPUs of n0"
    )


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
    found = why(DISPLACED, "j0", 10)

    assert headline(found).startswith("j0 has been launching on n1[0-3] for ")
    assert [run.allocation for run in found.runs] == [FOUND.allocation]
    history = history_of(
        [event for event in DISPLACED.events if getattr(event, "job_id", None) == J0]
    )
    assert history is not None
    assert [attempt.where for attempt in history.attempts] == ["n1[0-3]"]


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
    state = replay([*servers(4), GpuQuarantined(0, N0, 0), GpusTaken(0, N0, 0b0110)])

    gpus = nodes_of(state)[0]["gpus"]
    assert isinstance(gpus, list)
    assert [gpu["state"] for gpu in gpus] == ["quarantined", "taken", "taken", "free"]
    assert down_in_words(state.cluster) == (
        "GPU 0 of n0 is set aside, GPU 1-2 of n0 is held by others"
    )
