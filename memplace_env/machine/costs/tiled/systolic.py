"""Tiling on systolic arrays whose operands pass through a local memory: TPUs.

Weights stay in an array of R x C while pixels stream past. A fold fills the array once; where the next fold's weights
are loaded meanwhile, which takes a cycle per row, it takes no less than R cycles. Arrays take whole folds, or pieces of
folds with fewer pixels each, whichever ends first.

Operands that the local memory cannot hold are read again: half of it keeps a slice of one operand, the other half
streams the rest (our choice, double buffers and results among them). Either slices of the weights stay and all inputs
pass once for each, or slices of the inputs stay and all weights pass; the order that moves fewer bytes is taken. More
local memory makes fewer slices, so it never costs more.

Our choices: what is no product is as in the roofline; a depthwise convolution is one product of a single column per
channel. Left out: rows that windows share at the edges of slices, partial sums that leave the local memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from memplace_env._lib.errors import CostError
from memplace_env._lib.units import PS_PER_S, ceil_div
from memplace_env.machine.accelerator import Accelerator, Systolic
from memplace_env.machine.accelerator.tiling_description import LocalMemory
from memplace_env.machine.costs.roofline import ceil_ratio, exposed_fill, fold_count
from memplace_env.machine.costs.tiled.nest import Role, nests, operand_bytes, read_again
from memplace_env.machine.costs.tiled.tiling_form import Tiling
from memplace_env.program.program import Ints, Program


class Reads(NamedTuple):
    """Number of times that each op reads its operands.

    Attributes:
        inputs, weights: object[T], integers of at least 1, of which one is 1.
    """

    inputs: Ints
    weights: Ints


def tile_systolic(program: Program, accelerator: Accelerator) -> Iterable[Tiling]:
    """Yield the one tiling of the arrays.

    Raises:
        CostError: if the chip describes no systolic array.
    """
    unit, local = accelerator.systolic, accelerator.tiling
    assert isinstance(local, LocalMemory)
    if unit is None:
        raise CostError(
            f"Accelerator {accelerator.name!r} tiles for systolic arrays and describes none: add a table "
            "[compute.systolic] to its file."
        )
    role = nests(program).role
    inputs, weights = (operand_bytes(program, role, which) for which in (Role.INPUT, Role.WEIGHTS))
    reads = fewest_reads(inputs, weights, np.maximum(1, program.gemm[:, 0]), local.local_bytes)
    yield Tiling(
        compute_ps=ceil_ratio(array_cycles(program.gemm, unit), PS_PER_S, unit.clock_hz),
        moved_bytes=read_again(program, role, reads.inputs, reads.weights),
        run_bytes=np.maximum(1, program.use_bytes),
        reserved_bytes=np.zeros(program.num_ops, dtype=np.int64),
    )


def array_cycles(gemm: Ints, unit: Systolic) -> Ints:
    """Return object[T], exact: cycles until the last array is done.

    Folds are taken whole, cut so that every array has a piece, or cut into one piece per array, whichever is best.

    Args:
        gemm: int64[T, 4], see `Program.gemm`.
        unit: the arrays.
    """
    folds, pixels = fold_count(gemm, unit), gemm[:, 1].astype(object)
    least = unit.rows if unit.fill == "hidden" else 1

    def cycles(pieces: Ints | int) -> Ints:
        per_piece = np.maximum(ceil_div(pixels, pieces), least) + exposed_fill(unit)
        return np.asarray(ceil_div(folds * pieces, unit.arrays) * per_piece)

    just_enough = ceil_div(unit.arrays, np.maximum(1, folds))
    return np.minimum(np.minimum(cycles(1), cycles(just_enough)), cycles(unit.arrays))


def fewest_reads(inputs: Ints, weights: Ints, count: Ints, local_bytes: int) -> Reads:
    """Return how often operands are read in the better of the two orders; weights stay where both move the same.

    Args:
        inputs, weights: int64[T], bytes of each op's operands.
        count: int64[T], independent products that they are shared out to, at least 1.
        local_bytes: bytes of the local memory, half of which holds a slice.
    """
    kept = max(1, local_bytes // 2)
    # As object: a product of two numbers of bytes may leave int64.
    of_weights, of_inputs = (
        np.maximum(1, ceil_div(operand, count.astype(object) * kept)) for operand in (weights, inputs)
    )
    weights_stay = inputs * (of_weights - 1) <= weights * (of_inputs - 1)
    return Reads(inputs=np.where(weights_stay, of_weights, 1), weights=np.where(weights_stay, 1, of_inputs))
