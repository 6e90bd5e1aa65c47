"""The simulator's program for opt, stated as it states it and solved by HiGHS.

A variable for each job and point of the grid, 0 or 1. Rows: all cores, all memory, for each job its
speed at least that at the fair share (negated), then one point for each job. Which of many equally
good answers comes back depends on the build of HiGHS and on this order (C2).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shunter.errors import PlanError

if TYPE_CHECKING:
    import highspy


Floats = NDArray[np.float64]


def solved_cells(
    gpus: Sequence[int],
    speeds: Sequence[Floats],
    cells: tuple[Floats, Floats],
    fair: int,
    room: tuple[float, float],
) -> list[int]:
    """Return the cell of each job.

    Args:
        gpus: of each job.
        speeds: of each job, shape (cells,).
        cells: the cores and the GB of each cell, for a GPU.
        fair: the cell of the fair share.
        room: cores and GB of the cluster.
    Raises:
        PlanError: HiGHS found no answer.
    """
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # the stubs leave it out
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    solver.passModel(_model(gpus, speeds, cells, fair, room))
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise PlanError(f"synergy_peer: HiGHS found no points for {len(gpus)} jobs")
    chosen = np.array(solver.getSolution().col_value).reshape(len(gpus), -1)
    return [int(cell) for cell in chosen.argmax(axis=1)]


def _model(
    gpus: Sequence[int],
    speeds: Sequence[Floats],
    cells: tuple[Floats, Floats],
    fair: int,
    room: tuple[float, float],
) -> "highspy.HighsLp":
    import highspy

    jobs, width = len(gpus), len(cells[0])
    matrix = np.zeros((2 + 2 * jobs, jobs * width))
    for job, (count, speed) in enumerate(zip(gpus, speeds, strict=True)):
        own = slice(job * width, (job + 1) * width)
        matrix[0, own], matrix[1, own] = count * cells[0], count * cells[1]
        matrix[2 + job, own] = -speed
        matrix[2 + jobs + job, own] = 1.0
    column, row = np.nonzero(matrix.T)
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.sense_ = highspy.ObjSense.kMinimize
    lp.col_cost_ = -np.concatenate(speeds)
    lp.col_lower_, lp.col_upper_ = np.zeros(jobs * width), np.ones(jobs * width)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * (jobs * width)
    lp.row_lower_ = np.concatenate([np.full(2 + jobs, -np.inf), np.ones(jobs)])
    fairness = [-speed[fair] for speed in speeds]
    lp.row_upper_ = np.concatenate([room, fairness, np.ones(jobs)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.searchsorted(column, np.arange(jobs * width + 1))
    lp.a_matrix_.index_, lp.a_matrix_.value_ = row, matrix.T[column, row]
    return lp
