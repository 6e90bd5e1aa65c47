"""State, fold, view, plan, approver and round loop: the scheduler without the outside world."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
