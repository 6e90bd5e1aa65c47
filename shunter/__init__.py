"""Shunter schedules deep-learning training jobs on a shared GPU cluster, out of one event log."""

__all__ = ["__version__"]

__version__ = "0.1.0"
