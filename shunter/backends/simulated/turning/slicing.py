"""How jobs of the simulated world take turns."""

from typing import Final

from shunter.events.records import fact
from shunter.events.values import JobId


@fact
class Slicing:
    """How jobs take turns, in microseconds.

    `quantum_us` is the length of a turn while others wait, `switch_us` that of a change of hands,
    and after `wait_most_us` without a turn a job goes first (None: never for that alone). Memory of
    GPUs is copied at `copy_mb_s` (None: in no time). Turns end at mini-batch boundaries, up to
    `boundary_most_us` late (None: as late as these are), or without `at_boundary` wherever a job
    is. With `keeps_homes` a job works on its own GPUs only, as live ones do, but for those that
    are `moving`.
    """

    quantum_us: int = 60_000_000
    switch_us: int = 0
    wait_most_us: int | None = None
    copy_mb_s: float | None = None
    at_boundary: bool = True
    boundary_most_us: int | None = None
    keeps_homes: bool = False
    moving: frozenset[JobId] = frozenset()

    def keeps_home(self, job_id: JobId) -> bool:
        """Say whether a job works on its own GPUs only."""
        return self.keeps_homes and job_id not in self.moving


NO_SLICING: Final = Slicing(0)
