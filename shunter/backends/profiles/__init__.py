"""What jobs use and how fast they run: the supervisors' samples, and GPUs."""

from shunter.backends.profiles.gpus import GpuFault, GpuReader, GpuUse, NoGpus
from shunter.backends.profiles.sampler import profile_of
from shunter.backends.profiles.thinning import Thinning

__all__ = ["GpuFault", "GpuReader", "GpuUse", "NoGpus", "Thinning", "profile_of"]
