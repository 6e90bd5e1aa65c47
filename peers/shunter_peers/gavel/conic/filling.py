"""Water filling as the public code does it: a level, who can still rise, and the next level.

Each level is a problem like that of max-min fairness, above what jobs have; then it is asked who
can still rise (`rising.py`). Where that has no answer, nobody can, and the filling is over. So it
is where ECOS gives up: then the shares are those of the level before.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shunter.errors import PlanError
from shunter_peers.gavel.conic.cones import Floats, Program
from shunter_peers.gavel.conic.ecos import Found
from shunter_peers.gavel.conic.levels import proportional_rates
from shunter_peers.gavel.conic.rising import can_rise
from shunter_peers.gavel.conic.shares import Space


@dataclass(slots=True)
class Filling:
    """Where the filling stands.

    Args:
        space: the shares.
        share: shape (jobs,), one over the proportional throughput of each.
        pace: shape (jobs,), the gang over the weight: how fast the level comes.
        most: more than any normalised throughput times its gang.
        reached: shape (jobs,), normalised throughput so far.
        held: shape (jobs,), who rises no more.
    """

    space: Space
    share: Floats
    pace: Floats
    most: float
    reached: Floats
    held: NDArray[np.bool_]

    @classmethod
    def of(cls, space: Space) -> "Filling":
        """Return the empty basin."""
        found = space.found
        proportional = proportional_rates(space)
        nobody = np.zeros(space.jobs, np.bool_)
        sizes = found.sizes[space.job, None]
        if space.packed:
            most = float((space.rates * sizes / proportional[space.job, None]).max())
        else:
            most = float((space.rates * (1.0 / proportional)[:, None] * sizes).max())
        pace = 1.0 / found.weights * found.sizes
        return cls(space, 1.0 / proportional, pace, most, np.zeros(space.jobs), nobody)

    def problem(self) -> Program:
        """Return the problem of the next level."""
        space = self.space
        rates = space.rates * self.share[space.job, None]
        pace = np.where(self.held, 0.0, self.pace)
        program = Program.of(1 + space.unknowns)
        program.cost[0] = 1.0
        row = program.at_most(np.where(self.held, self.most, -(self.reached * pace)))
        program.put(row + np.arange(space.jobs), 0, -1.0)
        columns = 1 + space.columns(space.gang)
        program.put(row + space.job[:, None], columns, -(rates * pace[space.job, None]))
        space.limit(program, 1)
        space.at_least(program, 1, rates, self.reached)
        return program

    def rise(self, x: Floats) -> None:
        """Count the level that shares reach, for all that are not held."""
        normalised = self.space.throughputs(x) * self.share
        pace = np.where(self.held, 0.0, self.pace)
        rest = np.where(self.held, self.most, 0.0)
        level = float(((normalised - self.reached) * pace + rest).min())
        self.reached = self.reached + np.where(self.held, 0.0, 1.0 / self.pace) * level


def filled(space: Space, solve: Callable[[Program], Found | None]) -> Floats:
    """Return the shares of the last level.

    Raises:
        PlanError: not even the first level was found.
    """

    def tried(program: Program) -> Found | None:
        try:
            return solve(program)
        except PlanError:
            return None

    filling = Filling.of(space)
    shares: Floats | None = None
    is_over = False
    while not is_over:
        found = tried(filling.problem())
        if found is not None:
            shares = found.x[1:]
            filling.rise(shares)
        elif shares is None:
            raise PlanError("no target shares: ECOS found no first level")
        rising = can_rise(space, filling.share, filling.reached, filling.held, tried)
        stopped = ~(filling.held | rising)
        filling.held = filling.held | stopped
        is_over = found is None or not bool(stopped.any()) or bool(filling.held.all())
    assert shares is not None, "the first level was found"
    return shares
