"""The best levels by the linear program."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from memplace_agents.exact.clock import Clock
from memplace_agents.exact.highs import Floats, LinearProgram, OnBound, solve
from memplace_agents.exact.proving_search import Claim
from memplace_agents.exact.static.cuts import Cut
from memplace_agents.exact.static.static_model import StaticModel
from memplace_env.program.program import Ints


class Best(NamedTuple):
    """Result of solving a `StaticModel`.

    Attributes:
        level: int64[K], the best levels, or None if none were found in time.
        claim: lower bound of the latency of all levels that obey the rows.
        interrupted: see `highs.MipResult`.
    """

    level: Ints | None
    claim: Claim
    interrupted: bool


def solve_model(
    model: StaticModel,
    cuts: list[Cut],
    gap: float,
    clock: Clock | None,
    on_bound: OnBound | None = None,
    presolve: bool = True,
) -> Best:
    """Minimise within a relative gap and the time of a clock; `on_bound` gets the bound in ps. See `highs.solve`."""

    def report_ps(bound: float) -> None:
        if on_bound is not None:
            on_bound(bound * model.unit_ps + model.overhead_ps)

    program = program_of(model, cuts)
    answer = solve(program, gap=gap, clock=clock, on_bound=report_ps, presolve=presolve)
    level = None if answer.values is None else levels_of(model, answer.values)
    return Best(level, Claim.of(program, answer.bound, model.unit_ps, model.overhead_ps), answer.interrupted)


def program_of(model: StaticModel, cuts: list[Cut]) -> LinearProgram:
    """Return the linear program of a model with cuts, which minimises the latency without overhead."""
    program, added = model.program, sum(len(cut.lower) for cut in cuts)
    return replace(
        program,
        matrix=sp.csr_array(sp.vstack([program.matrix, *(cut.matrix for cut in cuts)])),
        row_lower=np.concatenate([program.row_lower, *(cut.lower for cut in cuts)]),
        row_upper=np.append(program.row_upper, np.full(added, np.inf)),
    )


def levels_of(model: StaticModel, values: Floats) -> Ints:
    """Return the levels of a solution, int64[K]; tensors without a column are in the backing memory.

    Of tensors that are alike the first ones are in the fastest level.
    """
    backing = model.column.shape[1]
    held = np.where(model.column >= 0, np.round(values[model.column]), 0).cumsum(axis=1)
    chosen = held > model.alike.rank[:, None]
    level: Ints = np.where(chosen.any(axis=1), chosen.argmax(axis=1), backing)
    return level
