"""What jobs use and how fast they run: samples of processes, GPUs and the training SDK."""

from shunter.backends.profiles.gpus import GpuFault, GpuReader, GpuUse, NoGpus
from shunter.backends.profiles.printed import printed_speed
from shunter.backends.profiles.processes import Processes, ProcessUse
from shunter.backends.profiles.sampler import Sampler
from shunter.backends.profiles.thinning import Thinning

__all__ = [
    "GpuFault",
    "GpuReader",
    "GpuUse",
    "NoGpus",
    "ProcessUse",
    "Processes",
    "Sampler",
    "Thinning",
    "printed_speed",
]
