"""The programs that choose sizes, by HiGHS (Huangfu and Hall, Math. Prog. Comp. 10, 2018).

A whole program is an integer program: a variable for each job and size, 0 or 1. It is searched one
thread at a time, with a fixed seed, and no further than a number of nodes, so equal programs have
equal answers; a limit in seconds, which depends on the machine, is a choice. The others are linear
programs, which need no limit.

HiGHS is the extra `solvers`, imported when it is asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING, Any

from shunter.core.sizing import Answer, Program
from shunter.errors import PlanError, extra_hint

if TYPE_CHECKING:
    import highspy

_LIKED = 1e-5
"""What a size that is liked counts for beside its speed: less than any difference of speeds."""
_MILLI = 1e-3


def why_unusable() -> str:
    """Return why HiGHS cannot be asked here; nothing if it can be."""
    if find_spec("highspy") is None:
        return "which is not installed"
    try:
        import highspy

        highspy.Highs().version()  # type: ignore[no-untyped-call]  # the stubs leave it out
    except (ImportError, AttributeError, OSError, TypeError, ValueError) as error:
        return f"which is installed and cannot be used ({error})"
    return ""


@dataclass(frozen=True)
class HighsSolver:
    """Solves programs one after the other.

    `nodes_most` are those of each search. `seconds_most` is the time for all programs of a round:
    those that are left then have no answer. None: no limit, and so the same answers anywhere.
    """

    nodes_most: int = 100
    seconds_most: float | None = None

    def solve(self, programs: Sequence[Program]) -> list[Answer]:
        """Return the answer to each program, in order.

        Raises:
            PlanError: HiGHS is not installed.
        """
        try:
            import highspy  # noqa: F401  said once, for all programs
        except ImportError as error:
            what = f"sizing 'opt' needs the package highspy; {extra_hint('solvers')}"
            raise PlanError(what) from error
        left_s = self.seconds_most
        answers = []
        for program in programs:
            if left_s is not None and left_s <= 0:
                answers.append(Answer((), inf))
                continue
            solver = self._solver(left_s)
            solver.passModel(_model(program))
            if program.is_whole:
                solver.setSolution(_known(program))
            solver.run()
            answers.append(_answer(solver, program))
            if left_s is not None:
                left_s -= float(solver.getRunTime())
        return answers

    def _solver(self, left_s: float | None) -> Any:
        import highspy

        solver = highspy.Highs()  # type: ignore[no-untyped-call]  # the stubs leave it out
        options = {
            "output_flag": False,
            "threads": 1,
            "random_seed": 0,
            "mip_max_nodes": self.nodes_most,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 1e-6,
        }
        if left_s is not None:
            options["time_limit"] = left_s
        for option, value in options.items():
            solver.setOptionValue(option, value)
        return solver


def _answer(solver: Any, program: Program) -> Answer:
    """Return what HiGHS found, and the bound that it proved."""
    import highspy

    status, info = solver.getModelStatus(), solver.getInfo()
    is_optimal = status == highspy.HighsModelStatus.kOptimal
    if not program.is_whole:
        return Answer((), float(info.objective_function_value) if is_optimal else inf)
    bound = float(info.mip_dual_bound)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Answer((), bound)
    values = list(solver.getSolution().col_value)
    chosen, first = [], 0
    for choice in program.choices:
        own = values[first : first + len(choice.options)]
        chosen.append(max(range(len(own)), key=own.__getitem__))
        first += len(own)
    gap = 0.0 if is_optimal else max(0.0, bound - float(info.objective_function_value))
    return Answer(tuple(chosen), bound, gap)


def _known(program: Program) -> "highspy.HighsSolution":
    """Return the answer that is known to fit."""
    import highspy

    solution = highspy.HighsSolution()
    solution.col_value = [
        float(option == choice.known)
        for choice in program.choices
        for option in range(len(choice.options))
    ]
    return solution


def _model(program: Program) -> "highspy.HighsLp":
    """Return rows for the room of each server, and for each choice.

    Room is counted in whole CPUs and GB.
    """
    import highspy
    import numpy as np

    choices, servers = program.choices, len(program.room)
    of_options = 2 * servers
    starts, index, value, costs, most = [0], list[int](), list[float](), list[float](), []
    for number, choice in enumerate(choices):
        for place, option in enumerate(choice.options):
            cpus, memory = option.per_gpu.cpus_milli, option.per_gpu.memory_mb
            for server, gpus in choice.gpus:
                index += (2 * server, 2 * server + 1)
                value += (cpus * gpus * _MILLI, memory * gpus * _MILLI)
            index.append(of_options + number)
            value.append(1.0)
            starts.append(len(index))
            costs.append(option.speed + (_LIKED if place == choice.liked else 0.0))
            most.append(float(choice.count))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(costs), of_options + len(choices)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = (
        np.array(costs),
        np.zeros(len(costs)),
        np.array(most),
    )
    if program.is_whole:
        lp.integrality_ = [highspy.HighsVarType.kInteger] * len(costs)
    counts = [float(choice.count) for choice in choices]
    room = [part * _MILLI for each in program.room for part in (each.cpus_milli, each.memory_mb)]
    lp.row_lower_ = np.array([-np.inf] * of_options + counts)
    lp.row_upper_ = np.array(room + counts)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.array(starts)
    lp.a_matrix_.index_, lp.a_matrix_.value_ = np.array(index), np.array(value)
    return lp
