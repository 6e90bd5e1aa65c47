"""The traces of other public simulators, a module for each."""

__all__: list[str] = []
