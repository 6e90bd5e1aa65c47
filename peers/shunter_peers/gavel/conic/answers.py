"""Fractions of time as the public code has them, for each form of problem.

Claims go in, in the order of arrival; the form is stated as its policy states it, and solved by
ECOS. This imports numpy, so it is imported when the first answer is asked for.
"""

from collections.abc import Mapping

import numpy as np

from shunter.errors import PlanError
from shunter.events import GpuType
from shunter.policies.gavel import Demands, FinishTimes, Fractions, Isolated
from shunter_peers.gavel.conic.cones import Floats, Program
from shunter_peers.gavel.conic.durations import least_duration
from shunter_peers.gavel.conic.ecos import solve
from shunter_peers.gavel.conic.filling import filled
from shunter_peers.gavel.conic.finish_times import finish_times
from shunter_peers.gavel.conic.levels import level
from shunter_peers.gavel.conic.shares import Space, space_of
from shunter_peers.gavel.conic.sums import largest_sum
from shunter_peers.gavel.forms import Form, Kind


def answer(
    form: Form,
    demands: Demands,
    prices: Mapping[GpuType, float],
    finishing: FinishTimes | None = None,
) -> Fractions:
    """Return the fractions the public code has for these claims.

    Args:
        form: the problem.
        demands: the claims.
        prices: dollars an hour of a GPU.
        finishing: how long each job would have taken alone, where finish times count.
    Raises:
        PlanError: there is no answer; the message says why.
    """
    if not demands.requests:
        return {}
    space = space_of(form, demands)
    if form.kind is Kind.level:
        return space.fractions(_found(level(space))[1:])
    if form.kind is Kind.filling:
        return space.fractions(filled(space, solve))
    if form.kind is Kind.duration:
        return space.fractions(least_duration(space, solve))
    if form.kind is Kind.sum:
        return space.fractions(_sum(form, space, demands, prices))
    assert finishing is not None, "finish times are noted before they are asked for"
    found = solve(finish_times(space, finishing.whole_s(demands)))
    if found is None:
        return Isolated().fractions(demands)
    return space.fractions(found.x[1 : 1 + space.unknowns])


def _sum(form: Form, space: Space, demands: Demands, prices: Mapping[GpuType, float]) -> Floats:
    types = space.found.types
    unknown = [name for name in types if form.priced and name not in prices]
    if unknown:
        raise PlanError(f"no price is known of {', '.join(unknown)}")
    each = np.array([prices[name] if form.priced else 1.0 for name in types])
    nobody = [None] * space.jobs
    if form.deadlines:
        asked = [request.deadline_s for request in demands.requests]
        found = solve(largest_sum(space, each, asked))
        if found is not None:
            return found.x
    return _found(largest_sum(space, each, nobody))


def _found(program: Program) -> Floats:
    found = solve(program)
    if found is None:
        raise PlanError("no target shares: ECOS found no answer")
    return found.x
