"""Linear programs, and the solver HiGHS for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from threading import Thread
from typing import NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from memplace_agents.exact.clock import Clock

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
OnBound = Callable[[float], None]
"""Called every now and then with the best bound so far, in the units of the program or in ps as the function says."""

Option = bool | int | float | str

LATENCY = 1e4
"""Latency with everything in the backing memory, in units of the objective: far above the solver's tolerances."""
CAPACITY = 1e3
"""Capacity of a level in units of the capacity rows."""
BOUND_MARGIN = 1e-6
"""Fraction by which the bound of branch and bound is lowered before it counts as proven: far above the effect of the
solver's tolerances (1e-6 of a unit) and of rounding."""
ROUNDING = 1e-9
"""Fraction by which a bound by weak duality is lowered, for the rounding of its sums."""
FEASIBLE = 1e-6
"""Largest value that counts as 0: above the solver's tolerance for constraints, 1e-7."""
FINEST = 1e-9
"""Tolerance of constraints, in units, if `tight_tolerance`: thousandths of a picosecond. HiGHS allows 1e-10."""
MOST_ITERATIONS = 2**31 - 1
"""Most iterations that HiGHS can be told."""
POLL_SECONDS = 0.1
"""Seconds between two checks of a running solver."""
ENTRY_S, ITERATION_S, STEP_S = 5e-6, 2e-4, 1e-9
"""Seconds of branch and bound for each entry of the matrix and for each iteration, and of the linear program for each
iteration and entry: fitted by eye to 200 programs of nine games; some take three times as long."""
INTERIOR_STEPS = 500
"""Iterations of the simplex method that take as long as one of the interior-point method; measured roughly."""
CHECK_S, NODE_SHARE = 7e-6, 0.05
"""Seconds between two checks of branch and bound for each entry of the matrix, and the fraction of it between those
after the first node; fitted likewise."""


@dataclass(frozen=True)
class LinearProgram:
    """The program: minimise `cost @ columns + offset` with `row_lower <= matrix @ columns <= row_upper`.

    C columns, R rows.

    Attributes:
        cost, lower, upper: float64[C], objective and bounds of each column.
        integrality: bool[C], columns that are integers.
        matrix: sparse [R, C].
        row_lower, row_upper: float64[R].
        offset: constant part of the objective; gaps are relative to the whole.
    """

    cost: Floats
    lower: Floats
    upper: Floats
    integrality: Bools
    matrix: sp.csr_array
    row_lower: Floats
    row_upper: Floats
    offset: float = 0.0

    def holds(self, values: Floats) -> bool:
        """Return whether these values of the columns, float64[C], keep all rows, but for `FEASIBLE` of a unit."""
        activity = self.matrix @ values
        kept = (activity >= self.row_lower - FEASIBLE) & (activity <= self.row_upper + FEASIBLE)
        return bool(kept.all())

    def without_fixed(self) -> tuple[LinearProgram, Bools, Bools]:
        """Return the program of the columns that are not fixed and of the rows that have any.

        The solver drops fixed columns, too, but takes long to read them.

        Returns:
            The program; bool[C], its columns; bool[R], its rows. The program itself if fewer than half of its columns
            are fixed, or all, or if those that are violate a row by themselves.
        """
        free = self.lower != self.upper
        everything = self, np.ones(len(free), dtype=np.bool_), np.ones(len(self.row_lower), dtype=np.bool_)
        if not 0 < 2 * free.sum() <= len(free):
            return everything
        fixed = np.where(free, 0.0, self.lower)
        matrix, fixed_activity = sp.csr_array(self.matrix[:, free]), self.matrix @ fixed
        rows = np.diff(matrix.indptr) > 0
        lower, upper = self.row_lower - fixed_activity, self.row_upper - fixed_activity
        if (lower[~rows] > FEASIBLE).any() or (upper[~rows] < -FEASIBLE).any():
            return everything
        program = LinearProgram(
            self.cost[free],
            self.lower[free],
            self.upper[free],
            self.integrality[free],
            matrix[rows],
            lower[rows],
            upper[rows],
            self.offset + float(self.cost @ fixed),
        )
        return program, free, rows

    def with_row(self, terms: Floats, upper: float) -> LinearProgram:
        """Return the program with the constraint `terms @ columns <= upper`, float64[C], beside its own."""
        return replace(
            self,
            matrix=sp.csr_array(sp.vstack([self.matrix, sp.csr_array(-terms[None])])),
            row_lower=np.append(self.row_lower, -upper),
            row_upper=np.append(self.row_upper, np.inf),
        )


def uninterrupted(result: MipResult) -> MipResult:
    """Return the result.

    Raises:
        KeyboardInterrupt: if the solver was interrupted.
    """
    if result.interrupted:
        raise KeyboardInterrupt
    return result


