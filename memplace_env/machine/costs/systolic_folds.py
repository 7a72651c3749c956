"""Cycles that systolic arrays take: closed forms of SCALE-Sim (Samajdar et al., 2018), which it agrees with exactly.

A product of [pixels, depth] x [depth, channels] is cut into folds that fill the array of rows x columns once each.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from memplace_env._lib.units import ceil_div
from memplace_env.machine.accelerator import Systolic
from memplace_env.program.program import Ints


def fill_cycles(rows: int, columns: int) -> int:
    """Return 2R + C - 2, the cycles of a weight-stationary fold to load weights, fill the array and drain it."""
    return 2 * rows + columns - 2


def exposed_fill(unit: Systolic) -> int:
    """Return the cycles of a weight-stationary fold beside those for its pixels: 0 where the fill is hidden."""
    return 0 if unit.fill == "hidden" else fill_cycles(unit.rows, unit.columns)


def fold_count(gemm: Ints, unit: Systolic) -> Ints:
    """Return object[T], exact: weight-stationary folds of each op, ceil(K/R) ceil(N/C) for each of its products.

    Args:
        gemm: int64[T, 4], see `Program.gemm`.
        unit: the array.
    """
    count, _, depth, columns = gemm.astype(object).T
    return np.asarray(count * ceil_div(depth, unit.rows) * ceil_div(columns, unit.columns))


def scale_sim_cycles(
    product: tuple[int, int, int], array: tuple[int, int], dataflow: Literal["weights", "outputs"]
) -> int:
    """Return the cycles of SCALE-Sim without memory stalls, each fold's fill and drain exposed.

    Args:
        product: pixels, depth, channels.
        array: rows, columns.
        dataflow: the operand that stays in the array while the rest streams past it.
    """
    pixels, depth, channels = product
    rows, columns = array
    if dataflow == "weights":
        folds, cycles = ceil_div(depth, rows) * ceil_div(channels, columns), pixels + fill_cycles(rows, columns)
    else:
        folds, cycles = ceil_div(pixels, rows) * ceil_div(channels, columns), depth + rows + columns - 2
    return folds * cycles - 1
