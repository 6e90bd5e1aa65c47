"""Where this machine lets us limit the memory of jobs: see `node.cgroups`."""

from dataclasses import dataclass
from pathlib import Path

from shunter.backends.node.cgroups import MOVED, divisible

OURS = MOVED
PROC = Path("/proc/self")
MEND = "under systemd, run the daemon in a unit with Delegate=yes"


@dataclass(frozen=True, slots=True)
class MemoryControl:
    """The group below which attempts get theirs; without one, why."""

    group: str = ""
    why_not: str = ""


def memory_control(*, prepare: bool, proc: Path = PROC) -> MemoryControl:
    """Find the group that we may divide.

    Args:
        prepare: also make it ready, which may move the processes in it one level down.
        proc: where the kernel tells of this process.
    """
    return MemoryControl(*divisible(prepare=prepare, mend=MEND, proc=str(proc)))
