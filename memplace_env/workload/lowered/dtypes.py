"""Which dtype a model computes in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from onnx import TensorProto

from memplace_env.workload.lowered.ops import Buffer, Op, OpGraph
from memplace_env.workload.lowered.values import FLOAT_BITS, INTEGER_BITS
from memplace_env.workload.program import FLOAT_BYTES

_SIXTEEN_BITS: Final[Mapping[int, str]] = {TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}


def computing_dtype(graph: OpGraph) -> str:
    """The dtype, a key of `FLOAT_BYTES`, that most MACs are done in; without MACs the one that holds most bytes.

    A product is done in the wider type of its two operands: weights that alone are quantised are dequantised on their
    way to the matrix unit, which then works at the rate of the activations. Float32 if nothing says more.

    Args:
        graph: before fusion, as a fused op no longer tells its operands apart.
    """
    totals = dict.fromkeys(FLOAT_BYTES, 0)
    for op in graph.ops:
        operands = [dtype for buffer in _factors(graph, op) if (dtype := _nearest_dtype(buffer.element_type))]
        if operands:
            totals[max(operands, key=FLOAT_BYTES.__getitem__)] += math.prod(op.gemm)
    if not any(totals.values()):
        for buffer in graph.buffers.values():
            if dtype := _nearest_dtype(buffer.element_type):
                totals[dtype] += buffer.bytes
    return max(totals, key=totals.__getitem__) if any(totals.values()) else "float32"


def _factors(graph: OpGraph, op: Op) -> Iterator[Buffer]:
    """The operands of an op's product, as far as they take memory."""
    for position in (0, op.operator.weight):
        name = op.inputs[position] if position < len(op.inputs) else None
        if name is not None:
            yield graph.buffers[name]


def _nearest_dtype(element_type: int) -> str | None:
    """The deployable dtype nearest to a type; None for wide integers, which index or accumulate."""
    if element_type in _SIXTEEN_BITS:
        return _SIXTEEN_BITS[element_type]
    if element_type in FLOAT_BITS:
        return "int8" if FLOAT_BITS[element_type] <= 8 else "float32"
    return "int8" if INTEGER_BITS.get(element_type, 64) <= 8 else None
