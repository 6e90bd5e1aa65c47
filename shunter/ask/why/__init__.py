"""Why a job waits, runs, was preempted or ended: found in the log, and planned once more."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
