"""This machine as a cluster of one or more nodes."""

from shunter.backends.local.memory import MemoryControl, memory_control
from shunter.backends.local.settings import LocalNode, LocalSettings
from shunter.backends.local.transport import LocalBackend

__all__ = ["LocalBackend", "LocalNode", "LocalSettings", "MemoryControl", "memory_control"]
