"""Dual values of long programs by block dual ascent: the linear program of one window of ops after the other.

Duals of all rows prove a bound (`highs.dual_bound`). With the duals of all other rows held, the best duals of a
window's rows are those of a linear program with these rows and their columns alone, which cost what the other duals
have left of them. So the bound rises from window to window, in a time that grows with the length of the program. Where
windows are too short to see what is lost elsewhere, it ends below that of the whole program; a window as long as the
program is the program.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.detail import WeighedRow
from memplace_agents.exact.dynamic.dynamic_model import DynamicModel
from memplace_agents.exact.highs import (
    ROUNDING,
    Floats,
    LinearProgram,
    MipResult,
    OnBound,
    dual_bound,
    relax,
    uninterrupted,
)
from memplace_env.program.program import Ints

SPAN = 40
"""Number of ops in a window of the first sweep; windows overlap by half. Our choice."""
SETTLED = 1e-4
"""Relative difference of bound and answer below which longer windows are of no use. Our choice."""


class DualAscent:
    """Sweeps over programs of one task that differ in `Detail.weighed` only; each starts from the duals before it.

    Args:
        span: number of ops in a window of the first sweep.

    Attributes:
        settled: True once the windows' answers, put together, take as long as the bound says. They may violate rows, so
            that the bound of the whole program may still be higher.
    """

    def __init__(self, span: int = SPAN) -> None:
        self.settled = False
        self._span = span
        self._duals: Floats = np.zeros(0)
        self._weighed = dict[WeighedRow, int]()

    def sweep(self, model: DynamicModel, clock: Clock | None = None, on_bound: OnBound | None = None) -> MipResult:
        """Solve all windows in turn; while not settled, those of the next sweep are twice as long.

        Args:
            model: the program.
            clock: ends the sweep.
            on_bound: see `highs.relax`.

        Returns:
            Bound and duals; as values, those of each window's middle. No values if the time ran out.

        Raises:
            KeyboardInterrupt: if the solver is interrupted.
        """
        program, ops = model.program, model.task.program.num_ops + 1
        # The op of a row is the last one of its columns.
        matrix = program.matrix
        of_terms = sp.csr_array((model.op[matrix.indices], matrix.indices, matrix.indptr), matrix.shape)
        row_op = of_terms.max(axis=1).toarray().ravel()
        duals, values = self._carried(model), np.zeros(len(program.cost))
        left = program.cost - matrix.T @ duals
        complete, step = True, max(self._span // 2, 1)
        for first in range(0, max(ops - step, 1), step):
            rows = np.flatnonzero((row_op >= first) & (row_op < first + self._span))
            columns, window = _window(program, rows, left, duals)
            answer = uninterrupted(relax(window, clock=clock, on_bound=on_bound))
            if answer.duals is not None and dual_bound(window, answer.duals) > dual_bound(window, duals[rows]):
                duals[rows] = answer.duals
                left[columns] = window.cost - window.matrix.T @ answer.duals
            if answer.values is None:  # the time is up
                complete = False
                break
            middle = (model.op[columns] >= first + step // 2) | (first == 0)
            values[columns[middle]] = answer.values[middle]
        self._duals, self._weighed = duals, dict(model.weighed)
        bound = max(dual_bound(program, duals), 0.0) * (1 - ROUNDING)
        if complete:
            taken = float(program.cost @ values)
            self.settled = abs(taken - bound) <= SETTLED * bound or self._span >= ops
            self._span *= 1 if self.settled else 2
        return MipResult(values if complete else None, bound, duals=duals)

    def _carried(self, model: DynamicModel) -> Floats:
        """Return the duals of the last sweep in the program's order of rows; new rows have none."""
        duals = np.zeros(len(model.program.row_lower))
        common = np.ones(len(duals), dtype=np.bool_)
        common[list(model.weighed.values())] = False
        if len(self._duals):
            duals[common] = np.delete(self._duals, list(self._weighed.values()))
            for key, row in self._weighed.items():
                duals[model.weighed[key]] = self._duals[row]
        return duals


def _window(program: LinearProgram, rows: Ints, left: Floats, duals: Floats) -> tuple[Ints, LinearProgram]:
    """Return the columns of these rows and the program of both; what other rows' duals leave is the columns' cost."""
    part = program.matrix[rows]
    columns, index = np.unique(part.indices, return_inverse=True)
    matrix = sp.csr_array((part.data, index, part.indptr), (len(rows), len(columns)))
    return columns.astype(np.int64), LinearProgram(
        left[columns] + matrix.T @ duals[rows],
        program.lower[columns],
        program.upper[columns],
        program.integrality[columns],
        matrix,
        program.row_lower[rows],
        program.row_upper[rows],
    )
