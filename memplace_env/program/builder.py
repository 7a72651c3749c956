"""`ProgramBuilder`: a Program op by op, for synthetic workloads and for graph formats of your own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.program import GEOMETRY, Program, TensorKind

GEOMETRY_DEFAULT = {"batch": 1, "groups": 1, "stride": 1, "dilation": 1, "stride_y": 1}
"""Columns of the geometry that are not 0 unless given."""


@dataclass
class ProgramBuilder:
    """Collect tensors and ops in schedule order; `build` checks and freezes them.

    Example:
        >>> b = ProgramBuilder("two-layers", dtype="int8")
        >>> x, w = b.tensor("x", 4096, TensorKind.INPUT), b.tensor("w", 65536, TensorKind.WEIGHT)
        >>> h, y = b.tensor("h", 4096), b.tensor("y", 16, TensorKind.OUTPUT)
        >>> b.op("Gemm", [x, w], [h], gemm=(1, 16, 256, 256))
        >>> b.op("ReduceMax", [h], [y], vector_ops=4096)
        >>> b.build()
        Program('two-layers', dtype='int8', ops=2, tensors=4)
    """

    name: str
    dtype: str
    _tensors: list[tuple[str, int, TensorKind]] = field(default_factory=list)
    _alias_of: list[int] = field(default_factory=list)
    _rows: list[tuple[int, int]] = field(default_factory=list)
    _producer: dict[int, int] = field(default_factory=dict)
    _ops: list[tuple[str, str]] = field(default_factory=list)
    _gemm: list[tuple[int, int, int, int]] = field(default_factory=list)
    _vector_ops: list[int] = field(default_factory=list)
    _geometry: list[list[int]] = field(default_factory=list)
    _uses: list[list[tuple[int, bool, int, int]]] = field(default_factory=list)
    _inplace: list[tuple[int, int]] = field(default_factory=list)
    _num_uses: int = 0

    def tensor(
        self,
        name: str,
        num_bytes: int,
        kind: TensorKind = TensorKind.ACTIVATION,
        *,
        alias_of: int = -1,
        rows: tuple[int, int] = (1, 1),
    ) -> int:
        """Add a tensor and return its number.

        Args:
            name: shown to users; need not be unique.
            num_bytes: at least 1.
            kind: role of the tensor.
            alias_of: for an output that takes the place of a weight or input, that tensor, see `Program`.
            rows: (blocks, rows) if it may be cut, see `Program.tensor_rows`.
        """
        self._rows.append(rows)
        self._tensors.append((name, num_bytes, kind))
        self._alias_of.append(alias_of)
        return len(self._tensors) - 1

    def op(
        self,
        op_type: str,
        operands: Iterable[int],
        results: Sequence[int],
        *,
        name: str = "",
        gemm: tuple[int, int, int, int] = (0, 0, 0, 0),
        vector_ops: int = 0,
        geometry: Mapping[str, int] | None = None,
        bytes_read: Mapping[int, int] | None = None,
        halo: Mapping[int, int] | None = None,
        inplace: Iterable[tuple[int, int]] = (),
        scratch: int = 0,
    ) -> None:
        """Add the next op of the schedule.

        Args:
            op_type: operator name.
            operands: tensors read; repeated ones count once.
            results: tensors written.
            name: the op's name; its type and number if empty.
            gemm: (count, rows, depth, columns) of its matrix products.
            vector_ops: number of element operations.
            geometry: values for columns of `GEOMETRY`.
            bytes_read: for operands that are read in part (and results that are written in part) the bytes moved.
            halo: for operands whose rows a window slides over, see `Program.use_halo`.
            inplace: pairs (operand, result) that may lie in the same bytes, see `Program.inplace`.
            scratch: bytes of working memory, 0 for none: a result that nothing reads, which lives while the op runs and
                is written once.

        Raises:
            WorkloadError: a pair is not of an operand and a result, or the scratch is less than 0.
        """
        number = len(self._ops)
        if scratch < 0:
            raise WorkloadError(f"Op {number} has {scratch} bytes of scratch; leave it out for none.")
        if scratch:
            results = [*results, self.tensor(f"{name or f'{op_type}_{number}'}/scratch", scratch)]
        self._ops.append((op_type, name or f"{op_type}_{number}"))
        self._gemm.append(gemm)
        self._vector_ops.append(vector_ops)
        columns = {**GEOMETRY_DEFAULT, **(geometry or {})}
        self._geometry.append([columns.get(column, 0) for column in GEOMETRY])
        moved = {tensor: self._tensors[tensor][1] for tensor in (*operands, *results)} | dict(bytes_read or {})
        self._producer.update(dict.fromkeys(results, number))
        rows = halo or {}
        use = {tensor: self._num_uses + index for index, tensor in enumerate(moved)}
        self._num_uses += len(moved)
        for pair in inplace:
            if not set(pair) <= set(moved):
                raise WorkloadError(f"A pair of inplace, {pair}, is not an operand and a result of op {number}.")
            self._inplace.append((use[pair[0]], use[pair[1]]))
        self._uses.append([(tensor, tensor in results, size, rows.get(tensor, 0)) for tensor, size in moved.items()])

    def build(self, op_nodes: Iterable[tuple[str, ...]] = (), tensor_value: Iterable[str] = ()) -> Program:
        """Return the program, with names from a model's file as in `Program`.

        Raises:
            WorkloadError: ops and tensors contradict each other (read before written, unused tensor, no bytes, ...).
        """
        names, sizes, kinds = zip(*self._tensors, strict=True) if self._tensors else ((), (), ())
        uses = np.array([use for op in self._uses for use in op], dtype=np.int64).reshape(-1, 4)
        return Program(
            name=self.name,
            dtype=self.dtype,
            tensor_bytes=np.array(sizes, dtype=np.int64),
            tensor_kind=np.array(kinds, dtype=np.int8),
            tensor_name=names,
            producer=np.array([self._producer.get(tensor, -1) for tensor in range(len(names))], dtype=np.int64),
            op_type=tuple(op_type for op_type, _ in self._ops),
            op_name=tuple(name for _, name in self._ops),
            gemm=np.array(self._gemm, dtype=np.int64).reshape(-1, 4),
            vector_ops=np.array(self._vector_ops, dtype=np.int64),
            geometry=np.array(self._geometry, dtype=np.int64).reshape(-1, len(GEOMETRY)),
            use_ptr=np.cumsum([0, *map(len, self._uses)], dtype=np.int64),
            use_tensor=uses[:, 0].copy(),
            use_is_result=uses[:, 1].astype(bool),
            use_bytes=uses[:, 2].copy(),
            alias_of=np.array(self._alias_of, dtype=np.int64),
            tensor_rows=np.array(self._rows, dtype=np.int64).reshape(-1, 2),
            use_halo=uses[:, 3].copy(),
            inplace=np.array(self._inplace, dtype=np.int64).reshape(-1, 2),
            op_nodes=tuple(op_nodes),
            tensor_value=tuple(tensor_value),
        )
