"""Servers of one kind: what is in them and how it is wired (Xiao, SOSP-SRC 2017)."""

from shunter.events.values.fact import value
from shunter.events.values.ids import GpuType
from shunter.events.values.job_spec import Level
from shunter.events.values.resources import Resources

CPU_UNITS = "cpu"
"""What `device` says of a server that is an accelerator by its CPUs."""

_NVLINK = Level.nvlink  # members are slow to look up


@value
class LevelGroups:
    """The GPU groups of one level inside a server, as bit masks in ascending order."""

    level: Level
    masks: tuple[int, ...]


@value
class ConfigurationSet:
    """What equal servers share: devices, CPUs, memory, levels, and where they stand.

    `levels` runs from the nearest (NVLink, else switch) outwards and leaves out levels that tell
    nothing; in logs of before there is none of NVLink, and there it counts for nothing. The groups
    of all others lie in each other; those of NVLink may lie across them.
    `links` are groups of GPUs joined directly (NVLink). Empty `rack` or `domain`: unknown.
    Where `device` is `CPU_UNITS`, its `gpus` are units of CPU: equal parts of its CPUs, which are
    placed, counted and given away as GPUs are.
    """

    name: str
    gpu_type: GpuType
    gpus: int
    cpus_milli: int = 0
    memory_mb: int = 0
    rack: str = ""
    domain: str = ""
    levels: tuple[LevelGroups, ...] = ()
    links: tuple[int, ...] = ()
    device: str = "gpu"

    @property
    def joined(self) -> tuple[int, ...]:
        """Its groups by NVLink, where they are a level; others are one alone."""
        levels = self.levels
        return levels[0].masks if levels and levels[0].level is _NVLINK else ()

    @property
    def bus_levels(self) -> tuple[LevelGroups, ...]:
        """Its levels but for that of NVLink."""
        levels = self.levels
        return levels[1:] if levels and levels[0].level is _NVLINK else levels

    @property
    def unit_cpus_milli(self) -> int:
        """The CPUs of each of its units, in thousandths; 0: it has no units."""
        return self.cpus_milli // self.gpus if self.device == CPU_UNITS and self.gpus else 0

    @property
    def beside(self) -> Resources:
        """Its CPUs and memory."""
        return Resources(0, self.cpus_milli, self.memory_mb)
