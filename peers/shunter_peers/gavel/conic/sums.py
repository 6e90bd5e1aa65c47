"""The largest sum of throughputs, each over the price of its GPU, and what deadlines ask for."""

from collections.abc import Sequence

import numpy as np

from shunter_peers.gavel.conic.cones import Floats, Program
from shunter_peers.gavel.conic.shares import Space


def largest_sum(space: Space, prices: Floats, deadlines_s: Sequence[float | None]) -> Program:
    """Return the problem.

    Args:
        space: its unknowns.
        prices: shape (types,), 1 where they do not count.
        deadlines_s: by job, the time left for its steps; one at 0 asks for nothing.
    """
    program = Program.of(space.unknowns)
    columns = space.columns(space.gang)
    np.subtract.at(program.cost, columns, space.rates / prices)
    space.limit(program, 0)
    asking = [job for job, left_s in enumerate(deadlines_s) if left_s]
    if asking:
        least = [space.found.left[job] / (deadlines_s[job] or 1.0) for job in asking]
        row = program.at_most(-np.array(least))
        places = {job: row + place for place, job in enumerate(asking)}
        chosen = np.isin(space.job, asking)
        rows = np.array([places[job] for job in space.job[chosen].tolist()])
        program.put(rows[:, None], columns[chosen], -space.rates[chosen])
    return program
