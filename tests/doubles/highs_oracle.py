"""The same programs by HiGHS: the oracle of the tests, and a second opinion for a stalled path.

HiGHS (Huangfu and Hall, Mathematical Programming Computation 10, 2018) is the extra `solvers`,
imported when it is asked for. It returns a vertex of the optimal face, not its centre.
"""

from typing import TYPE_CHECKING

import numpy as np

from shunter.policies.gavel import Floats, Groups, Program

if TYPE_CHECKING:
    import highspy


def highs_level(groups: Groups, demand: Floats) -> float | None:
    """Return the largest level of throughputs over demands; None if there is none."""
    return _solve(Program.for_level(groups, demand, flat=True))


def highs_sum(groups: Groups, value: Floats, demand: Floats) -> float | None:
    """Return the largest sum of steps times value; None if the demands cannot be met."""
    return _solve(Program.for_sum(groups, value, demand, flat=True))


def _solve(program: Program) -> float | None:
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # the stubs leave it out
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        solver.setOptionValue(option, 1e-9)
    solver.passModel(_model(program))
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return float(solver.getInfo().objective_function_value)


def _model(program: Program) -> "highspy.HighsLp":
    """Return rows for throughput, time and GPUs, counted over jobs."""
    import highspy

    form, terms = program.flat, program.flat.terms
    fractions, groups = len(terms.weights), len(terms.counts)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = fractions + 1, form.size
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = np.append(terms.weights * terms.gain, terms.price)
    lp.col_lower_ = np.zeros(fractions + 1)
    lp.col_upper_ = np.append(np.full(fractions, np.inf), np.inf if terms.price > 0 else 0.0)
    lp.row_lower_ = np.full(form.size, -np.inf)
    lp.row_upper_ = np.concatenate([-terms.counts * terms.floor, terms.counts, np.ones(form.types)])
    values = np.zeros((fractions + 1, form.size))
    for lines, factors in zip(form.lines, form.factors, strict=True):
        np.add.at(values, (np.arange(fractions), lines), factors * terms.weights)
    values[-1, :groups] = terms.counts * terms.slope
    column, row = np.nonzero(values)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.searchsorted(column, np.arange(fractions + 2))
    lp.a_matrix_.index_ = row
    lp.a_matrix_.value_ = values[column, row]
    return lp
