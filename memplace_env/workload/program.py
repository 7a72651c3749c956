"""The Program: a neural network as a fixed schedule of ops over tensors, in struct-of-arrays form."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplace_env.errors import WorkloadError
from memplace_env.threads import cached_property
from memplace_env.workload.consistency import first_inconsistency
from memplace_env.workload.names import clean
from memplace_env.workload.terms import FLOAT_BYTES, GEOMETRY, TensorKind

if TYPE_CHECKING:
    import networkx as nx

Ints = NDArray[np.int64]

__all__ = ["FLOAT_BYTES", "GEOMETRY", "Ints", "Program", "TensorKind"]


@dataclass(frozen=True, eq=False)
class Program:
    """T ops over K tensors with U uses. Immutable: every array is read-only; equal programs have equal `sha256`.

    A use is one (op, tensor) read or write. Op t owns the uses `use_ptr[t]:use_ptr[t + 1]`: first its distinct
    operands, then its results. Names are as `names.clean` leaves them, safe to show anywhere; two may be the same.

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
        use_bytes: int64[U], bytes that the use moves: all of the tensor, the rows that a gather selects, or what an
            update writes into the place of a tensor that is there already.
        alias_of: int64[K], for an output that takes the place of a weight or input of its size that no later op reads,
            as an updated parameter does, that tensor; -1 for all others. Left out, no tensor takes another's place.
        op_nodes: for each op the names of the nodes that it covers, as the model's file has them, views left out; empty
            for a Program that comes from no model file, or from a saved one.
        tensor_value: K names of the values that the tensors are in the model's file; empty as `op_nodes`.

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
    alias_of: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    op_nodes: tuple[tuple[str, ...], ...] = ()
    tensor_value: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", clean(self.name))
        for each in ("op_type", "op_name", "tensor_name"):
            object.__setattr__(self, each, tuple(map(clean, getattr(self, each))))
        if len(self.alias_of) == 0:
            object.__setattr__(self, "alias_of", np.full(self.num_tensors, -1, dtype=np.int64))
        for array in self._arrays().values():
            array.flags.writeable = False
        problem = first_inconsistency(self)
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
        """int64[T], bytes of the activations and outputs alive during each op (weights and inputs not counted).

        An output that takes another tensor's place needs none of its own.
        """
        made = (self.producer >= 0) & (self.alias_of < 0)
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
        for name, array in self._arrays().items():
            if name != "alias_of" or (array >= 0).any():
                digest.update(f"{name}{array.shape}".encode())
                digest.update(array.astype("<i8").tobytes())
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program, names and all, to a `.program` file; `workload/program_file.py` says how it is made up.

        Raises:
            WorkloadError: the path does not end in `.program`, or cannot be written.
        """
        from memplace_env.workload.program_file import write_program

        write_program(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Program:
        """The program that `save` wrote.

        Raises:
            WorkloadError: the file is not there, no saved Program, or damaged in any way.
        """
        from memplace_env.workload.program_file import read_program

        return read_program(path)

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
        return Program, tuple(getattr(self, each.name) for each in fields(self))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The fields that are arrays, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def __repr__(self) -> str:
        return f"Program({self.name!r}, dtype={self.dtype!r}, ops={self.num_ops}, tensors={self.num_tensors})"


def _frozen(array: Ints) -> Ints:
    array.flags.writeable = False
    return array
