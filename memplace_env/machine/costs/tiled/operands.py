"""Bytes of the operands of each op by their roles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.machine.costs.cost_arrays import LIMIT_PS
from memplace_env.machine.costs.tiled.nest import Role
from memplace_env.program.program import Ints, Program


def operand_bytes(program: Program, role: NDArray[np.int8], which: Role) -> Ints:
    """Return int64[T], bytes that each op's uses in this role move."""
    total = np.zeros(program.num_ops, dtype=np.int64)
    np.add.at(total, program.use_op, np.where(role == which, program.use_bytes, 0))
    return total


def read_again(program: Program, role: NDArray[np.int8], inputs: Ints, weights: Ints) -> Ints:
    """Return int64[U], bytes that each use moves if inputs and weights are read so often, all else once.

    Args:
        program: the program.
        role: int8[U], see `Nests`.
        inputs, weights: integers[T], how often each op reads them, at least 1.
    """
    times = np.ones(program.num_uses, dtype=object)
    for which, often in ((Role.INPUT, inputs), (Role.WEIGHTS, weights)):
        times[role == which] = often[program.use_op[role == which]]
    moved = np.minimum(program.use_bytes * times, LIMIT_PS)  # no memory moves a byte in less than a picosecond
    return np.asarray(moved, dtype=np.int64)
