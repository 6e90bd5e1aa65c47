"""Ranks agree where they stop, by votes in files."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shunter.train.agreement import (
    FileAgreement,
    create_document,
    put_document,
    ranks_that,
    read_document,
    vote_path,
)
from shunter.train.checkpoints import Checkpoints
from shunter.train.run import Run
from shunter.train.state import Parts
from tests.unit.train.toy import Model, Supervisor, leave

RANK = """
import os, random, sys, time
from shunter import train
run = train.start()
chance = random.Random(int(os.environ["RANK"]))
for _ in range(int(sys.argv[1])):
    time.sleep(chance.random() * 0.004)
    run.step()
print("ended", flush=True)
"""


def boundaries(ranks: list[FileAgreement], chance: random.Random, seen_from: int) -> list[int]:
    """Let ranks pass boundaries in a random order until each has stopped; return where."""
    ticks, stopped = [0] * len(ranks), [0] * len(ranks)
    while not all(stopped):
        rank = chance.choice([index for index, at in enumerate(stopped) if not at])
        ticks[rank] += 1
        if ranks[rank].stops(ticks[rank], 1 if sum(ticks) >= seen_from else 0):
            stopped[rank] = ticks[rank]
    return stopped


@pytest.mark.parametrize("seed", range(25))
def test_ranks_stop_at_the_same_boundary_however_they_drift(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    world = chance.randint(2, 5)
    ranks = [FileAgreement(tmp_path, rank, world) for rank in range(world)]
    assert len({*boundaries(ranks, chance, chance.randint(1, 12))}) == 1


def test_rank_that_votes_again_while_others_are_read_stops_where_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rank goes on since the third has not voted yet, and the second reads meanwhile."""
    first, second, third = (FileAgreement(tmp_path, rank, 3) for rank in range(3))
    assert not first.stops(2, 1)
    read = read_document

    def reads(path: Path) -> dict[str, Any] | None:
        found = read(path)
        if path == vote_path(tmp_path, "vote", 1, 0):
            monkeypatch.setattr("shunter.train.agreement.read_document", read)
            assert not first.stops(3, 1)
            put_document(vote_path(tmp_path, "vote", 1, 2), {"tick": 2})
        return found

    monkeypatch.setattr("shunter.train.agreement.read_document", reads)
    assert not second.stops(2, 1)
    assert [each.stops(3, 1) for each in (second, third)] == [0, 0]
    assert [each.stops(4, 1) for each in (first, second, third)] == [1, 1, 1]


def test_stop_is_one_past_the_highest_rank(tmp_path: Path) -> None:
    first, second = (FileAgreement(tmp_path, rank, 2) for rank in (0, 1))
    assert not first.stops(5, 1)
    assert not second.stops(6, 1)
    assert not first.stops(6, 1)
    assert first.stops(7, 1) == second.stops(7, 1) == 1


def test_ranks_go_on_at_once_where_one_has_ended(tmp_path: Path) -> None:
    first, second = (FileAgreement(tmp_path, rank, 2) for rank in (0, 1))
    second.ends()
    assert not first.stops(3, 1)
    assert not first.stops(4, 1)
    assert not first.all_saved(1, saved=True)


def test_ranks_go_on_where_one_cannot_save(tmp_path: Path) -> None:
    put_document(vote_path(tmp_path, "failed", 1, 1), {})
    assert not FileAgreement(tmp_path, 0, 2).all_saved(1, saved=True)


def test_rank_that_never_answers_is_given_up(tmp_path: Path) -> None:
    assert not FileAgreement(tmp_path, 0, 2, wait_s=0.0).all_saved(1, saved=True)


def test_replicated_parts_are_saved_once_and_read_by_all(tmp_path: Path) -> None:
    stores = [Checkpoints(tmp_path, attempt=1, rank=rank, world=2) for rank in (0, 1)]
    for rank, store in enumerate(stores):
        model, own = Model(), Model()
        model.weights, own.weights = [1.0], [float(rank)]
        parts = Parts({"model": model, "own": own}, replicated=["model"])
        assert store.latest() is None  # not before every rank has written
        Run(store, rank=rank, world=2, parts=parts, leave=leave).save()
    model, own = Model(), Model()
    parts = Parts({"model": model, "own": own}, replicated=["model"])
    Run(stores[1], rank=1, world=2, parts=parts, leave=leave).resume()
    assert (model.weights, own.weights) == ([1.0], [1.0])


def test_processes_of_a_job_stop_together(tmp_path: Path) -> None:
    """Three real processes that drift; all exit with 75 at one step, each with its checkpoint."""
    store = tmp_path / "store"
    with Supervisor(tmp_path / "attempt") as supervisor:
        environment = supervisor.environment(store)
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", RANK, "100000"],
                env={**environment, "RANK": str(rank), "WORLD_SIZE": "3"},
                cwd=Path(__file__).parents[3],
            )
            for rank in range(3)
        ]
        while len({each["rank"] for each in supervisor.told("progress")}) < 3:
            assert all(rank.poll() is None for rank in ranks)
        supervisor.ask()
        assert [rank.wait(60) for rank in ranks] == [75, 75, 75]
        (saved,) = supervisor.told("saved")
    found = [read_document(path) for path in sorted(store.glob("*/step-*/rank-*.json"))]
    assert [each and each["step"] for each in found] == [saved["step"]] * 3
    assert Checkpoints(store, attempt=2, rank=0, world=3).latest() is not None


def test_answers_are_found_by_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        put_document(vote_path(tmp_path, "saved", 3, rank), {})
    put_document(vote_path(tmp_path, "saved", 4, 0), {})
    found = [ranks_that(tmp_path, "saved", request) for request in (3, 4, 5)]
    assert found == [{0, 1}, {0}, set()]


def test_only_the_first_creates(tmp_path: Path) -> None:
    path = tmp_path / "stop.1.json"
    assert create_document(path, {"tick": 4})
    assert not create_document(path, {"tick": 5})
    assert read_document(path) == {"tick": 4}
    assert [each.name for each in sorted(tmp_path.iterdir())] == [
        "stop.1.json"
    ]  # nothing left behind


def test_half_a_document_reads_as_none(tmp_path: Path) -> None:
    (tmp_path / "vote.1.0.json").write_text('{"request": 1')
    assert read_document(tmp_path / "vote.1.0.json") is None
    assert read_document(tmp_path / "absent.json") is None
