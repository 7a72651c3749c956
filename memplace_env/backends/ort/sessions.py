"""Sessions of ONNX Runtime in which an op computes the same bits whatever model it stands in.

The exception are ops of float16 or bfloat16 that it has no kernel for: it casts to float32 and back, and leaves out the
casts between two such ops, so that the neighbours of an op decide whether its operands are rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import ModelProto

from memplace_env._lib.errors import ExecutionError
from memplace_env._lib.lazy import required

if TYPE_CHECKING:
    import onnxruntime


def runtime() -> Any:
    """Import ONNX Runtime.

    Raises:
        ExecutionError: it is not installed.
    """
    return required("onnxruntime", "Executing a plan needs", "ONNX Runtime", "execute", ExecutionError)


def session_of(model: ModelProto, label: str) -> onnxruntime.InferenceSession:
    """Return a session on one thread of the CPU, with nothing fused, repacked or planned ahead.

    Args:
        model: at most 2 GB as protobuf, so that large weights are inputs.
        label: name of the model in messages.

    Raises:
        ExecutionError: ONNX Runtime cannot run it.
    """
    package = runtime()
    options = package.SessionOptions()
    options.graph_optimization_level = package.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_prepacking", "1")
    try:
        return package.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the package's own exceptions have no base in common but this
        raise ExecutionError(f"ONNX Runtime cannot execute {label}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith(".") else text + "."
