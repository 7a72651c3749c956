"""Ops over buffers: the form between a model's graph and the Program, on which fusion works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memplace_env.workload.lowered.operator import Operator
from memplace_env.workload.lowered.rules.products import Gemm


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that occupies memory, all of its views included.

    Attributes:
        elements: at least 1.
        element_type: ONNX `TensorProto.DataType` in the file.
        bits: bits of one element as deployed.
        constant: a weight.
    """

    elements: int
    element_type: int
    bits: int
    constant: bool

    @property
    def bytes(self) -> int:
        return -(-self.elements * self.bits // 8)


@dataclass(frozen=True, slots=True)
class Op:
    """One op that costs time.

    Attributes:
        operator: ONNX operator, the main one if fused.
        name: its node's.
        inputs: the buffer at each input position, None where there is none (absent, parameter, single number).
        outputs: buffers it makes.
        reads: elements read of each buffer, in the order of first use.
        gemm: as in `Program.gemm`.
        vector_ops: element operations.
        geometry: as in `Program.geometry`.
        writes: elements written of results that are not written as a whole.
        nodes: names of the source graph's nodes that it covers, where that is known.
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


@dataclass(frozen=True, slots=True)
class OpGraph:
    """Ops in execution order.

    Attributes:
        ops: the schedule.
        buffers: by name.
        outputs: buffers that must be there at the end.
        alias_of: by name of an output, the weight or graph input whose place it takes.
    """

    ops: tuple[Op, ...]
    buffers: Mapping[str, Buffer]
    outputs: frozenset[str]
    alias_of: Mapping[str, str] = field(default_factory=dict)
