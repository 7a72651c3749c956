"""From ops over buffers to the arrays of a Program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from onnx import TensorProto

from memplace_env.errors import WorkloadError
from memplace_env.workload.onnx.ops import OpGraph
from memplace_env.workload.onnx.values import FLOAT_BITS, INTEGER_BITS
from memplace_env.workload.program import FLOAT_BYTES, GEOMETRY, Program, TensorKind

_SIXTEEN_BITS: Final[Mapping[int, str]] = {TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}


def assemble(graph: OpGraph, *, name: str, dtype: str | None) -> Program:
    """The Program of an op graph; tensors are numbered in the order of their first use.

    Args:
        graph: fused as wanted.
        name: of the program.
        dtype: what its floating-point tensors are deployed in, None to go by the operands of its matrix products.

    Raises:
        WorkloadError: nothing is left to do.
    """
    if not graph.ops:
        raise WorkloadError("The model does no work: each of its outputs is a constant, an input or a view of one.")
    tensors: dict[str, int] = {}
    use_ptr, use_tensor, use_is_result, use_bytes = [0], [], [], []
    for op in graph.ops:
        for buffer, elements in op.reads.items():
            use_tensor.append(tensors.setdefault(buffer, len(tensors)))
            use_bytes.append(max(1, -(-elements * graph.buffers[buffer].bits // 8)))
            use_is_result.append(False)
        for buffer in op.outputs:
            use_tensor.append(tensors.setdefault(buffer, len(tensors)))
            use_bytes.append(graph.buffers[buffer].bytes)
            use_is_result.append(True)
        use_ptr.append(len(use_tensor))
    made = {buffer: index for index, op in enumerate(graph.ops) for buffer in op.outputs}
    return Program(
        name=name,
        dtype=_dominant_dtype(graph) if dtype is None else dtype,
        tensor_bytes=np.array([graph.buffers[buffer].bytes for buffer in tensors], dtype=np.int64),
        tensor_kind=np.array([_kind(graph, buffer, buffer in made) for buffer in tensors], dtype=np.int8),
        tensor_name=tuple(tensors),
        producer=np.array([made.get(buffer, -1) for buffer in tensors], dtype=np.int64),
        op_type=tuple(op.operator.name for op in graph.ops),
        op_name=tuple(op.name for op in graph.ops),
        gemm=np.array([op.gemm for op in graph.ops], dtype=np.int64).reshape(-1, 4),
        vector_ops=np.array([op.vector_ops for op in graph.ops], dtype=np.int64),
        geometry=np.array([op.geometry for op in graph.ops], dtype=np.int64).reshape(-1, len(GEOMETRY)),
        use_ptr=np.array(use_ptr, dtype=np.int64),
        use_tensor=np.array(use_tensor, dtype=np.int64),
        use_is_result=np.array(use_is_result, dtype=np.bool_),
        use_bytes=np.array(use_bytes, dtype=np.int64),
    )


def _kind(graph: OpGraph, buffer: str, made: bool) -> TensorKind:
    if graph.buffers[buffer].constant:
        return TensorKind.WEIGHT
    if buffer in graph.outputs:
        return TensorKind.OUTPUT
    return TensorKind.ACTIVATION if made else TensorKind.INPUT


def _dominant_dtype(graph: OpGraph) -> str:
    """The deployable dtype nearest to what holds most bytes among operands of matrix products (if none: everywhere)."""
    operands = {name for op in graph.ops if any(op.gemm) for name in op.reads}
    totals = dict.fromkeys(FLOAT_BYTES, 0)
    for buffer in map(graph.buffers.__getitem__, sorted(operands or graph.buffers)):
        nearest = _nearest_dtype(buffer.element_type)
        if nearest is not None:
            totals[nearest] += buffer.bytes
    return max(totals, key=totals.__getitem__) if any(totals.values()) else "float32"


def _nearest_dtype(element_type: int) -> str | None:
    """None for wide integers, which index or accumulate but are no data to deploy."""
    if element_type in _SIXTEEN_BITS:
        return _SIXTEEN_BITS[element_type]
    if element_type in FLOAT_BITS:
        return "int8" if FLOAT_BITS[element_type] <= 8 else "float32"
    return "int8" if INTEGER_BITS.get(element_type, 64) <= 8 else None
