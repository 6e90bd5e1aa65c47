"""The rows of the tables of the comparison of placements."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One contender at one load: means over the seeds.

    `slowdown` is the time that a job held its GPUs over what it takes alone with its GPUs near;
    `jct_h` and `wait_h` are in hours, `half_h` half the width of the 95 % interval of `jct_h` over
    seeds. `large_jct_h` and `large_wait_p95_h` are those of gangs of four and more; None: none are.
    `moves_per_h` are moves of running jobs an hour. `large_saved_h` is by how much that 95th
    percentile is below that of the contender it is compared with, the mean over seeds, and
    `large_saved_half_h` half the width of its interval; None: with none. `needless` are the gangs
    of four that waited though GPUs were free by their curve, `slow` those that were given others
    than such, of each run; None: curves are no part of the experiment.
    """

    experiment: str
    load: float
    contender: str
    slowdown: float
    jct_h: float
    half_h: float
    wait_h: float
    large_jct_h: float | None
    large_wait_p95_h: float | None
    moves_per_h: float = 0.0
    large_saved_h: float | None = None
    large_saved_half_h: float | None = None
    needless: float | None = None
    slow: float | None = None
