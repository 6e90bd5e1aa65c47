"""From a view to a checked plan: what a policy wants, and what of it may be done."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
