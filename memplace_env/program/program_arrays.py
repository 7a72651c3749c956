"""The terms and arrays of a Program, those of its slices, and the quantities derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.threads import cached_property

GEOMETRY = (
    "batch", "ifm_x", "ifm_y", "ifm_z", "ofm_x", "ofm_y", "ofm_z",
    "groups", "kernel_x", "kernel_y", "stride", "pad", "dilation", "stride_y",
)  # fmt: skip
"""Columns of `Program.geometry`: batch, width (x), height (y) and channels (z) of an op's main feature maps, and its
convolution parameters, with stride, pad and dilation along x; 0 where an op has none, 1 for groups, strides and
dilation."""

FLOAT_BYTES = {"int8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
"""Bytes of one element for each dtype that a workload can be deployed in."""


class TensorKind(IntEnum):
    """Role of a tensor in its program."""

    WEIGHT = 0
    INPUT = 1
    ACTIVATION = 2
    OUTPUT = 3


@dataclass(frozen=True, eq=False)
class Slices:
    """The tensors that a sliced Program's tensors are slices of. K and U are those of the sliced Program.

    Attributes:
        whole: the Program that was cut.
        slice_of: int64[K], number of the whole tensor; its slices follow each other.
        rows: int64[K, 2], first row of the slice and the one behind its last, of the `tensor_rows` of the whole.
        use_of: int64[U], number of the whole tensor's use.
        use_rows: int64[U, 2], the rows that the use moves: those of its slice, and its halo behind them.
    """

    whole: ProgramArrays
    slice_of: Ints
    rows: Ints
    use_of: Ints
    use_rows: Ints

    def of_uses(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the shares int64[U, ...] of what each use of the whole has, int64[uses of the whole, ...]."""
        tensor = self.whole.use_tensor[self.use_of]
        return _shares(amounts[self.use_of], self.use_rows, self.whole.tensor_rows[tensor, 1])

    def of_tensors(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the shares int64[K, ...] of what each tensor of the whole has, int64[tensors of the whole, ...]."""
        return _shares(amounts[self.slice_of], self.rows, self.whole.tensor_rows[self.slice_of, 1])


def _shares(amounts: NDArray[np.int64], ranges: Ints, rows: Ints) -> NDArray[np.int64]:
    """Return x * end // rows - x * begin // rows, so that shares of ranges that meet add up exactly."""
    dims = (slice(None), *[None] * (amounts.ndim - 1))
    first, last, rows = ranges[:, 0][dims], ranges[:, 1][dims], rows[dims]
    # Quotient and remainder apart, as the product of an amount and a row may leave int64.
    quotient, rest = amounts // rows, amounts % rows
    return np.asarray(quotient * (last - first) + rest * last // rows - rest * first // rows)


Ints = NDArray[np.int64]
AnyArray = TypeVar("AnyArray", bound=NDArray[Any])

ARRAY_DIMS: Final[Mapping[str, tuple[str | int, ...]]] = {
    "tensor_bytes": ("tensors",),
    "tensor_kind": ("tensors",),
    "producer": ("tensors",),
    "gemm": ("ops", 4),
    "vector_ops": ("ops",),
    "geometry": ("ops", len(GEOMETRY)),
    "use_ptr": ("ends",),
    "use_tensor": ("uses",),
    "use_is_result": ("uses",),
    "use_bytes": ("uses",),
    "alias_of": ("tensors",),
    "tensor_rows": ("tensors", 2),
    "use_halo": ("uses",),
    "inplace": ("pairs", 2),
}
"""Dims of each array of a Program; `ends` is the number of ops plus one, `pairs` of results that may lie in place."""


@dataclass(frozen=True, eq=False)
class ProgramArrays:
    """T ops over K tensors with U uses, unchecked; users build a `Program`.

    Attributes:
        name: name of the workload.
        dtype: dtype that floating-point tensors are deployed in, a key of `FLOAT_BYTES`.
        tensor_bytes: int64[K], bytes, at least 1.
        tensor_kind: int8[K], values of `TensorKind`.
        tensor_name: K names.
        producer: int64[K], the op that writes the tensor; -1 for weights and inputs.
        op_type: T operator names (the main operator of a fused op).
        op_name: T names.
        macs: int64[T], multiply-accumulates on the matrix unit, the product of the columns of `gemm`.
        gemm: int64[T, 4], the op as `count` matrix products of [rows, depth] x [depth, columns]; zeros without any.
        vector_ops: int64[T], element operations on the vector unit.
        geometry: int64[T, 14], columns `GEOMETRY`.
        use_ptr: int64[T + 1], op t owns the uses from `use_ptr[t]` up to `use_ptr[t + 1]`.
        use_tensor: int64[U], the tensor of each use.
        use_is_result: bool[U], whether the use writes the tensor.
        use_bytes: int64[U], bytes that the use moves: the whole tensor, the rows that a gather selects, or the part
            that an update in place overwrites.
        alias_of: int64[K], for an output that overwrites a weight or input of the same size that no later op reads
            (as an updated parameter does) that tensor; -1 for all others. Without it no tensor overwrites another.
        tensor_rows: int64[K, 2], each tensor as [blocks, rows, elements of a row], blocks and rows: its writers and
            readers treat its rows independently, so that a part of them can be in another memory. A tensor of one row
            stays whole.
        use_halo: int64[U], rows that the use moves twice for each cut between rows, as windows reach over it.
        inplace: int64[I, 2], pairs (use of an operand, use of a result) of one op, which may write the result over the
            operand where no later op reads that. Both are inner results of the same bytes, moved whole.
        op_nodes: for each op the names of the nodes in the model's file that it covers, without views; empty for a
            Program that comes from no model file, or from a saved one.
        tensor_value: K names of the tensors' values in the model's file; empty where `op_nodes` is.
        alignment: bytes that all `tensor_bytes`, and offsets of blocks, are multiples of, see `blocks.aligned`.
    """

    name: str
    dtype: str
    tensor_bytes: Ints
    tensor_kind: NDArray[np.int8]
    tensor_name: tuple[str, ...]
    producer: Ints
    op_type: tuple[str, ...]
    op_name: tuple[str, ...]
    gemm: Ints
    vector_ops: Ints
    geometry: Ints
    use_ptr: Ints
    use_tensor: Ints
    use_is_result: NDArray[np.bool_]
    use_bytes: Ints
    alias_of: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    tensor_rows: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    use_halo: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    inplace: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    op_nodes: tuple[tuple[str, ...], ...] = ()
    tensor_value: tuple[str, ...] = ()
    alignment: int = 1

    @property
    def num_ops(self) -> int:
        """Number of ops, T."""
        return len(self.op_type)

    @property
    def num_tensors(self) -> int:
        """Number of tensors, K."""
        return len(self.tensor_bytes)

    @property
    def num_uses(self) -> int:
        """Number of uses, U."""
        return len(self.use_tensor)

    @cached_property
    def macs(self) -> Ints:
        """int64[T], multiply-accumulates of each op."""
        return frozen(self.gemm.prod(axis=1))

    @cached_property
    def use_op(self) -> Ints:
        """int64[U], the op of each use."""
        return frozen(np.repeat(np.arange(self.num_ops), np.diff(self.use_ptr)))

    @cached_property
    def handovers(self) -> Ints:
        """int64[H, 3], (operand, result, op) of the pairs of `inplace` whose operand no later op reads, by op."""
        use, result = self.inplace.T
        pairs = np.stack([self.use_tensor[use], self.use_tensor[result], self.use_op[use]], 1)
        return frozen(pairs[self.live_end[pairs[:, 0]] == pairs[:, 2]])

    @cached_property
    def live_start(self) -> Ints:
        """int64[K], first op that touches the tensor."""
        start = np.full(self.num_tensors, self.num_ops, dtype=np.int64)
        np.minimum.at(start, self.use_tensor, self.use_op)
        return frozen(start)

    @cached_property
    def live_end(self) -> Ints:
        """int64[K], last op that touches the tensor; T-1 for graph outputs."""
        end = np.full(self.num_tensors, -1, dtype=np.int64)
        np.maximum.at(end, self.use_tensor, self.use_op)
        end[self.tensor_kind == TensorKind.OUTPUT] = self.num_ops - 1
        return frozen(end)


def frozen(array: AnyArray) -> AnyArray:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array
