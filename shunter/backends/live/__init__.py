"""The daemon's side of processes on servers: agents, gangs of supervisors, checkpoints."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
