"""Max-min fairness: the least normalised throughput, times the gang over the weight, is largest."""

import numpy as np

from shunter_peers.gavel.conic.cones import Floats, Program
from shunter_peers.gavel.conic.shares import Space


def level(space: Space) -> Program:
    """Return the problem; its first unknown is minus the level.

    A job's gang and weight count before its proportional throughput, as the public code has it:
    the last digits depend on that.
    """
    found = space.found
    proportional = proportional_rates(space)
    weights, sizes = found.weights[space.job, None], found.sizes[space.job, None]
    if space.packed:
        terms = space.weighed() * sizes / proportional[space.job, None]
    else:
        terms = space.rates * (1.0 / weights * (1.0 / proportional[space.job, None])) * sizes
    program = Program.of(1 + space.unknowns)
    program.cost[0] = 1.0
    row = program.at_most(np.zeros(space.jobs))
    program.put(row + np.arange(space.jobs), 0, -1.0)
    program.put(row + space.job[:, None], 1 + space.columns(space.gang), -terms)
    space.limit(program, 1)
    return program


def proportional_rates(space: Space) -> Floats:
    """Return steps a second alone, on each type for its part of all GPUs."""
    found = space.found
    parts = found.capacity / space.jobs
    rates: Floats = (found.rates * (parts / parts.sum())).sum(axis=1)
    return rates
