"""HiGHS by its Python interface: arrays in, arrays out, one thread, no model file, the same answer every time."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from models.arrays import Floats, Int32s

if TYPE_CHECKING:
    import highspy

TOLERANCE = 1e-9
"""By how much a row, whose largest coefficient is about 1, may be missed."""

VALUE_TOLERANCE = 1e-6
"""Values that differ by less, as a share, are the same."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    """What is to be minimised: costs (c,) of columns from 0 to upper, (c,), in rows of at most ``limits``, (r,); the
    columns' entries are values, (e,), in rows index, (e,), those of column i from start[i] on to start[i + 1]."""

    costs: Floats
    upper: Floats
    limits: Floats
    start: Int32s
    index: Int32s
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ProgramSolution:
    """A solution of the columns, (c,), its value, the rows' prices, (r,), at least 0, where all columns are continuous,
    and what no solution is below."""

    columns: Floats
    value: float
    prices: Floats
    bound: float


def minimize(
    problem: LinearProgram,
    whole: int = 0,
    *,
    start: Floats | None = None,
    target: float = -np.inf,
    gap: float = 0.0,
    nodes: int | None = None,
    time_limit_s: float = np.inf,
    presolve: bool = True,
) -> tuple[ProgramSolution | None, bool]:
    """Solve it; the first ``whole`` columns are whole numbers.

    start: (c,) a solution to begin with. target: a value that is good enough. gap: how far from the best it may be.
    nodes: of the search, at most. presolve: whether columns that follow from others may be taken out first. Gives what
    was found, if anything was, and whether it is certain that there is nothing.
    """
    if not len(problem.costs):  # HiGHS solves no empty model
        possible = bool(np.all(problem.limits >= -TOLERANCE))
        return (
            ProgramSolution(np.empty(0), 0.0, np.zeros(len(problem.limits)), 0.0) if possible else None
        ), not possible
    import highspy
    from highspy._core import _Highs

    highs = _Highs()  # the public class writes to standard output before it can be told not to
    for option, value in {
        "output_flag": False,
        "threads": 1,
        "primal_feasibility_tolerance": TOLERANCE,
        "mip_feasibility_tolerance": TOLERANCE,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": gap,
        "objective_target": target,
        "mip_max_nodes": highspy.kHighsIInf if nodes is None else nodes,
        "time_limit": time_limit_s,
        "presolve": "choose" if presolve else "off",
    }.items():
        highs.setOptionValue(option, value)
    highs.passModel(_model(problem, whole))
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        highs.setSolution(solution)
    highs.run()
    status, info = highs.getModelStatus(), highs.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None, True
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None, False
    solution = highs.getSolution()
    value = float(info.objective_function_value)
    if start is not None and abs(float(problem.costs @ np.array(solution.col_value)) - value) > VALUE_TOLERANCE * (
        1 + abs(value)
    ):
        # HiGHS 1.16 may take a start for another solution once presolve has turned columns round.
        again = partial(minimize, gap=gap, nodes=nodes, time_limit_s=time_limit_s, presolve=presolve)
        return again(problem, whole, target=target)
    prices = -np.array(solution.row_dual) if not whole else np.zeros(len(problem.limits))
    bound = float(info.mip_dual_bound) if whole else value
    columns = np.array(solution.col_value)
    return ProgramSolution(columns, value, np.maximum(prices, 0.0), bound), False


def _model(problem: LinearProgram, whole: int) -> "highspy.HighsLp":
    import highspy

    model, columns = highspy.HighsLp(), len(problem.costs)
    model.num_col_, model.num_row_ = columns, len(problem.limits)
    model.col_cost_, model.col_lower_, model.col_upper_ = problem.costs, np.zeros(columns), problem.upper
    model.row_lower_, model.row_upper_ = np.full(len(problem.limits), -np.inf), problem.limits
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_ = problem.start, problem.index
    model.a_matrix_.value_ = problem.values
    if whole:
        kinds = highspy.HighsVarType
        model.integrality_ = [kinds.kInteger] * whole + [kinds.kContinuous] * (columns - whole)
    return model
