"""A data loader whose position is part of the checkpoint; batches that any number of ranks share.

A shuffled loader draws its order when its iteration begins, or when its first batch is asked for.
So we remember the state of chance at both instants and the number of batches handed out; a resumed
run does the same with the same chance, throws away what was used, and then goes on with the chance
of the checkpoint. All of that when it asks for a batch: until then a trainer may draw, too.
Its generators are those that `loaders` finds, before it begins.
A loader that can do that itself (`state_dict`, `load_state_dict`) is asked instead.
"""

from __future__ import annotations

import random
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from shunter.train import loaders, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


T = TypeVar("T")
_UNNAMED = "batches"
_INSTANTS = ("begun", "first", "asked")  # at which chance was remembered
_ANOTHER = (
    "outside run.epochs, run.batches is given another loader than before: loop over run.epochs, or "
    'name each loader, as in run.batches(loader, "train")'
)
_PASS = "iteration"
_OVER: Any = object()
_TWICE = (
    "run.batches is asked for two loaders at a time: name each, as in "
    'run.batches(labelled, "labelled") and run.batches(unlabelled, "unlabelled")'
)


class Batches(Generic[T]):
    """The batches of one loader, over its passes; iterate it once a pass."""

    def __init__(self, source: Iterable[T]) -> None:
        self.source = source
        self.given = 0
        self.ahead = 0  # how many of them a trainer has fetched and not trained with
        self._is_over = False
        self._is_left = False  # for another loader, in the same epoch
        self._had_workers = False  # that outlive a pass, before this one
        self._is_after_workers = False  # the pass with which a resumed run begins
        self._begun: state.State | None = None
        self._first: state.State | None = None
        self._asked: state.State | None = None  # before the last batch was fetched
        self._resumed_own: list[object] | None = None
        self.resumed_chance: state.State = {}
        self.parts: list[
            object
        ] = []  # generators that the script names: a loader may draw from them
        self.put_back: list[object] = []  # generators that a loader of this attempt has put back
        self._is_remade = False  # by the script, for each epoch
        self._is_given_out = False
        self._iterator: Callable[[], Any] = lambda: None
        self._generators: list[Any] = []
        self.passes: Callable[[], None] = lambda: None  # is called with each batch

    def __iter__(self) -> Iterator[T]:
        if self._is_live() and not self.given:
            raise ValueError(_TWICE)
        self._is_given_out = False
        self._generators = self._all_generators()
        if self._is_after_workers:
            before = self._chance()
            loaders.begin_workers(self.source)
            self._set_chance(before)
            self._is_after_workers = False
        if self._resumed_own is not None:
            iterator = self._going_on()
        elif self._is_left:
            iterator = self._counted(iter(()))
        else:
            self.next_pass()
            self._had_workers = loaders.has_workers(self.source)
            self._begun = self._chance()
            iterator = self._fresh(iter(self.source), self._chance())
        self._iterator = weakref.ref(iterator)
        return iterator

    def take(self, source: Iterable[T]) -> None:
        """Have the next pass go over a loader."""
        self._is_remade = self._is_remade or source is not self.source
        self.source, self._is_given_out = source, True

    def leave(self) -> None:
        """Have no further pass in this epoch: another loader comes after it.

        Raises:
            ValueError: it is in use.
        """
        if self._is_given_out or self._is_live():
            raise ValueError(_TWICE)
        self._is_left = True

    def is_used(self) -> bool:
        """Say whether it was taken or begun in this epoch."""
        return self._is_given_out or self._is_left or self._begun is not None

    def _is_live(self) -> bool:
        """Say whether somebody holds an iteration that is not at its end."""
        return getattr(self._iterator(), "gi_frame", None) is not None

    def next_pass(self) -> None:
        """Begin at the front again."""
        self.given, self.ahead, self._is_over, self._is_left = 0, 0, False, False
        self._begun = self._first = self._asked = self._resumed_own = None
        self._iterator = lambda: None

    def state_dict(self) -> state.State:
        keeps = loaders.keeps_position(self.source)
        own = self._resumed_own
        if own is None:
            own = [state.captured(each) for each in self._generators]
        is_within = self._begun is not None and not self._is_over and not self._is_left
        return {
            "given": self.given - self.ahead,
            "over": self._is_over,
            "left": self._is_left,
            "remade": self._is_remade,
            "begun": None if self._is_left else self._begun,
            "first": None if self._is_left else self._first,
            "asked": None if self._is_left else self._asked,
            "workers": self._had_workers
            if is_within or self._is_after_workers
            else loaders.has_workers(self.source),
            "generators": own,
            "source": state.captured(self.source) if keeps else None,
            "pass": getattr(self.source, _PASS, None),
        }

    def load_state_dict(self, saved: state.State) -> None:
        self.given, self._is_over = saved["given"], saved["over"]
        self._begun, self._first = saved["begun"], saved.get("first")
        self._asked = saved.get("asked")
        self._is_left = saved.get("left", False)
        self._is_remade = saved.get("remade", False)
        self._had_workers = self._is_after_workers = saved.get("workers", False)
        if self._begun is not None or self._is_left:
            self._resumed_own = saved["generators"]
        elif not self._is_remade:  # it goes on at its next pass
            self._generators = self._all_generators()
            if len(saved["generators"]) <= len(self._generators):
                self._set_own(self._resumed(saved["generators"]))
        else:
            self._is_after_workers = False  # those of another loader
        if saved["source"] is not None:
            state.restore(self.source, saved["source"])
        if saved.get("pass") is not None:
            # Accelerate's loaders seed an order by it.
            setattr(self.source, _PASS, saved["pass"])

    def _fresh(self, iterator: Iterator[T], chance: state.State) -> Iterator[T]:
        now = self._chance()
        # A loader with workers has drawn its order by now, one without draws it next. So that
        # either goes on where the other was, nothing is put back that nobody has drawn.
        self._first = None if state.are_equal(now, chance) else now
        yield from self._counted(iterator)

    def _counted(self, iterator: Iterator[T]) -> Iterator[T]:
        is_ahead = loaders.fetches_ahead(self.source)
        while True:
            if is_ahead:
                self._asked = self._chance()
            try:
                batch = next(iterator)
            except StopIteration:
                break
            self.given += 1
            self.passes()
            yield batch
        self._is_over = True

    def _going_on(self) -> Iterator[T]:
        """Walk to where the checkpoint was, then yield what is left of that pass."""
        own, self._resumed_own = self._resumed_own, None
        assert own is not None
        if self._is_over or self._is_left:
            self._set_own(self._resumed(own))
            return
        assert self._begun is not None
        before, own = state.chance(), self._resumed(own)
        keeps = loaders.keeps_position(self.source)
        if not keeps:
            self._set_chance(self._begun)
        iterator = iter(self.source)
        if self._first is not None and not keeps:
            self._set_chance(self._first)
        for number in range(0 if keeps else self.given):
            if self._asked is not None and number == self.given - 1:
                self._set_chance(self._asked)  # what it fetches ahead is drawn as it was
            if next(iterator, _OVER) is _OVER:
                raise ValueError(
                    f"the loader ends after {number} batches, and the checkpoint is after "
                    f"{self.given} of them: give it the data that it had in the attempt before"
                )
        # The first loader that goes on finds the chance of the checkpoint, the others what it left.
        self._set_chance({"global": dict(self.resumed_chance) or before, "own": own})
        self.resumed_chance.clear()  # all loaders of a run have this same one
        yield from self._counted(iterator)

    def _all_generators(self) -> list[Any]:
        found = loaders.generators(self.source)
        known = {id(each) for each in found}
        return found + [each for each in self.parts if id(each) not in known]

    def _chance(self) -> state.State:
        own = [state.captured(each) for each in self._generators]
        return {"global": state.chance(), "own": own}

    def _set_chance(self, saved: state.State) -> None:
        state.set_chance(saved["global"])
        self._set_own(saved["own"])

    def _set_own(self, own: list[object]) -> None:
        self._check_number(own)
        for generator, kept in zip(self._generators, own):
            state.restore(generator, kept)

    def _resumed(self, own: list[object]) -> list[object]:
        """Return what generators go on with, if no loader has put them back."""
        self._check_number(own)
        pairs = list(zip(self._generators, own))
        known = {id(each) for each in self.put_back}
        self.put_back.extend(self._generators)
        return [state.captured(each) if id(each) in known else kept for each, kept in pairs]

    def _check_number(self, own: list[object]) -> None:
        if len(own) > len(self._generators):  # of before there may be fewer, the first of them
            raise ValueError(
                f"the loader draws from {len(self._generators)} generators, and the checkpoint has "
                f"{len(own)}: make the loader as in the attempt before"
            )


