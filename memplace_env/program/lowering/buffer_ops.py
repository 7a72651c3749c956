"""Ops over buffers: the form between a model's graph and its Program, on which fusion works."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from memplace_env._lib.units import ceil_div
from memplace_env.program.lowering.independence import Independent
from memplace_env.program.lowering.node_graph import Gemm, Operator


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that occupies memory, together with all of its views.

    Attributes:
        elements: at least 1.
        element_type: ONNX `TensorProto.DataType` in the file.
        bits: bits of one element as deployed.
        constant: whether it is a weight.
    """

    elements: int
    element_type: int
    bits: int
    constant: bool

    @property
    def bytes(self) -> int:
        return self.bytes_of(self.elements)

    def bytes_of(self, elements: int) -> int:
        """Return the bytes of some of the elements, packed where they have fewer than 8 bits."""
        return ceil_div(elements * self.bits, 8)


@dataclass(frozen=True, slots=True)
class Op:
    """One op that costs time.

    Attributes:
        operator: ONNX operator, of a fused op the main one.
        name: name of the node; of the main node for a fused op.
        inputs: the buffer at each input position, None where there is none (absent, parameter, single number).
        outputs: buffers that the op writes.
        reads: elements read of each buffer, in the order of first use.
        gemm: as in `Program.gemm`.
        vector_ops: number of element operations.
        geometry: as in `Program.geometry`.
        writes: elements written of those results that are only partly written.
        nodes: names of the source graph's nodes that the op covers; empty where they are unknown.
        independent: where each buffer may be cut; those that are missing stay whole.
        aligned: pairs (operand, result) such that each element of the result needs, of that operand, only the element
            at the same place in the buffer; of a row-wise operator also statistics of its row.
    """

    operator: Operator
    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    reads: Mapping[str, int]
    gemm: Gemm
    vector_ops: int
    geometry: tuple[int, ...]
    writes: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    independent: Mapping[str, Independent] = field(default_factory=dict)
    aligned: Set[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class OpGraph:
    """Ops in execution order.

    Attributes:
        ops: the schedule.
        buffers: by name.
        outputs: buffers that must exist at the end.
        alias_of: by name of an output, the weight or graph input whose place it takes.
    """

    ops: tuple[Op, ...]
    buffers: Mapping[str, Buffer]
    outputs: frozenset[str]
    alias_of: Mapping[str, str] = field(default_factory=dict)
