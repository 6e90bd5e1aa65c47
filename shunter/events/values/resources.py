"""What servers have, shares take and jobs ask for, as one value."""

from collections.abc import Iterable, Iterator

from shunter.events.values.fact import fact


@fact
class Resources:
    """GPUs, CPUs in thousandths, memory in MB."""

    gpus: int = 0
    cpus_milli: int = 0
    memory_mb: int = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            self.gpus + other.gpus,
            self.cpus_milli + other.cpus_milli,
            self.memory_mb + other.memory_mb,
        )

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources(
            self.gpus - other.gpus,
            self.cpus_milli - other.cpus_milli,
            self.memory_mb - other.memory_mb,
        )

    def times(self, count: int) -> "Resources":
        """Return so many times as much."""
        return Resources(self.gpus * count, self.cpus_milli * count, self.memory_mb * count)

    @property
    def are_gpus_alone(self) -> bool:
        """Whether they are neither CPUs nor memory."""
        return not self.cpus_milli and not self.memory_mb

    def fit_beside(self, free: "Resources") -> bool:
        """Say whether there are CPUs and memory enough, whatever the GPUs."""
        return self.cpus_milli <= free.cpus_milli and self.memory_mb <= free.memory_mb

    def at_most_with(self, gpus: int) -> "Resources":
        """Return what goes with so many of its GPUs, CPUs and memory rounded up.

        Where it has no GPUs, that is all of its CPUs and memory.
        """
        if not self.gpus:
            return Resources(gpus, self.cpus_milli, self.memory_mb)
        return Resources(
            gpus,
            -(-self.cpus_milli * gpus // self.gpus),
            -(-self.memory_mb * gpus // self.gpus),
        )

    def divided(self, pieces: Iterable[int]) -> Iterator["Resources"]:
        """Yield the part of each piece, named by its GPUs; together they are all.

        By the GPUs up to each piece, so that no part is more than its own need rounded up.
        """
        gpus = cpus_milli = memory_mb = 0
        for piece in pieces:
            gpus += piece
            cpus = self.cpus_milli * gpus // self.gpus if self.gpus else self.cpus_milli
            memory = self.memory_mb * gpus // self.gpus if self.gpus else self.memory_mb
            yield Resources(piece, cpus - cpus_milli, memory - memory_mb)
            cpus_milli, memory_mb = cpus, memory