class AllBatches:
    """All loaders of a run: those without a name have a place in their epoch."""

    def __init__(
        self, parts: Iterable[object] = (), passes: Callable[[], None] = lambda: None
    ) -> None:
        self._passes = passes
        self._parts = [each for each in parts if loaders.is_of_chance(each)]
        self.pending: state.State = {}
        self.chance: state.State = {}
        self._put_back: list[object] = []
        self._known: dict[str, Batches[Any]] = {}
        self._is_in_epoch = False

    @property
    def is_used(self) -> bool:
        """Whether any loader was given."""
        return bool(self._known)

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """While it lasts, the order of loaders without a name says which is which."""
        self._is_in_epoch = True
        try:
            yield
        finally:
            self._is_in_epoch = False

    def next_epoch(self) -> None:
        """Begin all at the front again."""
        self.pending = {
            name: {**saved, "given": 0, "over": False, "left": False, **dict.fromkeys(_INSTANTS)}
            for name, saved in self.pending.items()
            if saved["over"] or saved["begun"] is None
        }
        for batches in self._known.values():
            batches.next_pass()

    def name_of(self, source: object) -> str:
        """Return what a loader without a name goes by.

        Raises:
            ValueError: another one is in use, or was before outside of an epoch.
        """
        before, place = None, 1
        while True:
            known = self._known.get(_place(place))
            if known is None or not known.is_used():
                break
            before, place = known, place + 1
        if before is None:
            return _place(place)
        if before.source is source:
            return _place(place - 1)
        before.leave()
        if not self._is_in_epoch:
            raise ValueError(_ANOTHER)
        return _place(place)

    def of(self, source: Iterable[T], name: str) -> Batches[T]:
        """Return the batches of a loader, the next pass of which is over it."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = Batches(source)
            known.resumed_chance, known.put_back = self.chance, self._put_back
            known.parts, known.passes = self._parts, self._passes
            if name in self.pending:
                known.load_state_dict(self.pending.pop(name))
        known.take(source)
        return known

    def state_dict(self) -> state.State:
        known = {name: each.state_dict() for name, each in self._known.items()}
        return {**self.pending, **known}


def _place(number: int) -> str:
    return _UNNAMED if number == 1 else f"{_UNNAMED} {number}"


# Which samples a step trains with depends on the seed, the epoch and the step, never on the ranks.
# Rank r of W has the samples from r/W to (r+1)/W of each global batch, rounded down. Where ranks
# are averaged, as DistributedDataParallel does, the mean of all is that of the global batch if all
# parts are as large; else each rank multiplies its loss by `weight`.


class Shards:
    """Lists of indices, one a step, as a DataLoader takes them as `batch_sampler`.

    An incomplete global batch at the end of an epoch is left out.
    """

    def __init__(
        self,
        size: int,
        batch_size: int,
        place: tuple[int, int],
        epoch: Callable[[], int],
        *,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        self._rank, self._world = place
        if batch_size < self._world:
            raise ValueError(
                f"batch_size = {batch_size}: expected {self._world} at least, one for each rank"
            )
        if size < batch_size:
            raise ValueError(f"batch_size = {batch_size}: expected {size} at most, all there are")
        self._size, self._batch_size = size, batch_size
        self._epoch = epoch
        self._seed, self._shuffle = seed, shuffle

    @property
    def weight(self) -> float:
        """What a rank multiplies its mean loss by; 1 where all parts are as large."""
        first, last = self._part()
        return (last - first) * self._world / self._batch_size

    def __len__(self) -> int:
        return self._size // self._batch_size

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(self._size))
        if self._shuffle:
            random.Random(f"{self._seed}/{self._epoch()}").shuffle(order)
        first, last = self._part()
        for at in range(0, len(self) * self._batch_size, self._batch_size):
            yield order[at + first : at + last]

    def _part(self) -> tuple[int, int]:
        """Return where this rank's part of a global batch begins and ends."""
        ranks = (self._rank, self._rank + 1)
        first, last = (rank * self._batch_size // self._world for rank in ranks)
        return first, last


def check_other_ranks(source: object, name: str, saved: int, world: int) -> None:
    """Refuse a loader whose position is that of another number of ranks.

    Raises:
        TypeError: it deals out samples by rank.
    """
    deals = getattr(source, "batch_sampler", source)
    if not isinstance(deals, Shards):
        raise TypeError(
            f"{name}: its position is of a run of {saved} rank{'s' if saved > 1 else ''}, this one "
            f"has {world}: take `run.shards(...)`, alone or as the batch_sampler of a DataLoader"
        )
