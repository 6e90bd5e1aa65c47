"""Questions to a log: its state then, why a job waited, what differs, what if, how long still."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
