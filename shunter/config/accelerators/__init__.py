"""What the accelerators of a server are, and how they lie in it."""

from shunter.config.accelerators.devices import GPU, VISIBLE, DeviceKind
from shunter.config.accelerators.gpu_map import (
    CpuGroups,
    GpuGroups,
    Parts,
    check_cpus,
    joined_level,
    levels_of,
    masks_of,
)

__all__ = [
    "GPU",
    "VISIBLE",
    "CpuGroups",
    "DeviceKind",
    "GpuGroups",
    "Parts",
    "check_cpus",
    "joined_level",
    "levels_of",
    "masks_of",
]
