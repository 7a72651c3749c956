"""From ops over buffers to the arrays of a Program."""

from __future__ import annotations

import numpy as np

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.ops import OpGraph
from memplace_env.workload.program import GEOMETRY, Program, TensorKind


def assemble(graph: OpGraph, *, name: str, dtype: str) -> Program:
    """The Program of an op graph; tensors are numbered in the order of their first use.

    Args:
        graph: fused as wanted.
        name: of the program.
        dtype: what its floating-point tensors are deployed in.

    Raises:
        WorkloadError: nothing is left to do, or nothing to place.
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
            elements = op.writes.get(buffer, graph.buffers[buffer].elements)
            use_bytes.append(-(-elements * graph.buffers[buffer].bits // 8))
            use_is_result.append(True)
        use_ptr.append(len(use_tensor))
    if not tensors:
        raise WorkloadError("The model's ops touch no tensor: all that they read or make is a constant or empty.")
    made = {buffer: index for index, op in enumerate(graph.ops) for buffer in op.outputs}
    return Program(
        name=name,
        dtype=dtype,
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
        alias_of=np.array([tensors.get(graph.alias_of.get(buffer, ""), -1) for buffer in tensors], dtype=np.int64),
        op_nodes=tuple(op.nodes for op in graph.ops),
        tensor_value=tuple(tensors),
    )


def _kind(graph: OpGraph, buffer: str, made: bool) -> TensorKind:
    if graph.buffers[buffer].constant:
        return TensorKind.WEIGHT
    if buffer in graph.outputs:
        return TensorKind.OUTPUT
    return TensorKind.ACTIVATION if made else TensorKind.INPUT
