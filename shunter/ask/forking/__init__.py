"""Simulations that go on from a moment of a log: what-if, ETA and counterfactuals."""

__all__: list[str] = []
