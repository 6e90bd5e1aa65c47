"""Which GPUs of a node others hold, by listings between answers of squeue."""

from dataclasses import replace

import pytest

from shunter.backends.slurm import listings
from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.script import Key, job_name
from shunter.backends.slurm.jobs.taken_gpus import TakenGpus
from shunter.backends.slurm.node_service import NodeListing
from shunter.backends.slurm.settings import SlurmServer
from shunter.events.values.ids import NodeName
from tests.unit.backends.slurm.jobs.queue import queued
from tests.unit.backends.slurm.recorded import recorded

N1 = NodeName("n1")
NODE = next(node for node in listings.nodes(recorded("22.05", "nodes.txt")) if node.name == N1)
SERVER = SlurmServer(N1, ("0", "1", "2", "3"), (), "v100", "gpu:v100:4", 0)
J0, J1 = ("j0", 1), ("j1", 1)


class Slurm:
    """A node whose GPUs are in use, and answers of squeue one after the other."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.taken = TakenGpus([SERVER])
        self.listing: NodeListing | None = None

    def queue(self, *running: Key, ended: tuple[Key, ...] = ()) -> dict[str, int]:
        """Have squeue answer; return what is told of others."""
        self.now_s += 1
        jobs = [
            queued(job_name("lab", *key), id=number, state=state, nodes=("n1",))
            for number, (key, state) in enumerate(
                [*((key, "RUNNING") for key in running), *((key, "COMPLETED") for key in ended)]
            )
        ]
        view = QueueView.of("lab", "me", self.now_s, jobs)
        return {str(node): mask for node, mask in self.taken.take(view, self.listing)}

    def uses(self, *gpus: int) -> None:
        """Have the node listed, with some GPUs in use."""
        self.now_s += 1
        node = replace(NODE, gpus_used_indices={"v100": gpus})
        self.listing = NodeListing(self.now_s, self.now_s + 0.1, {"n1": node})


@pytest.fixture
def slurm() -> Slurm:
    return Slurm()


def test_what_is_in_use_and_not_ours_is_taken(slurm: Slurm) -> None:
    slurm.taken.note(J0, {"n1": 0b0001})
    assert slurm.queue(J0) == {}
    slurm.uses(0, 2, 3)
    assert slurm.queue(J0) == {"n1": 0b1100}
    assert slurm.queue(J0) == {}
    slurm.uses(0, 2, 3)
    assert slurm.queue(J0) == {}  # nothing new
    slurm.uses(0)
    assert slurm.queue(J0) == {"n1": 0}


def test_what_an_earlier_term_told_is_set_right(slurm: Slurm) -> None:
    slurm.queue()
    slurm.uses()
    assert slurm.queue() == {}
    slurm.taken.recall({N1: 0b0011})
    slurm.uses(0, 1)
    assert slurm.queue() == {}
    slurm.uses()
    assert slurm.queue() == {"n1": 0}


def test_ours_that_have_just_begun_are_nobodys_yet(slurm: Slurm) -> None:
    slurm.queue()
    slurm.uses(0, 1)
    assert slurm.queue(J0) == {}
    slurm.taken.note(J0, {"n1": 0b0011})
    slurm.uses(0, 1, 2)
    assert slurm.queue(J0) == {"n1": 0b0100}


def test_ours_that_ended_beside_a_listing_are_not_taken_for_others(slurm: Slurm) -> None:
    slurm.taken.note(J0, {"n1": 0b0001})
    slurm.taken.note(J1, {"n1": 0b0010})
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
