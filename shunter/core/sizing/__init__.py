"""How many CPUs and how much memory go with the GPUs of each job (Synergy, OSDI 2022)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
