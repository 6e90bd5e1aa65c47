"""Whole clusters with real processes."""

__all__: list[str] = []
