"""The shuffle of the public simulator: CPython's generator, as a memory that can be recorded.

`random.Random(seed).shuffle` of small integer seeds, number by number: MT19937 (Matsumoto and
Nishimura, 1998), seeded from one word by its array initialisation, and indices drawn by rejecting
numbers of the least sufficient bits. The core's own streams would not give the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

_SIZE, _MIDDLE = 624, 397
_WORD = 0xFFFFFFFF
_POOL = 21


@dataclass(slots=True)
class MersenneTwister:
    """A state of 624 words, and how many of them have been handed out."""

    words: list[int] = field(default_factory=list)
    used: int = _SIZE

    @classmethod
    def seeded(cls, seed: int) -> "MersenneTwister":
        """Return the generator for a seed below 2 ** 32."""
        words = [19650218]
        for place in range(1, _SIZE):
            words.append((1812433253 * (words[-1] ^ words[-1] >> 30) + place) & _WORD)
        place = 1
        for _ in range(_SIZE):
            last = words[place - 1]
            words[place] = ((words[place] ^ (last ^ last >> 30) * 1664525) + seed) & _WORD
            place = _next(place, words)
        for _ in range(_SIZE - 1):
            last = words[place - 1]
            words[place] = ((words[place] ^ (last ^ last >> 30) * 1566083941) - place) & _WORD
            place = _next(place, words)
        words[0] = 1 << 31
        return cls(words)

    def shuffle(self, items: list[T]) -> None:
        """Put a list into a random order, in place."""
        for place in range(len(items) - 1, 0, -1):
            other = self.below(place + 1)
            items[place], items[other] = items[other], items[place]

    def sample_two(self, items: Sequence[T]) -> tuple[T, T]:
        """Return two items at random, as `random.sample(items, 2)` does.

        In a list of up to 21 the last item takes the place of the first that was drawn; in a longer
        one, an item that was drawn already is drawn again.
        """
        count = len(items)
        first = self.below(count)
        if count <= _POOL:
            second = self.below(count - 1)
            return items[first], items[count - 1 if second == first else second]
        while (second := self.below(count)) == first:
            pass
        return items[first], items[second]

    def below(self, bound: int) -> int:
        """Return the next integer in [0, bound)."""
        bits = bound.bit_length()
        while (found := self._word() >> 32 - bits) >= bound:
            pass
        return found

    def _word(self) -> int:
        if self.used == _SIZE:
            self._twist()
        word = self.words[self.used]
        self.used += 1
        word ^= word >> 11
        word ^= word << 7 & 0x9D2C5680
        word ^= word << 15 & 0xEFC60000
        return word ^ word >> 18

    def _twist(self) -> None:
        words = self.words
        for place in range(_SIZE):
            mixed = words[place] & 0x80000000 | words[(place + 1) % _SIZE] & 0x7FFFFFFF
            odd = 0x9908B0DF if mixed & 1 else 0
            words[place] = words[(place + _MIDDLE) % _SIZE] ^ mixed >> 1 ^ odd
        self.used = 0


def _next(place: int, words: list[int]) -> int:
    """Return the next place; after the last the second, with its word at the first."""
    if place + 1 < _SIZE:
        return place + 1
    words[0] = words[_SIZE - 1]
    return 1
