"""Wrapper of the HiGHS solver: arrays in and out, one thread, no model file, deterministic."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from models.arrays import Floats, Int32s

if TYPE_CHECKING:
    import highspy
    from highspy._core import _Highs

TOLERANCE = 1e-9
"""Feasibility tolerance of a row whose largest coefficient is about 1."""

VALUE_TOLERANCE = 1e-6
"""Relative tolerance of equal values."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    """A linear or integer program to minimize, in compressed column format.

    Attributes:
        costs: (c,), of the columns.
        upper: (c,), upper bounds; lower bounds are 0.
        limits: (r,), upper bounds of the rows.
        start: (c + 1,), where each column begins in ``index`` and ``values``.
        index: (e,), rows of the entries.
        values: (e,), the entries.
    """

    costs: Floats
    upper: Floats
    limits: Floats
    start: Int32s
    index: Int32s
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ProgramSolution:
    """A solution of a program.

    Attributes:
        columns: (c,), values of the variables.
        value: objective of these values.
        prices: (r,), dual prices of the rows, at least 0; zeros for integer programs.
        bound: lower bound of the objective.
    """

    columns: Floats
    value: float
    prices: Floats
    bound: float


def minimize(
    problem: LinearProgram,
    integer_columns: int = 0,
    *,
    start: Floats | None = None,
    target: float = -np.inf,
    gap: float = 0.0,
    nodes: int | None = None,
    time_limit_s: float = np.inf,
    presolve: bool = True,
) -> tuple[ProgramSolution | None, bool]:
    """Solve a program; the first ``integer_columns`` columns are integers.

    Args:
        start: (c,), an initial solution.
        target: objective at which the search may stop.
        gap: absolute optimality gap.
        nodes: maximum number of search nodes.
        presolve: whether HiGHS may reduce the program first.
    Returns:
        The solution, if any, and whether infeasibility is proved.
    """
    if not len(problem.costs):  # HiGHS rejects empty models
        possible = bool(np.all(problem.limits >= -TOLERANCE))
        return (
            ProgramSolution(np.empty(0), 0.0, np.zeros(len(problem.limits)), 0.0) if possible else None
        ), not possible
    import highspy

    highs = _open_solver(
        {
            "mip_abs_gap": gap,
            "objective_target": target,
            "mip_max_nodes": highspy.kHighsIInf if nodes is None else nodes,
            "time_limit": time_limit_s,
            "presolve": "choose" if presolve else "off",
        }
    )
    highs.passModel(_make_model(problem, integer_columns))
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
        # HiGHS 1.16 may misread the start after presolve has reordered columns.
        again = partial(minimize, gap=gap, nodes=nodes, time_limit_s=time_limit_s, presolve=presolve)
        return again(problem, integer_columns, target=target)
    prices = -np.array(solution.row_dual) if not integer_columns else np.zeros(len(problem.limits))
    bound = float(info.mip_dual_bound) if integer_columns else value
    columns = np.array(solution.col_value)
    return ProgramSolution(columns, value, np.maximum(prices, 0.0), bound), False


def _open_solver(options: dict[str, Any]) -> "_Highs":
    """Return a silent HiGHS solver with one thread."""
    from highspy._core import _Highs

    highs = _Highs()  # the public class writes to stdout before the option is set
    fixed = {
        "output_flag": False,
        "threads": 1,
        "primal_feasibility_tolerance": TOLERANCE,
        "mip_feasibility_tolerance": TOLERANCE,
        "mip_rel_gap": 0.0,
    }
    for option, value in (fixed | options).items():
        highs.setOptionValue(option, value)
    return highs


def _make_model(problem: LinearProgram, whole: int) -> "highspy.HighsLp":
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
