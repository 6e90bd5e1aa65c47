"""Simulations that go on from a moment of a log: what-if, ETA, counterfactuals, forecasts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
