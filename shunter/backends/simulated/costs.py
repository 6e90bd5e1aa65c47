"""What launching, leaving and moving cost: time in which GPUs are held and no work is done."""

from shunter.events.values.fact import fact


@fact
class Costs:
    """Durations in microseconds, the same for every job.

    `start_us`: a first launch. `suspend_us`: saving a checkpoint on the way out. `resume_us`: a
    launch from a checkpoint on the way back in. `migrate_us`: the same after a move, instead.
    """

    start_us: int = 0
    suspend_us: int = 0
    resume_us: int = 0
    migrate_us: int = 0

    @property
    def are_none(self) -> bool:
        """Whether nothing takes any time."""
        return not (self.start_us or self.suspend_us or self.resume_us or self.migrate_us)


NO_COSTS = Costs()
