"""What `run.batches` takes, and where it finds what a loader draws from."""

import collections
import functools
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shunter.train import loaders, state
from shunter.train.checkpoints import Checkpoints
from shunter.train.run import Run
from shunter.train.state import Parts
from tests.unit.train.toy import Loader, Model, run_of


def begun() -> Iterator[int]:
    numbers = (number for number in range(3))
    next(numbers)
    return numbers


@pytest.mark.parametrize(
    ("source", "instead"),
    [
        (enumerate(Loader()), r"as in `enumerate\(..., run.batches\(loader\)\)`"),
        (map(str, Loader()), r"as in `map\(..., run.batches\(loader\)\)`"),
        (zip(Loader(), Loader(), strict=True), r"as in `zip\(..., run.batches\(loader\)\)`"),
        ((each for each in enumerate(Loader())), "as in `enumerate"),
        (SimpleNamespace(iterable=enumerate(Loader())), "as in `enumerate"),  # tqdm is such
        (itertools.islice(Loader(), 2), r"as in `def batches\(\): yield from islice\(...\)`"),
        (itertools.chain(Loader(), Loader()), r"yield from chain\(...\)`"),
        (itertools.zip_longest(Loader(), Loader()), r"yield from zip_longest\(...\)`"),
        (itertools.starmap(print, Loader()), r"yield from starmap\(...\)`"),
        (itertools.takewhile(bool, Loader()), r"yield from takewhile\(...\)`"),
        (begun(), r"iterate over run.batches\(loader\)"),
    ],
)
def test_what_has_begun_is_refused_with_what_to_write(source: Iterable[Any], instead: str) -> None:
    with pytest.raises(TypeError, match=instead):
        Run(None).batches(source)


def test_two_loaders_at_a_time_are_refused_unless_they_have_names() -> None:
    run = Run(None)
    with pytest.raises(ValueError, match="name each"):
        zip(run.batches(Loader()), run.batches(Loader()), strict=True)
    named = zip(run.batches([1, 2], "a"), run.batches([3, 4], "b"), strict=True)
    assert list(named) == [(1, 3), (2, 4)]


def test_loader_within_the_pass_over_another_is_refused() -> None:
    run = Run(None)
    passing = iter(run.batches([1, 2]))
    next(passing)
    with pytest.raises(ValueError, match="name each"):
        run.batches([3, 4])


def test_one_loader_is_not_passed_over_twice_at_a_time() -> None:
    run, loader = Run(None), Loader()
    with pytest.raises(ValueError, match="name each"):
        zip(run.batches(loader), run.batches(loader), strict=True)


def test_pass_that_was_broken_off_makes_room_for_another_loader() -> None:
    run = Run(None)
    for _ in run.epochs(2):
        for batch in run.batches([1, 2]):
            assert batch == 1
            break
        assert list(run.batches([3])) == [3]


class Shuffled:
    """Batches in an order that a generator of its own decides."""

    def __init__(self, first: int) -> None:
        self.numbers, self.chance = range(first, first + 3), random.Random(first)

    def __iter__(self) -> Iterator[int]:
        return iter(self.chance.sample(self.numbers, 3))


class Lasting(Shuffled):
    """As torch's with workers that outlive a pass: only its first one draws a seed for them."""

    def __init__(self, first: int) -> None:
        super().__init__(first)
        self.persistent_workers = True
        self._iterator: object = None

    def __iter__(self) -> Iterator[int]:
        self._iterator = self._iterator or random.random()
        return iter(random.sample(self.numbers, 3))


def of_two_loaders(
    kind: type[Shuffled], folder: Path | None, attempt: int, stop_at: int, names: list[str]
) -> list[int]:
    """Train on one loader after the other in each epoch, up to a step; return the batches."""
    random.seed(attempt)  # nothing but the checkpoint may carry chance over
    run = run_of(None, folder, Model(), attempt)
    a, b, found = kind(0), kind(10), []
    for _ in run.epochs(2):
        for loader, name in zip((a, b, a), names, strict=True):
            for batch in run.batches(loader, name):
                found.append(batch)
                run.step()
                if run.steps_done == stop_at:
                    run.save()
                    return found
    return found


@pytest.mark.parametrize("kind", [Shuffled, Lasting])
@pytest.mark.parametrize("names", [["", "", ""], ["first", "between", "last"]])
@pytest.mark.parametrize("stops", [[2], [3], [4, 5], [8], [9], [11, 14], [17]])
def test_loaders_one_after_the_other_go_on_where_they_were(
    tmp_path: Path, kind: type[Shuffled], names: list[str], stops: list[int]
) -> None:
    expected = of_two_loaders(kind, None, 1, 0, names)
    cut = enumerate([*stops, 0], start=1)
    found = [of_two_loaders(kind, tmp_path, attempt, stop_at, names) for attempt, stop_at in cut]
    assert len(expected) == 18
    assert [batch for each in found for batch in each] == expected


def first(loader: Iterable[int], count: int) -> Iterator[int]:
    for number, batch in enumerate(loader):
        if number == count:
            return
        yield batch


def of_first_batches(folder: Path | None, attempt: int, stop_at: int, way: str) -> list[int]:
    """Train on two batches of each pass, as the how-to says, up to a step; return the batches."""
    run = run_of(None, folder, Model(), attempt)
    loader, found = Shuffled(0), []
    for epoch in run.epochs(3):
        for batch in run.batches(first(loader, 2) if way == "within" else loader):
            if way == "steps" and run.steps_done == 2 * (epoch + 1):
                break
            found.append(batch)
            run.step()
            if run.steps_done == stop_at:
                run.save()
                return found
    return found


