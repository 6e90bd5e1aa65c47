"""The facts a log consists of, a module per group (architecture.md §4)."""

__all__: list[str] = []
