"""The best mapping by the linear program."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from agents.exact.highs import Floats, LinearProgram, Watch, solve
from agents.exact.static.model import Model, Rows, stack
from memplace_env.workload.program import Ints


class Best(NamedTuple):
    """What the solver found.

    Attributes:
        level: int64[K], the best mapping, or None if it found none in time.
        bound_ps: no mapping that obeys the rows is faster.
        interrupted: see `highs.Answer`.
    """

    level: Ints | None
    bound_ps: int
    interrupted: bool


def solve_model(model: Model, cuts: list[Rows], gap: float, seconds: float | None, tell: Watch | None = None) -> Best:
    """Minimise within a relative gap and a time limit; `tell` is told the bound in ps."""
    rows = stack([model.rows, *cuts])
    endless = np.full(len(rows.lower), np.inf)
    program = LinearProgram(model.cost, model.lower, model.upper, model.binary, rows.matrix, rows.lower, endless)

    def watch(bound: float) -> None:
        if tell is not None:
            tell(bound * model.unit_ps + model.overhead_ps)

    answer = solve(program, gap=gap, seconds=seconds, watch=watch)
    level = None if answer.values is None else _levels(model, answer.values)
    return Best(level, ceil(answer.bound * model.unit_ps) + model.overhead_ps, answer.interrupted)


def _levels(model: Model, values: Floats) -> Ints:
    """int64[K]; what has no column is in the backing memory."""
    backing = model.column.shape[1]
    chosen = (model.column >= 0) & (values[model.column] > 0.5)
    level: Ints = np.where(chosen.any(axis=1), chosen.argmax(axis=1), backing)
    return level
