"""Who can still rise: the most jobs that can be above their level at once.

The public code asks an integer program (GLPK): a job rises by a ten-thousandth of its level, or
stays a hundred-thousandth short of that. Below a level of 0.1 it cannot do the latter. So where
somebody there does not rise, the program has no answer, and the filling ends too early.

Deviation: here it is asked how much of that rise jobs can have together, each from none to all of
it. Where nobody has a part only, that is the answer of the integer program too, and the only one,
since ECOS stops inside the optimal face. GLPK takes what is 0.00001 off an integer for one, by
which it lets a job rise now and then that cannot.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shunter_peers.gavel.conic.cones import Floats, Program
from shunter_peers.gavel.conic.ecos import Found
from shunter_peers.gavel.conic.shares import Space

SLACK: Final = 1.0001
SHORT: Final = 1e-5
_WHOLE: Final = 0.9


def can_rise(
    space: Space,
    share: Floats,
    reached: Floats,
    held: NDArray[np.bool_],
    solve: Callable[[Program], Found | None],
) -> NDArray[np.bool_]:
    """Return who rises; nobody, if not even those who must can do so.

    Args:
        space: the shares.
        share: shape (jobs,), what normalises throughputs.
        reached: shape (jobs,), normalised throughputs.
        held: shape (jobs,), who rises no more.
        solve: ECOS.
    """
    jobs, nobody = space.jobs, np.zeros(space.jobs, np.bool_)
    must = reached * SLACK - SHORT < reached
    if bool((must & held).any()):
        return nobody
    own = np.flatnonzero(~held)
    rates = space.rates * share[space.job, None]
    program = Program.of(space.unknowns + len(own))
    program.cost[space.unknowns :] = -1.0
    space.limit(program, 0)
    row = space.at_least(program, 0, rates, reached)
    program.put(row + own, space.unknowns + np.arange(len(own)), (reached * (SLACK - 1.0))[own])
    row = program.at_most(np.ones(len(own)))
    program.put(row + np.arange(len(own)), space.unknowns + np.arange(len(own)), 1.0)
    row = program.at_most(np.where(must, -1.0, 0.0)[own])
    program.put(row + np.arange(len(own)), space.unknowns + np.arange(len(own)), -1.0)
    found = solve(program)
    if found is None:
        return nobody
    part = np.zeros(jobs)
    part[own] = found.x[space.unknowns :]
    return part > _WHOLE
