"""The policy's own process in a live cluster; it imports no more than a policy needs to decide.

A room of its own, since the daemon waits for it at every start, and imports of `shunter.daemon` and
`shunter.run` would be a third of that. `child` is the process, `messages` its talk with the daemon.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