@pytest.mark.parametrize("way", ["within", "steps"])
@pytest.mark.parametrize("stops", [[1], [2], [3, 4]])
def test_loops_that_count_as_the_how_to_says_stop_where_they_did(
    tmp_path: Path, stops: list[int], way: str
) -> None:
    expected = of_first_batches(None, 1, 0, way)
    cut = enumerate([*stops, 0], start=1)
    found = [of_first_batches(tmp_path, attempt, stop_at, way) for attempt, stop_at in cut]
    assert len(expected) == 6
    assert [batch for each in found for batch in each] == expected


def test_another_loader_outside_epochs_is_refused_unless_it_has_a_name() -> None:
    run, loader = Run(None), Shuffled(0)
    for _ in range(2):
        assert sorted(run.batches(loader)) == [0, 1, 2]
    with pytest.raises(ValueError, match=r"loop over run.epochs, or name each"):
        run.batches(Shuffled(10))
    assert sorted(run.batches(Shuffled(10), "train")) == [10, 11, 12]


def test_loader_that_was_wrapped_before_the_epochs_stays_itself() -> None:
    run = Run(None)
    first = run.batches([1, 2])
    for _ in run.epochs(2):
        assert list(first) == [1, 2]
        assert list(run.batches([3])) == [3]


class Holding:
    def __init__(self, what: object) -> None:
        self.what = what

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def method(self) -> None:
        return None


def generator_over(what: object) -> Iterator[object]:
    yield what


CHANCE = np.random.default_rng(0)


def drawing() -> float:
    return CHANCE.random()


def by_default(chance: object = CHANCE) -> object:
    return chance


class InSlot:
    __slots__ = ("__what",)

    def __init__(self, what: object) -> None:
        self.__what = what


class OfClass:
    chance = CHANCE


class ByName:
    def __getitem__(self, index: int) -> float:
        return max(drawing() for _ in range(index))


def nested(what: object, depth: int) -> object:
    return Holding(nested(what, depth - 1)) if depth else what


@pytest.mark.parametrize(
    "holding",
    [
        Holding,
        lambda chance: Holding([{"noise": chance}]),
        lambda chance: Holding(Holding(chance).method),
        lambda chance: Holding(functools.partial(print, chance)),
        lambda chance: SimpleNamespace(iterable=Holding(chance)),
        generator_over,
        lambda _: Holding(drawing),
        lambda _: Holding(lambda: 2 * drawing()),
        lambda _: Holding(by_default),
        lambda _: Holding(OfClass()),
        lambda _: Holding(ByName()),
        lambda chance: Holding(InSlot(chance)),
        lambda chance: Holding(collections.deque([chance])),
        lambda chance: Holding([*range(900), chance]),
        lambda chance: nested(chance, 12),
    ],
)
def test_generator_that_a_loader_holds_is_found(holding: Callable[[object], object]) -> None:
    assert loaders.generators(holding(CHANCE)) == [CHANCE]


def test_generator_without_a_state_and_the_global_ones_are_left_alone() -> None:
    held = [random.SystemRandom(), random.random, np.random.normal]
    assert list(Run(None).batches([held])) == [held]
    assert loaders.generators(Holding(held)) == []


def test_bare_generator_of_bits_goes_on_where_it_was() -> None:
    bits = np.random.PCG64(3)
    assert loaders.generators(Holding(bits)) == [bits]
    saved = state.captured(bits)
    expected = bits.random_raw()
    state.restore(bits, saved)
    assert bits.random_raw() == expected


class Standing:
    """Raises whenever it is asked for what it stands for, as lazy modules and contexts may."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(f"asked for {name}")


def test_object_that_raises_when_it_is_looked_at_is_passed_over() -> None:
    assert loaders.generators(Holding([Standing(), nested([Standing(), CHANCE], 9)])) == [CHANCE]


class Hiding(Shuffled):
    """Its generator lies in a set, where nobody looks for it."""

    def __init__(self, first: int) -> None:
        super().__init__(first)
        self.hidden = {self.chance}
        del self.chance

    def __iter__(self) -> Iterator[int]:
        return (each + next(iter(self.hidden)).randrange(1000) for each in self.numbers)


def of_hidden(folder: Path | None, attempt: int, stop_at: int) -> list[int]:
    loader, found = Hiding(0), []
    store = Checkpoints(folder, attempt=attempt, rank=0, world=1) if folder else None
    run = Run(store, parts=Parts({"chance": next(iter(loader.hidden))}))
    run.resume()
    for _ in run.epochs(2):
        for batch in run.batches(loader):
            found.append(batch)
            run.step()
            if run.steps_done == stop_at:
                run.save()
                return found
    return found


@pytest.mark.parametrize("stop_at", [1, 3, 5])
def test_generator_that_is_named_as_a_part_may_be_the_loaders(tmp_path: Path, stop_at: int) -> None:
    expected = of_hidden(None, 1, 0)
    assert of_hidden(tmp_path, 1, stop_at) + of_hidden(tmp_path, 2, 0) == expected


def test_generators_of_numpy_and_python_go_on_where_they_were() -> None:
    for part in (np.random.default_rng(3), np.random.RandomState(3), random.Random(3)):
        part.random()
        saved = state.captured(part)
        expected = part.random()
        state.restore(part, saved)
        assert part.random() == expected
        state.check_parts({"chance": part})
