"""The least makespan by bisection, within 5 %: the last point ECOS found on the way.

Nothing is optimised in any step. Any point that ends all jobs in time will do, so how ECOS steps
decides all.
"""

from collections.abc import Callable
from typing import Final

from shunter.errors import PlanError
from shunter_peers.gavel.conic.cones import Floats, Program
from shunter_peers.gavel.conic.ecos import Found
from shunter_peers.gavel.conic.shares import Space

SHORTEST_S: Final = 100.0
LONGEST_S: Final = 1_000_000.0
WITHIN: Final = 1.05
_GIVES_UP_S: Final = 1e15


def least_duration(space: Space, solve: Callable[[Program], Found | None]) -> Floats:
    """Return the shares of the shortest time that was found to do.

    Raises:
        PlanError: no time does.
    """
    low, high, last = SHORTEST_S, LONGEST_S, LONGEST_S
    shares: Floats | None = None
    while shares is None:
        if high > _GIVES_UP_S:
            raise PlanError("no target shares: the jobs would take for ever")
        while WITHIN * low < high:
            within_s = (low + high) / 2.0
            found = solve(_in_time(space, within_s))
            if found is not None and found.is_optimal:
                shares, high = found.x, within_s
            else:
                low = within_s
        low, high, last = last, last * 10.0, last * 10.0
    return shares


def _in_time(space: Space, within_s: float) -> Program:
    program = Program.of(space.unknowns)
    space.limit(program, 0)
    space.at_least(program, 0, space.rates, space.found.left / within_s)
    return program
