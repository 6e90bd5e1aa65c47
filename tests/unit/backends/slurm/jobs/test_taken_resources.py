"""What of a node others hold, by listings between answers of squeue."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from shunter.backends.slurm import (
    Key,
    NodeListing,
    QueueView,
    SlurmServer,
    TakenResources,
    attempt_job_name,
    read_nodes,
)
from shunter.events import NodeName, Share
from tests.unit.backends.slurm.jobs.queue import queued
from tests.unit.backends.slurm.recorded import recorded

N1 = NodeName("n1")
NODE = next(node for node in read_nodes(recorded("22.05", "nodes.txt")) if node.name == N1)
SERVER = SlurmServer(N1, ("0", "1", "2", "3"), (), "v100", "gpu:v100:4", 0)
J0, J1 = ("j0", 1), ("j1", 1)


class Slurm:
    """A node whose GPUs are in use, and answers of squeue one after the other."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.taken = TakenResources([SERVER])
        self.listing: NodeListing | None = None
        self.told: list[Share] = []

    def queue(self, *running: Key, ended: tuple[Key, ...] = ()) -> dict[str, int]:
        """Have squeue answer; return what is told of others."""
        self.now_s += 1
        jobs = [
            queued(attempt_job_name("lab", *key), id=number, state=state, nodes=("n1",))
            for number, (key, state) in enumerate(
                [*((key, "RUNNING") for key in running), *((key, "COMPLETED") for key in ended)]
            )
        ]
        view = QueueView.of("lab", "me", self.now_s, jobs)
        return {str(each.node): each.gpu_mask for each in self.take(view)}

    def take(self, view: QueueView) -> list[Share]:
        """Have an answer of squeue taken in; return and keep what is told of others."""
        self.told = list(self.taken.take(view, self.listing))
        return self.told

    def uses(self, *gpus: int, cpus: int = 0, memory_mb: int = 0) -> None:
        """Have the node listed, with some of it in use."""
        self.now_s += 1
        used: Mapping[str, Any] = {"cpus_used": cpus, "memory_used_mb": memory_mb}
        node = replace(NODE, gpus_used_indices={"v100": gpus}, **used)
        self.listing = NodeListing(self.now_s, self.now_s + 0.1, {"n1": node})


@pytest.fixture
def slurm() -> Slurm:
    return Slurm()


def test_what_is_in_use_and_not_ours_is_taken(slurm: Slurm) -> None:
    slurm.taken.note(J0, [Share(N1, 0b0001)])
    assert slurm.queue(J0) == {}
    slurm.uses(0, 2, 3)
    assert slurm.queue(J0) == {"n1": 0b1100}
    assert slurm.queue(J0) == {}
    slurm.uses(0, 2, 3)
    assert slurm.queue(J0) == {}  # nothing new
    slurm.uses(0)
    assert slurm.queue(J0) == {"n1": 0}


def test_short_attempt_between_two_answers_was_ours(slurm: Slurm) -> None:
    """It waited in the first, was listed with its CPUs, and had ended by the second."""
    server = replace(SERVER, cpus=tuple(range(8)), memory_mb=NODE.memory_mb)
    slurm.taken = TakenResources([server])
    slurm.taken.note(J0, [Share(N1, 0b0001, 4000)])
    slurm.queue()
    slurm.uses(0, cpus=NODE.cpus - 4)
    assert slurm.queue(ended=(J0,)) == {}
    slurm.uses()
    assert slurm.queue(ended=(J0,)) == {}


def test_nothing_is_said_where_it_is_not_known_what_a_short_attempt_had(slurm: Slurm) -> None:
    slurm.queue()
    slurm.uses(0)
    assert slurm.queue(ended=(J0,)) == {}
    slurm.uses(0)
    assert slurm.queue(ended=(J0,)) == {"n1": 0b0001}


def test_what_an_earlier_term_told_is_set_right(slurm: Slurm) -> None:
    slurm.queue()
    slurm.uses()
    assert slurm.queue() == {}
    slurm.taken.recall([Share(N1, 0b0011)])
    slurm.uses(0, 1)
    assert slurm.queue() == {}
    slurm.uses()
    assert slurm.queue() == {"n1": 0}


