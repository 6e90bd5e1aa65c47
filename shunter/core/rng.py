"""Random numbers without state of their own: the same seed, name and number give the same stream.

A stream is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over a seed mixed from its parts, so it
is the same in every Python, and costs nothing until its first draw.
"""

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


class RandomStream:
    """One stream of pseudo-random numbers, named by its parts."""

    __slots__ = ("_parts", "_state")

    def __init__(self, *parts: int | str) -> None:
        self._parts = parts
        self._state: int | None = None

    def bits(self) -> int:
        """Return the next 64 bits."""
        if self._state is None:
            self._state = _seed_of(self._parts)
        self._state = (self._state + _GAMMA) & _MASK
        return _mix(self._state)

    def random(self) -> float:
        """Return the next number in [0, 1)."""
        return (self.bits() >> 11) * 2.0**-53

    def below(self, bound: int) -> int:
        """Return the next integer in [0, bound), without bias.

        Raises:
            ValueError: the bound is not positive.
        """
        if bound <= 0:
            raise ValueError(f"a bound must be positive, not {bound}")
        limit = (1 << 64) - (1 << 64) % bound
        while (bits := self.bits()) >= limit:
            pass
        return bits % bound


def _seed_of(parts: tuple[int | str, ...]) -> int:
    state = 0
    for part in parts:
        for byte in repr(part).encode():
            state = _mix((state ^ byte) + _GAMMA & _MASK)
        state = _mix(state ^ _GAMMA)
    return state


def _mix(bits: int) -> int:
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & _MASK
    return bits ^ (bits >> 31)
