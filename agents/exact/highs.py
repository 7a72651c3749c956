"""Runs HiGHS on a model and reads its answer."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from agents.exact.model import Floats, Model, Rows, stack
from agents.exact.quiet import stdout_on_stderr
from memplace_env.workload.program import Ints

BOUND_MARGIN = 1e-6
"""Share by which HiGHS's dual bound is lowered: far above what its tolerances (1e-7 of a unit) and rounding add."""


class Answer(NamedTuple):
    """What HiGHS found.

    Attributes:
        level: int64[K], the best mapping, or None if it found none in time.
        bound_ps: no mapping that obeys the rows is faster.
    """

    level: Ints | None
    bound_ps: int


def solve_model(model: Model, cuts: list[Rows], gap: float, seconds: float | None) -> Answer:
    """Minimise within a relative gap and a time limit."""
    rows = stack([model.rows, *cuts])
    with stdout_on_stderr():
        result = milp(
            model.cost,
            integrality=model.binary.astype(int),
            bounds=Bounds(model.lower, model.upper),
            constraints=LinearConstraint(rows.matrix, rows.lower, np.inf),
            options={"mip_rel_gap": gap, "time_limit": np.inf if seconds is None else seconds},
        )
    dual = result.mip_dual_bound if model.binary.any() else result.fun
    bound = max(dual, 0.0) if dual is not None and np.isfinite(dual) else 0.0
    level = None if result.x is None else _levels(model, result.x)
    return Answer(level, ceil(bound * (1 - BOUND_MARGIN) * model.unit_ps) + model.overhead_ps)


def _levels(model: Model, values: Floats) -> Ints:
    """int64[K]; what has no column is in the backing memory."""
    backing = model.column.shape[1]
    chosen = (model.column >= 0) & (values[model.column] > 0.5)
    level: Ints = np.where(chosen.any(axis=1), chosen.argmax(axis=1), backing)
    return level
