"""The Program: a neural network as a fixed schedule of ops over tensors, in struct-of-arrays form."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplace_env.errors import WorkloadError

if TYPE_CHECKING:
    import networkx as nx

Ints = NDArray[np.int64]

GEOMETRY = (
    "batch", "ifm_x", "ifm_y", "ifm_z", "ofm_x", "ofm_y", "ofm_z",
    "groups", "kernel_x", "kernel_y", "stride", "pad", "dilation", "stride_y",
)  # fmt: skip
"""Columns of `Program.geometry`: width (x), height (y) and channels (z) of an op's main feature maps
and its convolution parameters, stride, pad and dilation along x; 0 where an op has none, 1 for groups, strides and
dilation."""

FLOAT_BYTES = {"int8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
"""Bytes of one element for each dtype that a workload can be deployed in."""


class TensorKind(IntEnum):
    WEIGHT = 0
    INPUT = 1
    ACTIVATION = 2
    OUTPUT = 3


@dataclass(frozen=True, eq=False)
class Program:
    """T ops over K tensors with U uses. Immutable: every array is read-only; equal programs have equal `sha256`.

    A use is one (op, tensor) read or write. Op t owns the uses `use_ptr[t]:use_ptr[t + 1]`: first its distinct
    operands, then its results.

    Attributes:
        name: what the workload is called.
        dtype: dtype that floating-point tensors are deployed in, a key of `FLOAT_BYTES`.
        tensor_bytes: int64[K], bytes, at least 1.
        tensor_kind: int8[K], values of `TensorKind`.
        tensor_name: K names.
        producer: int64[K], the op that makes the tensor; -1 for weights and inputs.
        op_type: T operator names (the main operator of a fused op).
        op_name: T names.
        macs: int64[T], multiply-accumulates on the matrix unit, the product of the columns of `gemm`.
        gemm: int64[T, 4], the op as `count` matrix products of [rows, depth] x [depth, columns]; zeros if none.
        vector_ops: int64[T], element operations on the vector unit.
        geometry: int64[T, 14], columns `GEOMETRY`.
        use_ptr: int64[T + 1].
        use_tensor: int64[U].
        use_is_result: bool[U].
        use_bytes: int64[U], bytes that the use moves: all of the tensor, or the rows that a gather selects.

    Raises:
        WorkloadError: if the arrays contradict each other.
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

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        problem = _first_inconsistency(self)
        if problem:
            raise WorkloadError(f"Program {self.name!r}: {problem}.")

    @property
    def num_ops(self) -> int:
        """T."""
        return len(self.op_type)

    @property
    def num_tensors(self) -> int:
        """K."""
        return len(self.tensor_bytes)

    @property
    def num_uses(self) -> int:
        """U."""
        return len(self.use_tensor)

    @cached_property
    def macs(self) -> Ints:
        """int64[T], multiply-accumulates of each op."""
        return _frozen(self.gemm.prod(axis=1))

    @cached_property
    def use_op(self) -> Ints:
        """int64[U], the op of each use."""
        return _frozen(np.repeat(np.arange(self.num_ops), np.diff(self.use_ptr)))

    @cached_property
    def live_start(self) -> Ints:
        """int64[K], first op that touches the tensor."""
        start = np.full(self.num_tensors, self.num_ops, dtype=np.int64)
        np.minimum.at(start, self.use_tensor, self.use_op)
        return _frozen(start)

    @cached_property
    def live_end(self) -> Ints:
        """int64[K], last op that touches the tensor; T-1 for graph outputs."""
        end = np.full(self.num_tensors, -1, dtype=np.int64)
        np.maximum.at(end, self.use_tensor, self.use_op)
        end[self.tensor_kind == TensorKind.OUTPUT] = self.num_ops - 1
        return _frozen(end)

    @cached_property
    def live_bytes(self) -> Ints:
        """int64[T], bytes of the activations and outputs alive during each op (weights and inputs not counted)."""
        made = self.producer >= 0
        delta = np.zeros(self.num_ops + 1, dtype=np.int64)
        np.add.at(delta, self.live_start[made], self.tensor_bytes[made])
        np.add.at(delta, self.live_end[made] + 1, -self.tensor_bytes[made])
        return _frozen(np.cumsum(delta)[:-1])

    @cached_property
    def footprint(self) -> int:
        """Bytes of all weights and inputs, and of the most activations and outputs that are alive at once."""
        constant = self.bytes_of(TensorKind.WEIGHT) + self.bytes_of(TensorKind.INPUT)
        return constant + int(self.live_bytes.max())

    @cached_property
    def is_placeable(self) -> NDArray[np.bool_]:
        """bool[K], weights and inner results; graph inputs and outputs live in the backing memory."""
        placeable = np.isin(self.tensor_kind, (TensorKind.WEIGHT, TensorKind.ACTIVATION))
        placeable.flags.writeable = False
        return placeable

    @cached_property
    def first_use(self) -> Ints:
        """int64[K], number of the first use of each tensor."""
        first = np.full(self.num_tensors, self.num_uses)
        np.minimum.at(first, self.use_tensor, np.arange(self.num_uses))
        return _frozen(first)

    @cached_property
    def last_use(self) -> Ints:
        """int64[K], number of the last use of each tensor."""
        last = np.zeros(self.num_tensors, dtype=np.int64)
        np.maximum.at(last, self.use_tensor, np.arange(self.num_uses))
        return _frozen(last)

    @cached_property
    def edges(self) -> Ints:
        """int64[2, E], the distinct (producing op, consuming op) pairs, ordered by consumer, then producer."""
        source = self.producer[self.use_tensor]
        reads = ~self.use_is_result & (source >= 0)
        pairs = np.stack([self.use_op[reads], source[reads]])
        return _frozen(np.unique(pairs, axis=1)[::-1].copy())

    @cached_property
    def sha256(self) -> str:
        """Hex digest of everything a plan or a latency depends on; names take no part."""
        digest = hashlib.sha256(f"memplace-program-2 {self.dtype} {' '.join(self.op_type)}".encode())
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                digest.update(f"{field.name}{value.shape}".encode())
                digest.update(value.astype("<i8").tobytes())
        return digest.hexdigest()

    def bytes_of(self, kind: TensorKind) -> int:
        """Total bytes of all tensors of one kind."""
        return int(self.tensor_bytes[self.tensor_kind == kind].sum())

    def results(self, op: int) -> Ints:
        """Tensors that op makes."""
        uses = slice(self.use_ptr[op], self.use_ptr[op + 1])
        return self.use_tensor[uses][self.use_is_result[uses]]

    def operands(self, op: int) -> Ints:
        """Distinct tensors that op reads."""
        uses = slice(self.use_ptr[op], self.use_ptr[op + 1])
        return self.use_tensor[uses][~self.use_is_result[uses]]

    def to_networkx(self) -> nx.DiGraph[int]:
        """The op graph: node t with `op_type`, `name`, `macs`; an edge for each tensor flow with its `bytes`."""
        import networkx as nx

        graph: nx.DiGraph[int] = nx.DiGraph(name=self.name)
        for op in range(self.num_ops):
            graph.add_node(op, op_type=self.op_type[op], name=self.op_name[op], macs=int(self.macs[op]))
        for op in range(self.num_ops):
            for tensor in self.operands(op):
                if (source := int(self.producer[tensor])) >= 0:
                    known = graph.get_edge_data(source, op, {"bytes": 0})["bytes"]
                    graph.add_edge(source, op, bytes=known + int(self.tensor_bytes[tensor]))
        return graph

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is made anew, so that its arrays are read-only too; kernels know them by that."""
        return Program, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        return f"Program({self.name!r}, dtype={self.dtype!r}, ops={self.num_ops}, tensors={self.num_tensors})"


def _frozen(array: Ints) -> Ints:
    array.flags.writeable = False
    return array


def _first_inconsistency(program: Program) -> str | None:
    """What is wrong with the arrays, as the end of a sentence, or None."""
    ops, tensors, uses = program.num_ops, program.num_tensors, program.num_uses
    lengths: Sequence[tuple[str, int, int]] = (
        ("tensor_kind", len(program.tensor_kind), tensors),
        ("tensor_name", len(program.tensor_name), tensors),
        ("producer", len(program.producer), tensors),
        ("op_name", len(program.op_name), ops),
        ("gemm", len(program.gemm), ops),
        ("vector_ops", len(program.vector_ops), ops),
        ("geometry", len(program.geometry), ops),
        ("use_ptr", len(program.use_ptr), ops + 1),
        ("use_is_result", len(program.use_is_result), uses),
        ("use_bytes", len(program.use_bytes), uses),
    )
    for name, have, want in lengths:
        if have != want:
            return f"{name} has {have} entries where {want} are due"
    if ops == 0:
        return "it has no op that does any work, so there is nothing to place"
    if program.dtype not in FLOAT_BYTES:
        return f"dtype {program.dtype!r} is none of {', '.join(FLOAT_BYTES)}"
    if (program.tensor_bytes < 1).any():
        return "a tensor has no bytes"
    if program.use_ptr[0] != 0 or program.use_ptr[-1] != uses or (np.diff(program.use_ptr) < 0).any():
        return "use_ptr does not run from 0 to the number of uses"
    if uses and not (0 <= program.use_tensor.min() and program.use_tensor.max() < tensors):
        return "a use names a tensor that does not exist"
    if len(np.unique(program.use_op * tensors + program.use_tensor)) != uses:
        return "an op lists a tensor twice"
    if (program.live_end < 0).any():
        return "a tensor is touched by no op"
    if (program.use_bytes < 1).any() or (program.use_bytes > program.tensor_bytes[program.use_tensor]).any():
        return "a use moves no bytes or more than its tensor has"
    made = np.full(tensors, -1, dtype=np.int64)
    made[program.use_tensor[program.use_is_result]] = program.use_op[program.use_is_result]
    if (made != program.producer).any() or program.use_is_result.sum() != (made >= 0).sum():
        return "producer and the result uses disagree"
    if (made[program.use_tensor] > program.use_op).any():
        return "an op reads a tensor before it is made"
    constant = np.isin(program.tensor_kind, (TensorKind.WEIGHT, TensorKind.INPUT))
    if ((made < 0) != constant).any():
        return "exactly the weights and inputs must have no producer"
    return None