def test_ours_that_have_just_begun_are_nobodys_yet(slurm: Slurm) -> None:
    slurm.queue()
    slurm.uses(0, 1)
    assert slurm.queue(J0) == {}
    slurm.taken.note(J0, [Share(N1, 0b0011)])
    slurm.uses(0, 1, 2)
    assert slurm.queue(J0) == {"n1": 0b0100}


def test_ours_that_ended_beside_a_listing_are_not_taken_for_others(slurm: Slurm) -> None:
    slurm.taken.note(J0, [Share(N1, 0b0001)])
    slurm.taken.note(J1, [Share(N1, 0b0010)])
    slurm.queue(J0)
    slurm.uses(0, 1)
    assert slurm.queue(J1, ended=(J0,)) == {}


def test_listing_counts_only_between_two_answers(slurm: Slurm) -> None:
    slurm.uses(3)
    assert slurm.queue() == {}  # what ran just before is not known
    slurm.uses(3)
    view = QueueView.of("lab", "me", slurm.now_s - 0.5, [])
    assert list(slurm.taken.take(view, slurm.listing)) == []  # asked for before the listing
    assert slurm.queue() == {"n1": 0b1000}


def test_node_that_is_not_listed_is_not_told_of(slurm: Slurm) -> None:
    slurm.queue()
    slurm.listing = NodeListing(1.5, 1.6, {})
    assert slurm.queue() == {}


WIDE = SlurmServer(N1, ("0", "1", "2", "3"), tuple(range(16)), "v100", "gpu:v100:4", 64_000)


def amounts(slurm: Slurm) -> list[tuple[int, int]]:
    """Return the CPUs and memory that were told last."""
    return [(share.cpus_milli // 1000, share.memory_mb) for share in slurm.told]


@pytest.fixture
def wide() -> Slurm:
    """The same with the CPUs and memory of the config: 16, and 64,000 MB."""
    found = Slurm()
    found.taken = TakenResources([WIDE])
    return found


def test_cpus_and_memory_in_use_that_were_not_booked_are_taken(wide: Slurm) -> None:
    wide.taken.note(J0, [Share(N1, 0b0001, 4000, 8000)])
    wide.queue(J0)
    wide.uses(0, cpus=12, memory_mb=10_000)
    wide.queue(J0)
    assert amounts(wide) == [(8, 2000)]
    wide.uses(0, cpus=4, memory_mb=8000)
    wide.queue(J0)
    assert amounts(wide) == [(0, 0)]


def test_only_what_is_taken_of_the_configs_part_of_a_node_counts(wide: Slurm) -> None:
    wide.taken = TakenResources([replace(WIDE, cpus=tuple(range(4)), memory_mb=0)])
    wide.queue()
    wide.uses(cpus=10, memory_mb=60_000)
    wide.queue()
    assert amounts(wide) == []  # six CPUs are free, of which four are offered
    wide.uses(cpus=13, memory_mb=60_000)
    wide.queue()
    assert amounts(wide) == [(1, 0)]
    wide.uses(cpus=16, memory_mb=60_000)
    wide.queue()
    assert amounts(wide) == [(4, 0)]


def test_ours_that_came_or_went_beside_a_listing_change_no_amount_that_may_be_true(
    wide: Slurm,
) -> None:
    wide.taken.note(J0, [Share(N1, 0b0001, 4000, 0)])
    wide.queue()
    wide.uses(0, cpus=6)  # the new one, which began before the listing
    wide.queue(J0)
    assert amounts(wide) == [(2, 0)]
    wide.uses(0, cpus=6)
    wide.queue(ended=(J0,))  # and ended after it, as far as anybody knows
    assert amounts(wide) == []
    wide.uses(0, cpus=9)
    wide.queue()
    assert amounts(wide) == [(9, 0)]


def test_a_node_on_which_ours_has_not_told_its_start_is_still_to_be_judged(wide: Slurm) -> None:
    wide.queue()
    wide.uses(0)
    wide.queue(J0)
    assert wide.taken.is_lacking
    wide.taken.note(J0, [Share(N1, 0b0001)])
    wide.uses(0)
    wide.queue(J0)
    assert not wide.taken.is_lacking
