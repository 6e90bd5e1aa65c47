"""The policy of a live cluster, in a process of its own that can be ended at any time."""

from shunter.daemon.policy.asked import AskedPolicy
from shunter.daemon.policy.process import PolicyProcess

__all__ = ["AskedPolicy", "PolicyProcess"]
