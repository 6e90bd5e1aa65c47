"""What launching, leaving and moving cost: time in which GPUs are held and no work is done."""

from collections.abc import Mapping
from fractions import Fraction

from shunter.events.records import fact

MICROSECONDS = 1_000_000


@fact
class Costs:
    """Durations in microseconds.

    `start_us`: a first launch. `suspend_us`: saving a checkpoint on the way out. `resume_us`: a
    launch from a checkpoint on the way back in. `migrate_us`: the same on other GPUs than before,
    instead; None: as `resume_us`. `checkpoint_us` comes on top of the last three: it is how long a
    checkpoint takes to write or to read; `by_model` says so for jobs of some models, instead.
    """

    start_us: int = 0
    suspend_us: int = 0
    resume_us: int = 0
    migrate_us: int | None = None
    checkpoint_us: int = 0
    by_model: tuple[tuple[str, int], ...] = ()

    def back_us(self, *, elsewhere: bool) -> int:
        """Return what a later launch costs without its checkpoint, maybe on other GPUs."""
        if elsewhere and self.migrate_us is not None:
            return self.migrate_us
        return self.resume_us

    @property
    def are_none(self) -> bool:
        """Whether nothing takes any time."""
        fixed = self.start_us or self.suspend_us or self.resume_us or self.migrate_us
        return not (fixed or self.checkpoint_us or any(us for _, us in self.by_model))


def transfer_us(size_mb: float, bandwidth_mb_s: float) -> int:
    """Return how long so much data takes, up to a whole microsecond.

    Both numbers count as the decimals that were written, so that 0.3 MB at 0.1 MB/s are 3 s.
    """
    assert size_mb >= 0
    assert bandwidth_mb_s > 0
    size, bandwidth = Fraction(repr(size_mb)), Fraction(repr(bandwidth_mb_s))
    return -(-size * MICROSECONDS // bandwidth)


def transfers_us(
    sizes_mb: Mapping[str, float], bandwidth_mb_s: float
) -> tuple[tuple[str, int], ...]:
    """Return how long the checkpoint of each model takes, in order of their names."""
    return tuple(
        (model, transfer_us(size_mb, bandwidth_mb_s)) for model, size_mb in sorted(sizes_mb.items())
    )


NO_COSTS = Costs()
