"""The makespan of the public code: a point a few per cent off the least."""

import numpy as np

from shunter.policies.gavel import (
    Floats,
    Groups,
    Program,
    Shares,
    Status,
    concluded,
    finished,
    follow,
    largest_level,
)


def relaxed_total_duration(groups: Groups, steps: Floats) -> Shares:
    """Return the centre of all shares with a makespan a few per cent above the least.

    The public code bisects the makespan between 100 s and 1,000,000 s, ten times as far where
    that is too little, until the bounds are within 5 %, and returns what its solver has found
    feasible last: a point of a polytope, ECOS's analytic centre.

    Objective: 1 / makespan that was asked for.

    Args:
        groups: who shares what.
        steps: shape (groups,), n, steps left of each job.
    """
    fault = groups.fault() or (None if bool((steps > 0).all()) else Status.invalid)
    if fault is not None:
        return Shares.none(groups, fault)
    scale = float(np.median(steps / groups.rates.max(axis=1)))
    level = largest_level(groups, steps / scale)
    least_s = scale / level.value
    low_s, high_s = 100.0, 1_000_000.0
    while high_s < least_s:
        low_s, high_s = 10 * low_s, 10 * high_s
    while 1.05 * low_s < high_s:
        middle_s = 0.5 * (low_s + high_s)
        low_s, high_s = (low_s, middle_s) if middle_s >= least_s else (middle_s, high_s)
    program = Program.for_sum(groups, np.zeros(len(groups.capacity)), steps / high_s)
    rough = largest_level(groups, steps / high_s, min(0.1, 0.3 * (high_s / least_s - 1.0)))
    start = program.start(rough.point.x, 1.0)
    shares = finished(program, follow(program.form, start, 1e-3, 1.0))
    return concluded(shares, 1.0 / high_s, 1.0 / high_s, 2)
