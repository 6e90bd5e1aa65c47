"""What makes two runs equal from here on: the parts of a training run, and all chance.

A part is anything with `state_dict` and `load_state_dict` (models, optimizers, schedulers),
`get_state` and `set_state` (generators of torch), or `getstate` and `setstate` (random.Random), or
a generator of numpy (`numpy.random.default_rng()`).
"""

from __future__ import annotations

import random
import sys
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    Whole = Callable[[Path], object]
    State = dict[str, Any]
    """What is written to a checkpoint and read again: each value is of the part that gave it."""


_PAIRS = (
    ("state_dict", "load_state_dict"),
    ("get_state", "set_state"),
    ("getstate", "setstate"),
)


def captured(part: object) -> object:
    """Return the state of a part."""
    bits = _bits_of(part)
    return _method(part, 0)() if bits is None else bits.state


def restore(part: object, state: object) -> None:
    """Put a part back into a state."""
    bits = _bits_of(part)
    if bits is not None:
        bits.state = state
    else:
        _method(part, 1)(_as_random_state(state) if isinstance(part, random.Random) else state)


def check_parts(parts: Mapping[str, object]) -> None:
    """Refuse a part whose state cannot be had, before hours of training depend on it."""
    for name, part in parts.items():
        if not has_state(part):
            raise TypeError(f"part {name!r}: {_lacking(part)}")


def chance() -> State:
    """Return the state of every source of chance that this process has loaded."""
    state: State = {"random": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    torch = _torch()
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_available():
            state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_chance(state: State) -> None:
    """Put every source of chance back; one that is not loaded here is left out."""
    random.setstate(_as_random_state(state["random"]))
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        numpy.random.set_state(tuple(state["numpy"]))
    torch = _torch()
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])
        if "cuda" in state and torch.cuda.device_count() == len(state["cuda"]):
            torch.cuda.set_rng_state_all(state["cuda"])


def are_equal(one: Any, other: Any) -> bool:
    """Say whether two states, as of `chance` or `captured`, have equal bits."""
    if isinstance(one, dict):
        return all(are_equal(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(are_equal, one, other))
    return bool((one == other).all()) if hasattr(one, "all") else bool(one == other)


def seed(text: str) -> None:
    """Let every source of chance begin at a text."""
    number = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big")
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number)
    torch = _torch()
    if torch is not None:
        torch.manual_seed(number)


def has_state(part: object) -> bool:
    """Say whether something can be a part."""
    return _pair_of(part) is not None or _bits_of(part) is not None


def has_state_dict(part: object) -> bool:
    """Say whether a part gives its state as models and optimizers do."""
    return _pair_of(part) == _PAIRS[0]


def _torch() -> Any:
    """Return torch if the script has imported it; we never do."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "get_rng_state") else None


def _method(part: object, which: int) -> Callable[..., object]:
    pair = _pair_of(part)
    if pair is None:
        raise TypeError(_lacking(part))
    method: Callable[..., object] = getattr(part, pair[which])
    return method


def _pair_of(part: object) -> tuple[str, str] | None:
    """Return the names of a part's methods for its state; None: it has none."""
    for pair in _PAIRS:
        if all(callable(getattr(part, name, None)) for name in pair):
            return pair
    return None


def _bits_of(part: Any) -> Any:
    """Return what holds the state of a generator of numpy (`default_rng`); else None."""
    numpy = getattr(sys.modules.get("numpy"), "random", None)
    kind: Any = getattr(numpy, "BitGenerator", ())
    if isinstance(part, kind):
        return part
    kind = getattr(numpy, "Generator", ())
    return part.bit_generator if isinstance(part, kind) else None


def _lacking(part: object) -> str:
    return (
        f"a {type(part).__name__} has neither state_dict/load_state_dict, nor get_state/set_state, "
        "nor getstate/setstate, nor is it a generator of numpy"
    )


def _as_random_state(state: Any) -> tuple[Any, ...]:  # of the version of Python, as it says
    """Return the tuples that JSON has made lists of."""
    version, keys, gauss = state
    return (version, tuple(keys), gauss)


def ranks(number: int) -> str:
    """Return a number of ranks in words."""
    return f"{number} rank{'s' if number > 1 else ''}"


class Parts:
    """What a checkpoint of the script holds, and how it is written."""

    def __init__(
        self,
        named: Mapping[str, object],
        replicated: Collection[str] = (),
        save: Whole | None = None,
        load: Whole | None = None,
        prove: Whole | None = None,
    ) -> None:
        check_parts(named)
        self.save = save
        self.prove = prove
        self.load = load
        self.named = named
        self._replicated = replicated

    def captured(self, rank: int) -> State:
        """Return the states of the parts that this rank saves."""
        own = [name for name in self.named if self._is_own(name, rank)]
        return {name: captured(self.named[name]) for name in own}

    def own(self) -> list[str]:
        """Return the names of the parts of which each rank has its own."""
        return [name for name in self.named if name not in self._replicated]

    def check_replicated(self, folder: Path, saved: int, world: int) -> None:
        """Refuse a checkpoint of other ranks, unless all parts are equal on all.

        Raises:
            ValueError: what each rank has of a part is its own.
        """
        own = [repr(name) for name in self.own()]
        if own:
            raise ValueError(
                f"checkpoint {folder} is of {ranks(saved)}, this run has {world}: name what is "
                f"equal on all ranks as `replicated` ({', '.join(own)}), run with as many ranks, "
                "or name another folder of checkpoints"
            )

    def restore(self, rank: int, saved: State, first: State) -> None:
        """Put the parts back: this rank's own, and those that only the first one saved.

        Raises:
            ValueError: a part was not saved.
        """
        for name, part in self.named.items():
            states = saved if self._is_own(name, rank) else first
            if name not in states:
                has = ", ".join(states) or "none"
                raise ValueError(f"part {name!r} is not in it, which has these: {has}")
            restore(part, states[name])

    def left_out(self, saved: State) -> list[str]:
        """Return the parts of a checkpoint that are none of this run."""
        return [name for name in saved if name not in self.named]

    def _is_own(self, name: str, rank: int) -> bool:
        return not rank or name not in self._replicated
