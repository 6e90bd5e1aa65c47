"""A running cluster: the round loop on the wall clock, its log, and what recovers from a crash."""

from shunter.daemon.requests import Caller, Receipt, Submission
from shunter.daemon.site import Site
from shunter.daemon.startup import open_site

__all__ = ["Caller", "Receipt", "Site", "Submission", "open_site"]
