"""How fast jobs run where, and what they measured of it: values that need no state."""

__all__: list[str] = []
