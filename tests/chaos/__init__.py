"""Seeded faults on a whole cluster over SSH, and a checker of what came of them."""

__all__: list[str] = []
