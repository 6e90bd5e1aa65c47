"""How fast jobs run where, and what they measured of it: values that need no state."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
