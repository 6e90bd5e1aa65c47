"""Global batches over any number of ranks: the same samples in each step, and nothing lost."""

import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from shunter.train.batches import Shards
from shunter.train.checkpoints import Checkpoints
from shunter.train.run import Run
from shunter.train.state import Parts
from tests.unit.train.toy import Loader, Model


def parts(size: int, batch: int, world: int, epoch: int = 0, seed: int = 0) -> list[list[int]]:
    """Return each global batch of an epoch, put together from the parts of all ranks."""
    every = [Shards(size, batch, (rank, world), lambda: epoch, seed=seed) for rank in range(world)]
    return [list(chain(*of_step)) for of_step in zip(*every, strict=True)]


@given(
    size=st.integers(1, 60),
    batch=st.integers(1, 20),
    world=st.integers(1, 8),
    epoch=st.integers(0, 3),
    seed=st.integers(0, 3),
)
def test_step_has_the_same_samples_over_any_number_of_ranks(
    size: int, batch: int, world: int, epoch: int, seed: int
) -> None:
    world, batch = min(world, batch, size), min(batch, size)
    alone = parts(size, batch, 1, epoch, seed)
    assert parts(size, batch, world, epoch, seed) == alone
    assert len(alone) == size // batch
    every = list(chain(*alone))
    assert len(set(every)) == len(every) == size // batch * batch


@given(batch=st.integers(1, 30), world=st.integers(1, 8))
def test_weighted_means_of_ranks_have_the_mean_of_the_global_batch(batch: int, world: int) -> None:
    world = min(world, batch)
    ranks = [Shards(batch, batch, (rank, world), lambda: 0) for rank in range(world)]
    mean = sum(one.weight * sum(next(iter(one))) / len(next(iter(one))) for one in ranks) / world
    assert mean == pytest.approx(sum(range(batch)) / batch)
    assert batch % world or {one.weight for one in ranks} == {1.0}


def test_order_is_another_one_in_each_epoch_and_none_without_shuffling() -> None:
    assert parts(32, 4, 2, 0) != parts(32, 4, 2, 1) != parts(32, 4, 2, 1, seed=9)
    plain = Shards(6, 2, (1, 2), lambda: 3, shuffle=False)
    assert (list(plain), len(plain)) == ([[1], [3], [5]], 3)


@pytest.mark.parametrize(
    ("size", "batch", "words"),
    [(9, 2, "batch_size = 2: expected 3 at least"), (9, 10, "batch_size = 10: expected 9 at most")],
)
def test_batch_that_cannot_be_shared_is_refused(size: int, batch: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Shards(size, batch, (0, 3), lambda: 0)


def run_of(folder: Path, attempt: int, rank: int, world: int, model: Model) -> Run:
    """Return a rank of an attempt, which has loaded what the one before saved."""
    store = Checkpoints(folder, attempt=attempt, rank=rank, world=world)
    run = Run(store, rank=rank, world=world, parts=Parts({"model": model}, ("model",)))
    run.resume()
    return run


def walk(run: Run, epochs: int) -> Iterator[list[int]]:
    """Yield what a rank trains with, eleven samples in batches of four."""
    for _ in run.epochs(epochs):
        yield from run.batches(run.shards(11, 4, seed=5))


def trained(runs: list[Run], steps: int, epochs: int = 3) -> list[list[int]]:
    """Let all ranks train for so many steps; return the global batches."""
    walks = [walk(run, epochs) for run in runs]
    done = list[list[int]]()
    for of_step in zip(*walks, strict=True):
        done.append(list(chain(*of_step)))
        for run in runs:
            run.step()
        if len(done) == steps:
            break
    return done


@pytest.mark.parametrize("worlds", [(1, 4, 2), (4, 1), (2, 3, 4, 1), (3, 3)], ids=str)
def test_run_goes_on_over_other_ranks_where_it_was(tmp_path: Path, worlds: tuple[int, ...]) -> None:
    """Two steps an attempt, two steps an epoch of eleven samples, from one size to the next."""
    whole = trained([run_of(tmp_path / "whole", 1, 0, 1, Model())], 99)
    found = list[list[int]]()
    for attempt, world in enumerate(worlds, 1):
        models = [Model() for _ in range(world)]
        runs = [
            run_of(tmp_path / "cut", attempt, rank, world, models[rank]) for rank in range(world)
        ]
        assert all(model.weights == models[0].weights for model in models)
        found += trained(runs, 1 if attempt % 2 else 99 if attempt == len(worlds) else 1)
        models[0].weights[0] += 1.0
        for run in runs:
            run.save()
    assert found == whole[: len(found)]
    assert len(found) >= len(worlds)


def test_new_rank_draws_otherwise_than_the_first_and_the_same_again(tmp_path: Path) -> None:
    random.seed(3)
    run_of(tmp_path, 1, 0, 1, Model()).save()
    drawn = []
    for rank in (0, 1, 2, 1):
        run_of(tmp_path, 2, rank, 3, Model())
        drawn.append(random.random())
    assert len(set(drawn)) == 3
    assert drawn[1] == drawn[3]


def test_what_cannot_go_on_over_other_ranks_says_what_to_do(tmp_path: Path) -> None:
    own = Run(
        Checkpoints(tmp_path / "own", attempt=1, rank=0, world=1), parts=Parts({"model": Model()})
    )
    own.save()
    store = Checkpoints(tmp_path / "own", attempt=2, rank=1, world=2)
    with pytest.raises(ValueError, match=r"is of 1 rank, .* has 2: name .* `replicated` \('model'"):
        Run(store, rank=1, world=2, parts=Parts({"model": Model()})).resume()

    first = run_of(tmp_path / "loader", 1, 0, 1, Model())
    for _ in first.epochs(1):
        for _ in first.batches(Loader()):
            first.step()
            break
        first.save()
        break
    again = run_of(tmp_path / "loader", 2, 0, 2, Model())
    with pytest.raises(TypeError, match=r"batches: its position is of a run of 1 rank, .* has 2"):
        again.batches(Loader())
