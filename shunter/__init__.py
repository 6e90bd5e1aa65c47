"""Shunter schedules deep-learning training jobs on a shared GPU cluster, out of one event log."""

from shunter import compiled

__all__ = ["__version__", "compiled"]

__version__ = "0.1.0"
