"""ONNX models: from an .onnx file to a Program."""

from memplace_env.workload.onnx.loader import inferred_graph, load_onnx, model_dims

__all__ = ["inferred_graph", "load_onnx", "model_dims"]
