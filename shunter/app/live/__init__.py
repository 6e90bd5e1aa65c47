"""A running cluster: the round loop on the wall clock, its log, and what recovers from a crash."""

from shunter.app.live.requests import Caller, Receipt, Submission
from shunter.app.live.site import Site
from shunter.app.live.startup import open_site

__all__ = ["Caller", "Receipt", "Site", "Submission", "open_site"]
