"""A running cluster: the round loop on the wall clock, its log, and what recovers from a crash.

`startup` makes a `site` of a config. Commands come in through `command_broker` and are checked in
`commands`; `policy` asks the policy's process; `backends` makes what runs jobs.
"""

from shunter.daemon.requests import Caller, Receipt, Submission
from shunter.daemon.site import Site
from shunter.daemon.startup import open_site

__all__ = ["Caller", "Receipt", "Site", "Submission", "open_site"]
