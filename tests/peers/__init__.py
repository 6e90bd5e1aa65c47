"""Second, literal simulators of what the public ones do: the oracles of the peer setting."""

__all__: list[str] = []
