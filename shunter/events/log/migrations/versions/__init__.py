"""The revisions, oldest first; none is ever changed once logs carry it."""

__all__: list[str] = []
