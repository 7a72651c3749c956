"""The solver SCIP, which shares no code with HiGHS: asked whether a program has a solution below a cutoff."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memplace_agents.exact.highs import POLL_SECONDS, Floats, LinearProgram, relax, uninterrupted
from memplace_env._lib.errors import AgentError

if TYPE_CHECKING:
    from pyscipopt import Model

LEAST_SECONDS = 0.1
"""Least time limit of a question."""
MARGIN = 1e-7
"""Fraction above the cutoff at which SCIP's tree ends, as it searches nothing where that is the cutoff itself."""


class Reply(NamedTuple):
    """Reply to a question.

    Attributes:
        values: float64[C], a solution of at most the cutoff, checked by `relax`; None if none was found.
        infeasible: True if SCIP has proven that there is none.
        nodes, seconds: nodes of its tree, and its seconds of the processor.
    """

    values: Floats | None
    infeasible: bool
    nodes: int
    seconds: float


def package() -> Any:
    """Import the package of SCIP.

    Raises:
        AgentError: it is not installed.
    """
    try:
        import pyscipopt
    except ImportError:
        raise AgentError(
            'A second opinion needs SCIP, which is not installed; run: pip install "memplace[audit]".'
        ) from None
    return pyscipopt


def solver_name() -> str:
    """Return name and version of the solver, as records of proofs name it."""
    model = package().Model()
    return f"SCIP {model.getMajorVersion()}.{model.getMinorVersion()}.{model.getTechVersion()}"


def find_below(program: LinearProgram, cutoff: float, seconds: float) -> Reply:
    """Search for a solution whose objective is at most the cutoff, on one core.

    Args:
        program: the program.
        cutoff: in units of the program.
        seconds: most seconds of the processor.

    Raises:
        AgentError: SCIP is not installed.
        KeyboardInterrupt: if the search is interrupted.
    """
    model, columns = _model(program)
    limit = cutoff - program.offset
    model.setObjlimit(limit * (1 + MARGIN))
    # The time of the processor, so that a busy machine changes no answer; an interrupt is this process's to handle.
    model.setParams({"limits/primal": limit, "limits/time": max(seconds, LEAST_SECONDS)})
    model.setParams({"timing/clocktype": 1, "misc/catchctrlc": False})
    _run(model)
    best = model.getBestSol() if model.getNSols() else None
    work = int(model.getNTotalNodes()), float(model.getSolvingTime())
    if model.getStatus() == "infeasible" or (model.getStatus() == "optimal" and model.getDualbound() > limit):
        return Reply(None, True, *work)
    # At a time limit there may be a solution above the cutoff, and one below may be so only within SCIP's tolerances.
    values = None if best is None else np.array([model.getSolVal(best, column) for column in columns])
    return Reply(None if values is None else _checked(program, values, cutoff), False, *work)


def _checked(program: LinearProgram, values: Floats, cutoff: float) -> Floats | None:
    """Return a solution by HiGHS with the same whole numbers, at most at the cutoff; None if there is none."""
    whole = np.round(values)
    lower, upper = (np.where(program.whole, whole, side) for side in (program.lower, program.upper))
    again = uninterrupted(relax(replace(program, lower=lower, upper=upper))).values
    below = again is not None and program.cost @ again + program.offset <= cutoff
    return again if below else None


def _model(program: LinearProgram) -> tuple[Model, list[Any]]:
    """Return the program as SCIP's, and its columns."""
    scip = package()
    model = scip.Model()
    model.hideOutput()
    kinds = np.where(program.whole, "I", "C").tolist()
    sides = zip(program.lower.tolist(), program.upper.tolist(), kinds, program.cost.tolist(), strict=True)
    columns = [model.addVar(lb=lower, ub=upper, vtype=kind, obj=cost) for lower, upper, kind, cost in sides]
    matrix = program.matrix
    for row, (lower, upper) in enumerate(zip(program.row_lower.tolist(), program.row_upper.tolist(), strict=True)):
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        terms = zip(matrix.indices[part].tolist(), matrix.data[part].tolist(), strict=True)
        expression = scip.quicksum(value * columns[column] for column, value in terms)
        if np.isfinite(lower) or np.isfinite(upper):
            model.addCons(scip.scip.ExprCons(expression, *(s if np.isfinite(s) else None for s in (lower, upper))))
    return model, columns


def _run(model: Model) -> None:
    """Run to the end in another thread, so that Ctrl-C takes effect."""
    thread = Thread(target=model.optimizeNogil, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
    except BaseException:
        model.interruptSolve()
        thread.join()
        raise
