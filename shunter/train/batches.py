"""A data loader whose position is part of the checkpoint.

A shuffled loader draws its order when its iteration begins, or when its first batch is asked for.
So we remember the state of chance at both instants and the number of batches handed out; a resumed
run does the same with the same chance, throws away what was used, and then goes on with the chance
of the checkpoint. All of that when it asks for a batch: until then a trainer may draw, too.
Its generators are those that `loaders` finds, before it begins.
A loader that can do that itself (`state_dict`, `load_state_dict`) is asked instead.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from shunter.train import loaders, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
_PASS = "iteration"
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
        self._begun: state.State | None = None
        self._first: state.State | None = None
        self._resumed_own: list[object] | None = None
        self.resumed_chance: state.State = {}
        self._is_given_out = False
        self._iterator: Callable[[], Any] = lambda: None
        self._generators: list[Any] = []

    def __iter__(self) -> Iterator[T]:
        if self._is_live() and not self.given:
            raise ValueError(_TWICE)
        self._is_given_out = False
        self._generators = loaders.generators(self.source)
        if self._resumed_own is not None:
            iterator = self._going_on()
        else:
            self.next_pass()
            self._begun = self._chance()
            iterator = self._fresh(iter(self.source))
        self._iterator = weakref.ref(iterator)
        return iterator

    def take(self, source: Iterable[T], *, is_named: bool) -> None:
        """Have the next pass go over a loader.

        Raises:
            ValueError: the pass over another one is not over, and only one of them has a name.
        """
        if source is not self.source and not is_named and (self._is_given_out or self._is_live()):
            raise ValueError(_TWICE)
        loaders.check_loader(source)
        self.source, self._is_given_out = source, True

    def _is_live(self) -> bool:
        """Say whether somebody holds an iteration that is not at its end."""
        return getattr(self._iterator(), "gi_frame", None) is not None

    def next_pass(self) -> None:
        """Begin at the front again."""
        self.given, self.ahead, self._is_over = 0, 0, False
        self._begun = self._first = self._resumed_own = None
        self._iterator = lambda: None

    def state_dict(self) -> state.State:
        keeps = loaders.keeps_position(self.source)
        own = self._resumed_own
        if own is None:
            own = [state.captured(each) for each in self._generators]
        return {
            "given": self.given - self.ahead,
            "over": self._is_over,
            "begun": self._begun,
            "first": self._first,
            "generators": own,
            "source": state.captured(self.source) if keeps else None,
            "pass": getattr(self.source, _PASS, None),
        }

    def load_state_dict(self, saved: state.State) -> None:
        self.given, self._is_over = saved["given"], saved["over"]
        self._begun, self._first = saved["begun"], saved.get("first")
        self._resumed_own = None if self._begun is None else saved["generators"]
        if saved["source"] is not None:
            state.restore(self.source, saved["source"])
        if saved.get("pass") is not None:
            # Accelerate's loaders seed an order by it.
            setattr(self.source, _PASS, saved["pass"])

    def _fresh(self, iterator: Iterator[T]) -> Iterator[T]:
        self._first = self._chance()
        yield from self._counted(iterator)

    def _counted(self, iterator: Iterator[T]) -> Iterator[T]:
        for batch in iterator:
            self.given += 1
            yield batch
        self._is_over = True

    def _going_on(self) -> Iterator[T]:
        """Walk to where the checkpoint was, then yield what is left of that pass."""
        own, self._resumed_own = self._resumed_own, None
        if self._is_over:
            return
        assert own is not None
        assert self._begun is not None
        before = state.chance()
        keeps = loaders.keeps_position(self.source)
        if not keeps:
            self._set_chance(self._begun)
        iterator = iter(self.source)
        if self._first is not None and not keeps:
            self._set_chance(self._first)
        for _ in range(0 if keeps else self.given):
            next(iterator)
        # The first loader that goes on finds the chance of the checkpoint, the others what it left.
        self._set_chance({"global": dict(self.resumed_chance) or before, "own": own})
        self.resumed_chance.clear()  # all loaders of a run have this same one
        yield from self._counted(iterator)

    def _chance(self) -> state.State:
        own = [state.captured(each) for each in self._generators]
        return {"global": state.chance(), "own": own}

    def _set_chance(self, saved: state.State) -> None:
        state.set_chance(saved["global"])
        own = saved["own"]  # of before there may be fewer, the first of them
        if len(own) > len(self._generators):
            raise ValueError(
                f"the loader draws from {len(self._generators)} generators, and the checkpoint has "
                f"{len(own)}: make the loader as in the attempt before"
            )
        for generator, kept in zip(self._generators, own):
            state.restore(generator, kept)
