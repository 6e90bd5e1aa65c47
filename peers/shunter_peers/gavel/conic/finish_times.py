"""Finish-time fairness: the worst ratio of the time jobs take, here over alone, is the least.

One over a throughput is not linear. A second unknown for each job is at least that, since
(q + y, q − y, 2) lies in the second-order cone when q y >= 1 for both at least 0.
"""

import numpy as np

from shunter_peers.gavel.conic.cones import Floats, Program
from shunter_peers.gavel.conic.shares import Space


def finish_times(space: Space, alone_s: Floats) -> Program:
    """Return the problem.

    Its unknowns are the ratio, shares, and one over each throughput; of a job that is alone, one
    over its throughput, then shares.

    Args:
        space: the shares.
        alone_s: shape (jobs,), how long each job takes in all on its own part.
    """
    found, jobs = space.found, space.jobs
    share = 1.0 / alone_s
    inverse = 1 + space.unknowns if jobs > 1 else 0
    own = np.arange(jobs, dtype=np.int64)
    program = Program.of(1 + space.unknowns + (jobs if jobs > 1 else 0))
    if jobs > 1:
        row = program.at_most(-(found.ages_s * share))
        program.put(row + own, 0, -1.0)
        program.put(row + own, inverse + own, found.left * share)
    program.cost[0] = 1.0 if jobs > 1 else found.left[0] * share[0]
    space.limit(program, 1)
    rates = space.weighed() if space.packed else space.rates
    row = program.in_cones(np.tile([0.0, 0.0, 2.0], (jobs, 1)))
    columns = 1 + space.columns(space.gang)
    for place, sign in ((0, -1.0), (1, 1.0)):
        program.put(row + 3 * space.job[:, None] + place, columns, -rates)
        program.put(row + 3 * own + place, inverse + own, sign)
    return program
