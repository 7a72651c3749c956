"""The dtype that a model is deployed and computes in: the arguments of all loaders, and the default."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from onnx import TensorProto

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.lowering.buffer_ops import Buffer, Op, OpGraph
from memplace_env.program.lowering.fusion import FUSIONS
from memplace_env.program.lowering.graph_values import FLOAT_BITS, INTEGER_BITS
from memplace_env.program.model_file import check_in_place, check_patterns
from memplace_env.program.program import FLOAT_BYTES

_SIXTEEN_BITS: Final[Mapping[int, str]] = {TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}


def check_deployment(dtype: str | None, fusion: str, in_place: str, patterns: str, source: str = "file") -> None:
    """Check the arguments `dtype`, `fusion`, `in_place` and `patterns` of a loader that reads a `source`.

    Raises:
        WorkloadError: one of them is none of its values.
    """
    if dtype is not None and dtype not in FLOAT_BYTES:
        names = ", ".join(FLOAT_BYTES)
        raise WorkloadError(f"dtype is {dtype!r}; it must be one of {names}, or None for the {source}'s.")
    if fusion not in FUSIONS:
        raise WorkloadError(f"fusion is {fusion!r}; it must be one of {', '.join(FUSIONS)}.")
    check_in_place(in_place)
    check_patterns(patterns)


def computing_dtype(graph: OpGraph, dtype: str | None) -> str:
    """Return `dtype`, or where that is None the key of `FLOAT_BYTES` in which most of a graph's MACs are computed.

    A product is computed in the wider type of its two operands: where only the weights are quantised, they are
    dequantised on their way to the matrix unit, which then works at the rate of the activations. Without MACs it is the
    dtype that holds most bytes, without any tensor float32.

    Args:
        graph: before fusion, as a fused op no longer distinguishes its operands.
        dtype: the argument of the loader.
    """
    if dtype is not None:
        return dtype
    totals = dict.fromkeys(FLOAT_BYTES, 0)
    for op in graph.ops:
        operands = [near for buffer in _factors(graph, op) if (near := _nearest_dtype(buffer.element_type))]
        if operands:
            totals[max(operands, key=FLOAT_BYTES.__getitem__)] += math.prod(op.gemm)
    if not any(totals.values()):
        for buffer in graph.buffers.values():
            if near := _nearest_dtype(buffer.element_type):
                totals[near] += buffer.bytes
    return max(totals, key=totals.__getitem__) if any(totals.values()) else "float32"


def _factors(graph: OpGraph, op: Op) -> Iterator[Buffer]:
    """Yield the operands of an op's product that take memory."""
    for position in (0, op.operator.weight):
        name = op.inputs[position] if position < len(op.inputs) else None
        if name is not None:
            yield graph.buffers[name]


def _nearest_dtype(element_type: int) -> str | None:
    """Return the deployable dtype nearest to a type, None for wide integers, which index or accumulate."""
    if element_type in _SIXTEEN_BITS:
        return _SIXTEEN_BITS[element_type]
    if element_type in FLOAT_BITS:
        return "int8" if FLOAT_BITS[element_type] <= 8 else "float32"
    return "int8" if INTEGER_BITS.get(element_type, 64) <= 8 else None
