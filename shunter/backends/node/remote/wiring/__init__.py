"""How the GPUs of a host are wired, by sysfs, by hwloc and by nvidia-smi."""

from shunter.backends.node.remote.wiring.sources import host_wiring, note_wiring, wiring_of
from shunter.backends.node.remote.wiring.sysfs import sockets

__all__ = ("host_wiring", "note_wiring", "sockets", "wiring_of")
