"""The last decision found at which a job, placed first, is spared what happened to it."""

from shunter.ask.forking.inevitable.asking import inevitable
from shunter.ask.forking.inevitable.outcomes import Kind

__all__ = ["Kind", "inevitable"]
