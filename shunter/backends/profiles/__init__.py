"""What jobs use and how fast they run: the supervisors' samples, and GPUs."""

from shunter.backends.profiles.gpus import (
    EXPLANATIONS,
    GpuFault,
    GpuReader,
    GpuUse,
    NoGpus,
    fault_of_code,
    use_told,
)
from shunter.backends.profiles.sampler import profile_of
from shunter.backends.profiles.thinning import Thinning

__all__ = [
    "EXPLANATIONS",
    "GpuFault",
    "GpuReader",
    "GpuUse",
    "NoGpus",
    "Thinning",
    "fault_of_code",
    "profile_of",
    "use_told",
]
