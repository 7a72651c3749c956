"""The solver SCIP, which shares no code with HiGHS: asked whether a program has a solution below a cutoff."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from memplace_agents.exact.highs import Floats, LinearProgram, relax, uninterrupted
from memplace_env._lib.errors import AgentError
from memplace_env._lib.lazy import required

MARGIN = 1e-7
"""Fraction above the cutoff at which SCIP's tree ends: it searches nothing where that is the cutoff itself."""


class Reply(NamedTuple):
    """Reply to a question.

    Attributes:
        values: float64[C], a solution at most at the cutoff, checked by HiGHS; None if none was found.
        infeasible: True if SCIP has proven that there is none.
        nodes, seconds: nodes of its tree, and its seconds of the processor.
    """

    values: Floats | None
    infeasible: bool
    nodes: int
    seconds: float


def new_model() -> Any:
    """Return an empty model of SCIP, which prints nothing.

    Raises:
        AgentError: if SCIP is not installed.
    """
    model = required("pyscipopt", "A second opinion needs", "SCIP", "audit", AgentError).Model()
    model.hideOutput()
    return model


def solver_name() -> str:
    """Return name and version of the solver, as records of proofs name it."""
    model = new_model()
    return f"SCIP {model.getMajorVersion()}.{model.getMinorVersion()}.{model.getTechVersion()}"


def find_below(program: LinearProgram, cutoff: float, seconds: float) -> Reply:
    """Search for a solution whose objective is at most the cutoff, in units of the program, on one core.

    It takes at most so many seconds of the processor: a busy machine changes no answer.
    """
    from pyscipopt.scip import ExprCons, quicksum

    model, matrix, limit = new_model(), program.matrix, cutoff - program.offset
    bounds = (program.lower.tolist(), program.upper.tolist(), program.cost.tolist())
    kinds = np.where(program.integrality, "I", "C").tolist()
    columns = [model.addVar("", kind, *sides) for kind, *sides in zip(kinds, *bounds, strict=True)]
    given = (program.row_lower.tolist(), program.row_upper.tolist())
    rows = [[side if np.isfinite(side) else None for side in sides] for sides in given]
    for row, sides in enumerate(zip(*rows, strict=True)):
        part = slice(*matrix.indptr[row : row + 2])
        terms = zip(matrix.indices[part].tolist(), matrix.data[part].tolist(), strict=True)
        model.addCons(ExprCons(quicksum(value * columns[column] for column, value in terms), *sides))
    model.setObjlimit(limit * (1 + MARGIN))
    model.setParams({"limits/primal": limit, "limits/time": seconds, "timing/clocktype": 1, "misc/catchctrlc": False})
    model.optimizeNogil()
    work = int(model.getNTotalNodes()), float(model.getSolvingTime())
    if model.getStatus() == "infeasible" or (model.getStatus() == "optimal" and model.getDualbound() > limit):
        return Reply(None, True, *work)
    if not model.getNSols():
        return Reply(None, False, *work)
    # At a time limit it may be above the cutoff, or below it only within SCIP's tolerances: HiGHS completes it again.
    best = model.getBestSol()
    rounded = np.round([model.getSolVal(best, column) for column in columns])
    lower, upper = (np.where(program.integrality, rounded, side) for side in (program.lower, program.upper))
    values = uninterrupted(relax(replace(program, lower=lower, upper=upper))).values
    below = values is not None and program.cost @ values + program.offset <= cutoff
    return Reply(values if below else None, False, *work)
