"""Linear programs, and HiGHS on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Thread
from typing import NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Watch = Callable[[float], None]
"""Told the best bound so far, in units of the program."""

Option = bool | int | float | str

LATENCY = 1e4
"""Latency with everything in the backing memory, in the units of our programs: far above the solver's tolerances."""
CAPACITY = 1e3
"""What a level holds, in the units of the rows about room."""
BOUND_MARGIN = 1e-6
"""Share by which the bound of branch and bound is lowered before it counts as proven: far above what the solver's
tolerances (1e-6 of a unit) and rounding add."""
ROUNDING = 1e-9
"""Share by which a bound by weak duality is lowered: what is left is the rounding of its sums."""
LOOK = 0.1
"""Seconds between two looks at a running solver."""


@dataclass(frozen=True)
class LinearProgram:
    """Minimise `cost @ columns` with `row_lower <= matrix @ columns <= row_upper`; C columns, R rows.

    Attributes:
        cost, lower, upper: float64[C], with the bounds of each column.
        binary: bool[C], columns that are 0 or 1.
        matrix: sparse [R, C].
        row_lower, row_upper: float64[R].
    """

    cost: Floats
    lower: Floats
    upper: Floats
    binary: NDArray[np.bool_]
    matrix: sp.csr_array
    row_lower: Floats
    row_upper: Floats


def heard(answer: Answer) -> Answer:
    """The answer, unless somebody interrupted the solver.

    Raises:
        KeyboardInterrupt: if somebody did.
    """
    if answer.interrupted:
        raise KeyboardInterrupt
    return answer


class Answer(NamedTuple):
    """What the solver found.

    Attributes:
        values: float64[C], the best solution; None if there is none.
        bound: no solution is below; 0 if nothing is known. Costs are never negative where this is asked for.
        interrupted: whether somebody pressed Ctrl-C meanwhile; what was found until then is kept.
    """

    values: Floats | None
    bound: float
    interrupted: bool = False


def solve(
    program: LinearProgram,
    *,
    gap: float = 0.0,
    seconds: float | None = None,
    start: Floats | None = None,
    watch: Watch | None = None,
) -> Answer:
    """Minimise with whole binaries, on one core.

    Args:
        program: what to minimise.
        gap: relative gap at which to stop.
        seconds: time to spend at most.
        start: float64[C], a solution to begin with.
        watch: called every now and then; a KeyboardInterrupt from it, as one from outside, ends the search.
    """
    solver = _solver(program, {"mip_rel_gap": gap, "mip_abs_gap": 0.0}, seconds)
    whole = np.flatnonzero(program.binary).astype(np.int32)
    solver.changeColsIntegrality(len(whole), whole, np.full(len(whole), highspy.HighsVarType.kInteger))
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        solver.setSolution(solution)
    interrupted = _run(solver, seconds, watch)
    info = solver.getInfo()
    bound = info.mip_dual_bound if len(whole) else info.objective_function_value
    return Answer(_values(solver), max(bound, 0.0) * (1 - BOUND_MARGIN) if np.isfinite(bound) else 0.0, interrupted)


def relax(
    program: LinearProgram, *, seconds: float | None = None, watch: Watch | None = None, interior: bool = False
) -> Answer:
    """Minimise with shares of binaries, on one core. The bound is `dual_bound`.

    Args:
        program, seconds, watch: as for `solve`.
        interior: by the interior-point method without crossover: for bounds of large programs. Else by the simplex
            method, whose answers have few shares.
    """
    options = {"solver": "ipm", "run_crossover": "off"} if interior else {"solver": "simplex"}
    solver = _solver(program, options, seconds)
    interrupted = _run(solver, seconds, watch)
    solution = solver.getSolution()
    bound = dual_bound(program, np.array(solution.row_dual)) if solution.dual_valid else 0.0
    return Answer(_values(solver), max(bound, 0.0) * (1 - ROUNDING), interrupted)


def dual_bound(program: LinearProgram, price: Floats) -> float:
    """What no solution of the relaxed program is below, by prices float64[R] of its rows: weak duality.

    Any prices prove something, so that no tolerance of a solver enters; those of an optimum prove the optimum. Columns
    need two finite bounds for that.
    """
    side = np.where(price > 0, program.row_lower, program.row_upper)
    price, side = np.where(np.isfinite(side), price, 0.0), np.where(np.isfinite(side), side, 0.0)
    left = program.cost - program.matrix.T @ price
    column = np.where(left > 0, program.lower, np.where(left < 0, program.upper, 0.0))
    return float(price @ side + left @ column)


def _solver(program: LinearProgram, options: Mapping[str, Option], seconds: float | None) -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    settings: dict[str, Option] = {"output_flag": False, "threads": 1, **options}
    if seconds is not None:
        settings["time_limit"] = max(seconds, LOOK)
    for name, value in settings.items():
        solver.setOptionValue(name, value)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.cost), len(program.row_lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = program.matrix.indptr, program.matrix.indices
    lp.a_matrix_.value_ = program.matrix.data
    solver.passModel(lp)
    return solver


def _values(solver: highspy.Highs) -> Floats | None:
    found = solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return np.array(solver.getSolution().col_value) if found else None


def _run(solver: highspy.Highs, seconds: float | None, watch: Watch | None) -> bool:
    """Run to the end in another thread, so that Ctrl-C is heard; returns whether it was.

    The solver looks at its time limit now and then only, so it is told when the time is up.
    """
    begin = time.perf_counter()
    bound = [0.0]

    def log(event: highspy.HighsCallbackEvent) -> None:
        bound[0] = event.data_out.mip_dual_bound

    solver.HandleUserInterrupt = True
    solver.cbMipLogging += log
    thread = Thread(target=solver.run, daemon=True)
    interrupted = False
    thread.start()
    while thread.is_alive():
        try:
            thread.join(LOOK)
            if seconds is not None and time.perf_counter() - begin > seconds:
                solver.cancelSolve()  # type: ignore[no-untyped-call]
            if watch is not None and not interrupted:
                watch(bound[0])
        except KeyboardInterrupt:
            interrupted = True
            solver.cancelSolve()  # type: ignore[no-untyped-call]
        except BaseException:
            solver.cancelSolve()  # type: ignore[no-untyped-call]
            thread.join()
            raise
    return interrupted
