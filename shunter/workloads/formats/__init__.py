"""The file formats of traces: a folder, so that a start reads only those that are asked for."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
