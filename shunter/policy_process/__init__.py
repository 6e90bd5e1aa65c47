"""The policy's own process in a live cluster; it imports no more than a policy needs to decide.

It is a room of its own, since it is started with every daemon, and the daemon waits for it: what it
would import of `shunter.daemon` and `shunter.run` is a third of its start. `child` is the process,
`messages` what it and the daemon say to each other.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
