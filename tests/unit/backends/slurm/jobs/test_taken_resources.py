"""What of a node others hold, by listings between answers of squeue.

j0 has GPUs 0, CPUs 4, MB 8000      an attempt of ours has told what it has there
uses GPUs 0 2, CPUs 12              the node is listed, with some of it in use
sees j0, j1 ended -> GPUs 2         squeue tells of ours; behind the arrow is what others hold,
                                    in whole CPUs, if there is news of it
"""

import re
from dataclasses import replace

import pytest

from shunter.backends.slurm import (
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
WIDE = replace(SERVER, cpus=tuple(range(16)), memory_mb=64_000)


class Slurm:
    """A node whose GPUs are in use, and answers of squeue one after the other."""

    def __init__(self, server: SlurmServer) -> None:
        self.now_s = 0.0
        self.taken = TakenResources([server])
        self.listing: NodeListing | None = None

    def take(self, step: str) -> str:
        """Take a step; return what is told of others."""
        self.now_s += 1
        who, _, what = step.partition(" ")
        if who == "sees":
            jobs = [each.split() for each in what.split(", ") if each]
            return self.sees({key: "COMPLETED" if ended else "RUNNING" for key, *ended in jobs})
        named = [each.split() for each in what.removeprefix("has ").split(", ") if each]
        amounts = {name: [*map(int, numbers)] for name, *numbers in named}
        gpus, (cpus,), (memory_mb,) = (amounts.get(name, [0]) for name in ("GPUs", "CPUs", "MB"))
        if who == "uses":
            self.lists(tuple(gpus) if "GPUs" in amounts else (), cpus, memory_mb)
        else:
            mask = sum(1 << gpu for gpu in gpus)
            self.taken.note((who, 1), [Share(N1, mask, 1000 * cpus, memory_mb)])
        return ""

    def sees(self, states: dict[str, str], at_s: float | None = None) -> str:
        """Have squeue answer what was so at an instant: now, unless it is said."""
        jobs = [
            queued(attempt_job_name("lab", key, 1), id=number, state=state, nodes=("n1",))
            for number, (key, state) in enumerate(states.items())
        ]
        view = QueueView.of("lab", "me", self.now_s if at_s is None else at_s, jobs)
        told = [*self.taken.take(view, self.listing)]
        return ", ".join(map(in_words, told)) or "no news"

    def lists(self, gpus: tuple[int, ...], cpus: int, memory_mb: int) -> None:
        used = {"gpus_used_indices": {"v100": gpus}, "memory_used_mb": memory_mb}
        node = replace(NODE, cpus_used=cpus, **used)  # type: ignore[arg-type]  # of their types
        self.listing = NodeListing(self.now_s, self.now_s + 0.1, {"n1": node})


def in_words(share: Share) -> str:
    gpus = " ".join(str(gpu) for gpu in range(4) if share.gpu_mask >> gpu & 1)
    told = {"GPUs": gpus, "CPUs": share.cpus_milli // 1000, "MB": share.memory_mb}
    return ", ".join(f"{name} {amount}" for name, amount in told.items() if amount) or "none"


GPUS = """
what is in use and not ours is taken
    j0 has GPUs 0; sees j0 -> no news; uses GPUs 0 2 3; sees j0 -> GPUs 2 3; sees j0 -> no news
    uses GPUs 0 2 3; sees j0 -> no news; uses GPUs 0; sees j0 -> none
nothing is said where it is not known what a short attempt had
    sees; uses GPUs 0; sees j0 ended -> no news; uses GPUs 0; sees j0 ended -> GPUs 0
ours that have just begun are nobody's yet
    sees; uses GPUs 0 1; sees j0 -> no news
    j0 has GPUs 0 1; uses GPUs 0 1 2; sees j0 -> GPUs 2
ours that ended beside a listing are not taken for others
    j0 has GPUs 0; j1 has GPUs 1; sees j0; uses GPUs 0 1; sees j1, j0 ended -> no news
"""
AMOUNTS = """
a short attempt between two answers was ours, with its CPUs
    j0 has GPUs 0, CPUs 4; sees; uses GPUs 0, CPUs 4; sees j0 ended -> no news
    uses; sees j0 ended -> no news
CPUs and memory in use that were not booked are taken
    j0 has GPUs 0, CPUs 4, MB 8000; sees j0; uses GPUs 0, CPUs 12, MB 10000
    sees j0 -> CPUs 8, MB 2000; uses GPUs 0, CPUs 4, MB 8000; sees j0 -> none
of ours that came or went beside a listing what may be true is not changed
    j0 has GPUs 0, CPUs 4; sees; uses GPUs 0, CPUs 6; sees j0 -> CPUs 2
    uses GPUs 0, CPUs 6; sees j0 ended -> no news; uses GPUs 0, CPUs 9; sees -> GPUs 0, CPUs 9
"""
OFFERED = """
only what is taken of the config's part of a node counts
    sees; uses CPUs 10, MB 60000; sees -> no news; uses CPUs 13, MB 60000; sees -> CPUs 1
    uses CPUs 16, MB 60000; sees -> CPUs 4
"""
FOUR = replace(SERVER, cpus=tuple(range(4)))
ROWS = [
    (*part.split("\n", 1), server)
    for text, server in ((GPUS, SERVER), (AMOUNTS, WIDE), (OFFERED, FOUR))
    for part in re.split(r"\n(?=\S)", text.strip())
]


@pytest.mark.parametrize(
    ("steps", "server"), [row[1:] for row in ROWS], ids=[str(row[0]) for row in ROWS]
)
def test_others_hold_what_the_row_says(steps: str, server: SlurmServer) -> None:
    slurm = Slurm(server)
    for step in re.split(r"; |\n", steps):
        what, _, told = step.strip().partition(" -> ")
        assert slurm.take(what) == told or not told, step


def test_what_an_earlier_term_told_is_set_right() -> None:
    slurm = Slurm(SERVER)
    assert [slurm.take(step) for step in ("sees", "uses", "sees")] == ["no news", "", "no news"]
    slurm.taken.recall([Share(N1, 0b0011)])
    steps = ("uses GPUs 0 1", "sees", "uses", "sees")
    assert [slurm.take(step) for step in steps] == ["", "no news", "", "none"]


def test_listing_counts_only_between_two_answers() -> None:
    slurm = Slurm(SERVER)
    slurm.take("uses GPUs 3")
    assert slurm.take("sees") == "no news"  # what ran just before is not known
    slurm.take("uses GPUs 3")
    assert slurm.sees({}, slurm.now_s - 0.5) == "no news"  # asked for before the listing
    assert slurm.take("sees") == "GPUs 3"


def test_node_that_is_not_listed_is_not_told_of() -> None:
    slurm = Slurm(SERVER)
    slurm.take("sees")
    slurm.listing = NodeListing(1.5, 1.6, {})
    assert slurm.take("sees") == "no news"


def test_a_node_on_which_ours_has_not_told_its_start_is_still_to_be_judged() -> None:
    slurm = Slurm(WIDE)
    for steps, is_lacking in (("sees; uses GPUs 0; sees j0", True), ("j0 has GPUs 0", True)):
        for step in steps.split("; "):
            slurm.take(step)
        assert slurm.taken.is_lacking is is_lacking
    for step in ("uses GPUs 0", "sees j0"):
        slurm.take(step)
    assert not slurm.taken.is_lacking
