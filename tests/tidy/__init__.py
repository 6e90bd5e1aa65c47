"""Checkers for the properties of the code itself; tests/test_tidy.py runs them over the tree."""

__all__: list[str] = []
