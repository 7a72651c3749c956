"""`Program`: a neural network as a fixed schedule of ops over tensors, in struct-of-arrays form."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.threads import cached_property
from memplace_env.program.consistency import first_inconsistency
from memplace_env.program.model_file import clean
from memplace_env.program.program_arrays import FLOAT_BYTES, GEOMETRY, Ints, ProgramArrays, Slices, TensorKind, frozen
from memplace_env.program.program_file import read_program, write_program

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["FLOAT_BYTES", "GEOMETRY", "Ints", "Program", "TensorKind"]


@dataclass(frozen=True, eq=False)
class Program(ProgramArrays):
    """T ops over K tensors with U uses. Immutable: every array is read-only; equal programs have equal `sha256`.

    A use is one (op, tensor) read or write. Op t owns the uses `use_ptr[t]:use_ptr[t + 1]`: first its distinct
    operands, then its results. Names have gone through `names.clean`, so they are safe to show; two may be equal.

    The arrays and their shapes are the attributes of `ProgramArrays`.

    Raises:
        WorkloadError: if the arrays contradict each other.
    """

    slices: Slices | None = None
    """Tensors of another Program that these are slices of; None: none is a slice."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", clean(self.name))
        for field in ("op_type", "op_name", "tensor_name"):
            object.__setattr__(self, field, tuple(map(clean, getattr(self, field))))
        if len(self.alias_of) == 0:
            object.__setattr__(self, "alias_of", np.full(self.num_tensors, -1, dtype=np.int64))
        if len(self.tensor_rows) == 0:
            object.__setattr__(self, "tensor_rows", np.ones((self.num_tensors, 2), dtype=np.int64))
        if len(self.use_halo) == 0:
            object.__setattr__(self, "use_halo", np.zeros(self.num_uses, dtype=np.int64))
        for array in self._arrays().values():
            frozen(array)
        violation = first_inconsistency(self)
        if violation:
            raise WorkloadError(f"Program {self.name!r}: {violation}.")

    @cached_property
    def live_bytes(self) -> Ints:
        """int64[T], bytes of the activations and outputs alive during each op, without weights and inputs.

        An output that takes another tensor's place needs none of its own; every other result has bytes of its own.
        """
        return frozen(self.alive(self.tensor_bytes))

    def alive(self, tensor_bytes: Ints) -> Ints:
        """Return `live_bytes` if tensors had such bytes, int64[K]."""
        own = (self.producer >= 0) & (self.alias_of < 0)
        # Bytes that each op adds to those alive; summed up, the bytes alive.
        delta = np.zeros(self.num_ops + 1, dtype=np.int64)
        np.add.at(delta, self.live_start[own], tensor_bytes[own])
        np.add.at(delta, self.live_end[own] + 1, -tensor_bytes[own])
        return np.cumsum(delta)[:-1]

    @cached_property
    def live_bytes_in_place(self) -> Ints:
        """int64[T], the same with as many results in place as `inplace` allows."""
        saved = np.zeros(self.num_ops, dtype=np.int64)
        taken = set[int]()
        for operand, result, op in self.handovers.tolist():
            if taken.isdisjoint((operand, ~result)):
                taken.update((operand, ~result))
                saved[op] += self.tensor_bytes[operand]
        return frozen(self.live_bytes - saved)

    @cached_property
    def footprint(self) -> int:
        """Bytes of all weights and inputs plus the largest sum of activations and outputs alive at once."""
        constant = self.bytes_of(TensorKind.WEIGHT) + self.bytes_of(TensorKind.INPUT)
        return constant + int(self.live_bytes.max())

    @cached_property
    def is_placeable(self) -> NDArray[np.bool_]:
        """bool[K], weights and inner results; graph inputs and outputs live in the backing memory."""
        return frozen(np.isin(self.tensor_kind, (TensorKind.WEIGHT, TensorKind.ACTIVATION)))

    @cached_property
    def first_use(self) -> Ints:
        """int64[K], index of the first use of each tensor."""
        first = np.full(self.num_tensors, self.num_uses)
        np.minimum.at(first, self.use_tensor, np.arange(self.num_uses))
        return frozen(first)

    @cached_property
    def last_use(self) -> Ints:
        """int64[K], index of the last use of each tensor."""
        last = np.zeros(self.num_tensors, dtype=np.int64)
        np.maximum.at(last, self.use_tensor, np.arange(self.num_uses))
        return frozen(last)

    @cached_property
    def edges(self) -> Ints:
        """int64[2, E], the distinct (producing op, consuming op) pairs, ordered by consumer, then producer."""
        source = self.producer[self.use_tensor]
        reads = ~self.use_is_result & (source >= 0)
        pairs = np.stack([self.use_op[reads], source[reads]])
        return frozen(np.unique(pairs, axis=1)[::-1].copy())

    @cached_property
    def sha256(self) -> str:
        """Hex digest of everything that a plan or a latency depends on; names are not part of it."""
        digest = hashlib.sha256(f"memplace-program-2 {self.dtype} {' '.join(self.op_type)}".encode())
        for name, array in self._arrays().items():
            # Without any alias or pair these arrays hold no information and are left out. Nothing depends on rows until
            # cut.
            if name not in ("tensor_rows", "use_halo") and (name not in ("alias_of", "inplace") or (array >= 0).any()):
                digest.update(f"{name}{array.shape}".encode())
                digest.update(array.astype("<i8").tobytes())
        if self.alignment > 1:
            digest.update(f"alignment {self.alignment}".encode())
        if self.slices is not None:
            digest.update(f"slices {self.whole.sha256}".encode())
            digest.update(self.slices.rows.astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def whole(self) -> Program:
        """The Program whose tensors these are slices of; itself if none is a slice."""
        return self if self.slices is None else cast(Program, self.slices.whole)

    @property
    def whole_tensor(self) -> Ints:
        """int64[K], number of the tensor of `whole` that each tensor is a slice of, or is."""
        return np.arange(self.num_tensors) if self.slices is None else self.slices.slice_of

    def bytes_of(self, kind: TensorKind) -> int:
        """Return the total bytes of all tensors of one kind."""
        return int(self.tensor_bytes[self.tensor_kind == kind].sum())

    def results(self, op: int) -> Ints:
        """Return the tensors that an op writes."""
        uses = slice(self.use_ptr[op], self.use_ptr[op + 1])
        return self.use_tensor[uses][self.use_is_result[uses]]

    def operands(self, op: int) -> Ints:
        """Return the distinct tensors that an op reads."""
        uses = slice(self.use_ptr[op], self.use_ptr[op + 1])
        return self.use_tensor[uses][~self.use_is_result[uses]]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program with its names to a `.program` file; `program/program_file.py` describes the format.

        Raises:
            WorkloadError: the path does not end in `.program`, or cannot be written.
        """
        write_program(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Program:
        """Read the program that `save` wrote.

        Raises:
            WorkloadError: the file is missing, no saved Program, or damaged.
        """
        return read_program(path, Program)

    def to_networkx(self) -> nx.DiGraph[int]:
        """Return the op graph: node t with `op_type`, `name`, `macs`; edges with the `bytes` that flow along them."""
        import networkx as nx

        graph: nx.DiGraph[int] = nx.DiGraph(name=self.name)
        for op in range(self.num_ops):
            graph.add_node(op, op_type=self.op_type[op], name=self.op_name[op], macs=int(self.macs[op]))
        for op in range(self.num_ops):
            for tensor in self.operands(op):
                if (source := int(self.producer[tensor])) >= 0:
                    before = graph.get_edge_data(source, op, {"bytes": 0})["bytes"]
                    graph.add_edge(source, op, bytes=before + int(self.tensor_bytes[tensor]))
        return graph

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and unpickle through the constructor, which makes the arrays read-only, as compiled kernels expect."""
        return Program, tuple(getattr(self, field.name) for field in fields(self))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields that are arrays, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def __repr__(self) -> str:
        return f"Program({self.name!r}, dtype={self.dtype!r}, ops={self.num_ops}, tensors={self.num_tensors})"
