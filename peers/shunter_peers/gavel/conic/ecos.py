"""ECOS, called with a problem as it stands, at its own tolerances of 1e-8.

ECOS is one thread and draws nothing at random: the same problem has the same answer, digit by
digit, on one kind of machine. It is licensed under the GPL, version 3, and this is not: it is an
extra of its own, imported here only, and only for the policies of the peer setting that solve.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Final

from shunter.errors import ConfigError, PlanError, extra_hint
from shunter_peers.gavel.conic.cones import Floats, Program

_OPTIMAL: Final = 0
_INACCURATE: Final = 10
_STEPS_OVER: Final = -1
_INTERRUPTED: Final = -4
_NO_ANSWER: Final = (1, 2, 11, 12)  # infeasible or unbounded, exactly or nearly


@dataclass(frozen=True, slots=True)
class Found:
    """Where ECOS stopped, and whether within its tolerances."""

    x: Floats
    is_optimal: bool


def solve(program: Program) -> Found | None:
    """Return the answer; None: there is none.

    Raises:
        PlanError: ECOS gave up.
        ConfigError: it is not installed.
    """
    try:
        # What `ecos.solve` does, less the import of scipy, which takes longer than most problems.
        call = import_module("_ecos").csolve
    except ImportError as error:
        raise ConfigError(
            f"new target shares need the package ecos: {extra_hint('ecos', 'shunter-peers')}"
        ) from error
    matrix = program.matrix()
    shape = *matrix.shape, 0
    dims = {"l": program.linear, "q": [3] * program.quadratic, "e": 0}
    columns = matrix.values, matrix.rows, matrix.begins
    answer = call(shape, program.cost, *columns, program.limit(), dims, verbose=False)
    flag = int(answer["info"]["exitFlag"])
    if flag == _INTERRUPTED:  # ECOS takes Ctrl-C for itself while it runs
        raise KeyboardInterrupt
    if flag in _NO_ANSWER:
        return None
    if flag not in (_OPTIMAL, _INACCURATE, _STEPS_OVER):
        raise PlanError(f"no target shares: ECOS gave up ({answer['info']['infostring']})")
    return Found(answer["x"], flag == _OPTIMAL)
