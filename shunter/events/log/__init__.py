"""The event log: frames of events in a hash chain, in memory, in SQLite, or as a chain alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
