"""The loop nest of each op, and the roles of its operands and their bytes, from the arrays of a Program."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.machine.costs.cost_arrays import LIMIT_PS
from memplace_env.program.program import GEOMETRY, Ints, Program, TensorKind


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


COLUMN = {name: index for index, name in enumerate(GEOMETRY)}

MEANS = frozenset({"ReduceMean", "ReduceSum", "GlobalAveragePool"})
TABLES = frozenset(
    "Celu Clip Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu Log Mish Reciprocal Relu Selu Sigmoid Softplus "
    "Softsign Sqrt Swish Tanh ThresholdedRelu".split()
)
"""Functions of one element, which 8-bit units look up."""


class Kind(IntEnum):
    """Kinds of inner loops of an op.

    PRODUCT multiplies matrices, windows of feature maps among them; DEPTHWISE convolves each channel with filters of
    its own; MEAN adds up each channel; POOL slides a window; TABLE looks up single elements; ELEMENTWISE is all else.
    """

    PRODUCT = 0
    DEPTHWISE = 1
    MEAN = 2
    POOL = 3
    TABLE = 4
    ELEMENTWISE = 5


class Role(IntEnum):
    """Roles of a tensor for the op that uses it.

    INPUT is streamed past the WEIGHTS; both may be activations. OTHER are operands added or read beside them: biases,
    residuals, second operands, tables.
    """

    INPUT = 0
    WEIGHTS = 1
    OTHER = 2
    RESULT = 3


class Nests(NamedTuple):
    """`repeats` loop nests per op, each from an input of `channels` to a result of height x width x depth.

    A product without a window has a result of height 1 and as many columns as the matrix has rows.

    Attributes:
        kind: int8[T], values of `Kind`.
        repeats, height, width, depth, channels: int64[T], at least 1. Images of a batch are stacked in height.
        kernel_y, kernel_x, stride_y, stride_x: int64[T], at least 1; the window of a mean is the whole map.
        input_height, input_width: int64[T], at least 1.
        role: int8[U], values of `Role`.
    """

    kind: NDArray[np.int8]
    repeats: Ints
    height: Ints
    width: Ints
    depth: Ints
    channels: Ints
    kernel_y: Ints
    kernel_x: Ints
    stride_y: Ints
    stride_x: Ints
    input_height: Ints
    input_width: Ints
    role: NDArray[np.int8]


def nests(program: Program) -> Nests:
    """Return the loop nests of all ops."""
    rows = np.array([_nest(program, op) for op in range(program.num_ops)], dtype=np.int64)
    columns = (np.maximum(1, column) for column in rows[:, 1:].T)
    return Nests(*(rows[:, 0].astype(np.int8), *columns, _roles(program)))


def _nest(program: Program, op: int) -> tuple[int, ...]:
    shape = {name: int(program.geometry[op, index]) for name, index in COLUMN.items()}
    batch, kernel = max(1, shape["batch"]), (max(1, shape["kernel_y"]), max(1, shape["kernel_x"]))
    stride = shape["stride_y"], shape["stride"]
    window = kernel[0] * kernel[1]
    result = batch * max(1, shape["ofm_y"]), max(1, shape["ofm_x"])
    source = batch * max(1, shape["ifm_y"]), max(1, shape["ifm_x"])
    count, pixels, depth, columns = map(int, program.gemm[op])
    if count:
        if pixels != result[0] * result[1] or depth % window or count * columns != shape["ofm_z"]:
            return Kind.PRODUCT, count, 1, pixels, columns, depth, 1, 1, 1, 1, 1, pixels  # the window is not known
        if count > 1 and depth == window:
            return Kind.DEPTHWISE, 1, *result, count * columns, count * columns, *kernel, *stride, *source
        return Kind.PRODUCT, count, *result, columns, depth // window, *kernel, *stride, *source
    channels = max(1, shape["ofm_z"])
    if program.op_type[op] in MEANS and result == (batch, 1) and shape["ifm_z"] == shape["ofm_z"]:
        return Kind.MEAN, 1, batch, 1, channels, channels, max(1, shape["ifm_y"]), source[1], 1, 1, *source
    if shape["kernel_x"]:
        return Kind.POOL, 1, *result, channels, channels, *kernel, *stride, *source
    kind = Kind.TABLE if program.op_type[op] in TABLES else Kind.ELEMENTWISE
    return kind, 1, *result, channels, channels, 1, 1, 1, 1, *result


def _roles(program: Program) -> NDArray[np.int8]:
    """Return int8[U], the role of each use.

    A product's weights are its first constant that has a byte per weight, which a bias or a factor has not, else its
    second operand; its input is the first of the rest. Anything else has its first operand that is no constant as its
    input.
    """
    role = np.full(program.num_uses, Role.OTHER, dtype=np.int8)
    role[program.use_is_result] = Role.RESULT
    constant = program.tensor_kind[program.use_tensor] == TensorKind.WEIGHT
    multiplies, least = program.gemm[:, 0] > 0, program.gemm[:, 2] * program.gemm[:, 3]
    for op in range(program.num_ops):
        operands = [
            use for use in range(program.use_ptr[op], program.use_ptr[op + 1]) if not program.use_is_result[use]
        ]
        if multiplies[op] and operands:
            second = operands[min(1, len(operands) - 1)]
            weights = next((use for use in operands if constant[use] and program.use_bytes[use] >= least[op]), second)
            role[weights] = Role.WEIGHTS
            operands.remove(weights)
        streamed = sorted(operands, key=lambda use: bool(constant[use]))
        if streamed:
            role[streamed[0]] = Role.INPUT
    return role
