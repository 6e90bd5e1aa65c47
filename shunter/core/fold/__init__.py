"""How facts become state: a folder because nothing outside of it may write to the state."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