class MipResult(NamedTuple):
    """Result of a solver.

    Attributes:
        values: float64[C], the best solution; None if there is none.
        bound: lower bound of the objective; 0 if nothing is proven, as our costs are never negative.
        interrupted: True if an interrupt (Ctrl-C) ended the search; the solution is the best until then.
        duals: float64[R], dual values of the rows that prove the bound of a relaxed program; None if there are none.
    """

    values: Floats | None
    bound: float
    interrupted: bool = False
    duals: Floats | None = None


class _Work:
    """Event handler that ends branch and bound after so many checks, so much work by its own estimate, or an answer to
    a question, see `solve`."""

    def __init__(self, program: LinearProgram, checks: int | None, work: float, question: float) -> None:
        free = program.lower < program.upper
        self._check_s = CHECK_S * int(free[program.matrix.indices].sum())
        self._checks, self._work, self._question = checks, work, question
        self._asked, self._spent = 0, 0.0

    def __call__(self, event: highspy.HighsCallbackEvent) -> None:
        """Count a check."""
        self._asked += 1
        self._spent += self._check_s * (NODE_SHARE if event.data_out.mip_node_count > 0 else 1)
        data, question = event.data_out, self._question
        answered = data.mip_primal_bound < question or data.mip_dual_bound * (1 - BOUND_MARGIN) > question
        if self._asked == self._checks or self._spent > self._work or answered:
            event.interrupt()


def solve(
    program: LinearProgram,
    *,
    gap: float = 0.0,
    clock: Clock | None = None,
    checks: int | None = None,
    start: Floats | None = None,
    on_bound: OnBound | None = None,
    tight_tolerance: bool = False,
    certify: bool = True,
    presolve: bool = True,
    question: float = np.nan,
) -> MipResult:
    """Minimise with integer binaries by branch and bound, on one core.

    Args:
        program: the program to minimise.
        gap: relative gap at which to stop.
        clock: ends the search once it is up; what was spent is counted there.
        checks: number of times that the solver asks whether to go on, of which the last ends the search: a finer limit
            of work than the clock's.
        start: float64[C], a solution to begin with; NaN where the solver is to complete it.
        on_bound: gets the bound in units of the program; a KeyboardInterrupt from it, as one from outside, ends the
            search.
        tight_tolerance: True for constraints that are kept to `FINEST`.
        certify: False where only the solution counts. HiGHS 1.15.1 may restart from its presolve and then call the
            start optimal where it is not, so that what begins with a start and is to prove something must not restart.
        presolve: False for the program as it stands: slower, but free of the faults of presolve.
        question: value of the objective; the search ends as soon as it is known whether a solution is below it. NaN to
            search on.
    """
    small, free, _ = program.without_fixed()
    options: dict[str, Option] = {"mip_rel_gap": gap, "mip_abs_gap": 0.0}
    if tight_tolerance:
        options |= {"mip_feasibility_tolerance": FINEST, "primal_feasibility_tolerance": FINEST}
    if start is not None and certify:
        options["mip_allow_restart"] = False
    if not presolve:
        options["presolve"] = "off"
    solver = _solver(small, options, clock)
    integers = np.flatnonzero(small.integrality).astype(np.int32)
    solver.changeColsIntegrality(len(integers), integers, np.full(len(integers), highspy.HighsVarType.kInteger))
    if start is not None:
        start = start[free]
        given = np.flatnonzero(np.isfinite(start)).astype(np.int32)
        solver.setSolution(len(given), given, start[given])
    work_left = np.inf if clock is None else clock.work_left
    if checks is not None or work_left < np.inf or question == question:
        solver.cbMipInterrupt += _Work(small, checks, work_left, question)
    interrupted = _run(solver, clock, on_bound)
    info = solver.getInfo()
    if clock is not None:
        clock.spend(ENTRY_S * small.matrix.nnz + ITERATION_S * max(info.simplex_iteration_count, 0))
    solved = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    bound = info.mip_dual_bound if len(integers) else info.objective_function_value if solved else 0.0
    proven = max(bound, 0.0) * (1 - BOUND_MARGIN) if certify and np.isfinite(bound) else 0.0
    return MipResult(_values(solver, program, free), proven, interrupted)


def find_below(program: LinearProgram, value: float, clock: Clock | None = None) -> bool | None:
    """Return whether the program has a solution below an objective; None if the time ends before that is known.

    It is asked without presolve: a second opinion on a bound that `solve` has proven with it.

    Args:
        program, clock: as for `solve`.
        value: in units of the program.

    Raises:
        KeyboardInterrupt: if the solver is interrupted.
    """
    answer = uninterrupted(solve(program, clock=clock, presolve=False, question=value))
    if answer.bound > value:
        return False
    if answer.values is None or not program.holds(answer.values):
        return None
    return True if float(program.cost @ answer.values) + program.offset < value else None


