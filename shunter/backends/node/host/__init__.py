"""The host of an agent: users, files, GPUs and their wiring."""

try:
    from lazy_loader import attach_stub
except ImportError:  # on a node there is the standard library only, and every chapter is named
    __all__ = ()
else:
    __getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
