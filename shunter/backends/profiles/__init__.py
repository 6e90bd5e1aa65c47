"""What jobs use and how fast they run: the supervisors' samples, and GPUs."""

from shunter.backends.profiles.downsampling import Downsampler, profile_of
from shunter.backends.profiles.gpus import (
    EXPLANATIONS,
    GpuFault,
    GpuReader,
    GpuUse,
    NoGpus,
    fault_of_code,
    use_told,
    why_unseen,
)

__all__ = [
    "EXPLANATIONS",
    "Downsampler",
    "GpuFault",
    "GpuReader",
    "GpuUse",
    "NoGpus",
    "fault_of_code",
    "profile_of",
    "use_told",
    "why_unseen",
]
