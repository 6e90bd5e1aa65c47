"""Shunter schedules deep-learning training jobs on a shared GPU cluster, out of one event log."""

from shunter.sdk_hint import __getattr__ as __getattr__

__all__ = ["__version__"]

__version__ = "0.1.0"
