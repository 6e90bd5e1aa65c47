"""Simulations that go on from a moment of a log: what-if, ETA, counterfactuals, forecasts."""

__all__: list[str] = []
