"""A running cluster: the round loop on the wall clock, its log, and what recovers from a crash.

`startup` makes a `site` of a config. Commands come in through `command_broker` and are checked in
`commands`; `policy` asks the policy's process; `backends` makes what runs jobs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
