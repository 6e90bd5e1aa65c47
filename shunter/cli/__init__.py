"""The command line: each command is a thin module; what it does is imported when it runs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
