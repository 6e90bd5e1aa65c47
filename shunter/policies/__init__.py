"""One file for each published policy, found by name through an entry point."""

__all__: list[str] = []