def relax(
    program: LinearProgram, *, clock: Clock | None = None, on_bound: OnBound | None = None, interior: bool = False
) -> MipResult:
    """Minimise with binaries relaxed to [0, 1], on one core. The bound is `dual_bound`.

    Args:
        program, clock, on_bound: as for `solve`.
        interior: True for the interior-point method without crossover, for bounds of large programs; False for the
            simplex method, in whose solutions few binaries are fractions.
    """
    small, free, rows = program.without_fixed()
    options: dict[str, Option] = {"solver": "ipm", "run_crossover": "off"} if interior else {"solver": "simplex"}
    step_s = (INTERIOR_STEPS if interior else 1) * STEP_S * max(small.matrix.nnz, 1)
    if clock is not None and clock.work_left < np.inf:
        limit = "ipm_iteration_limit" if interior else "simplex_iteration_limit"
        options[limit] = min(int(clock.work_left / step_s), MOST_ITERATIONS)
    solver = _solver(small, options, clock)
    interrupted = _run(solver, clock, on_bound)
    solution, info = solver.getSolution(), solver.getInfo()
    if clock is not None:
        clock.spend(step_s * max(info.ipm_iteration_count if interior else info.simplex_iteration_count, 0))
    duals = None
    if solution.dual_valid:
        duals = np.zeros(len(program.row_lower))
        duals[rows] = solution.row_dual
    bound = 0.0 if duals is None else max(dual_bound(program, duals), 0.0)
    return MipResult(_values(solver, program, free), bound * (1 - ROUNDING), interrupted, duals)


def dual_bound(program: LinearProgram, duals: Floats) -> float:
    """Return a lower bound of the relaxed program from dual values of its rows, float64[R], by weak duality.

    Any dual values prove some bound, so that no tolerance of a solver enters; those of an optimum prove the optimum.
    Columns need two finite bounds for that.
    """
    # For any solution x and duals y: cost @ x = y @ (A x) + (cost - A' y) @ x. The first term is at least y times the
    # lower side of each row where y > 0, its upper side where y < 0; the second at least the reduced cost times the
    # lower or upper bound of each column by the same rule. The dual of an infinite side is set to 0, which is as valid.
    side = np.where(duals > 0, program.row_lower, program.row_upper)
    duals, side = np.where(np.isfinite(side), duals, 0.0), np.where(np.isfinite(side), side, 0.0)
    left = program.cost - program.matrix.T @ duals
    column = np.where(left > 0, program.lower, np.where(left < 0, program.upper, 0.0))
    return float(duals @ side + left @ column) + program.offset


class QuietHighs(highspy.Highs):
    """HiGHS that writes nothing to standard output.

    HiGHS 1.16 prints a banner as soon as callbacks are set, which its constructor does: before a caller could turn
    output off.
    """

    def enableCallbacks(self) -> None:  # noqa: N802 (the name of highspy)
        """Set the callbacks, with output turned off before."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


@cache
def solver_name() -> str:
    """Return name and version of the solver, as records of proofs name it."""
    return f"HiGHS {QuietHighs().version()}"  # type: ignore[no-untyped-call]


def _solver(program: LinearProgram, options: Mapping[str, Option], clock: Clock | None) -> highspy.Highs:
    solver = QuietHighs()  # type: ignore[no-untyped-call]
    settings: dict[str, Option] = {"threads": 1, **options}
    if clock is not None:
        settings["time_limit"] = max(clock.seconds_left, POLL_SECONDS)
    for name, value in settings.items():
        solver.setOptionValue(name, value)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_, lp.offset_ = len(program.cost), len(program.row_lower), program.offset
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = program.matrix.indptr, program.matrix.indices
    lp.a_matrix_.value_ = program.matrix.data
    solver.passModel(lp)
    return solver


def _values(solver: highspy.Highs, program: LinearProgram, free: Bools) -> Floats | None:
    """Return the solution, with the columns that are fixed."""
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    values = program.lower.copy()
    values[free] = solver.getSolution().col_value
    return values


def _run(solver: highspy.Highs, clock: Clock | None, on_bound: OnBound | None) -> bool:
    """Run to the end in another thread, so that Ctrl-C takes effect; return whether the run was interrupted.

    The solver checks its time limit only now and then, so it is cancelled when the time is up.
    """
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
            thread.join(POLL_SECONDS)
            if clock is not None and clock.seconds_left == 0:
                solver.cancelSolve()  # type: ignore[no-untyped-call]
            if on_bound is not None and not interrupted:
                on_bound(bound[0])
        except KeyboardInterrupt:
            interrupted = True
            solver.cancelSolve()  # type: ignore[no-untyped-call]
        except BaseException:
            solver.cancelSolve()  # type: ignore[no-untyped-call]
            thread.join()
            raise
    return interrupted
