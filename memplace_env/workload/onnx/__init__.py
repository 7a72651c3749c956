"""ONNX models: from an .onnx file to a Program."""

from memplace_env.workload.onnx.loader import load_onnx, model_dims

__all__ = ["load_onnx", "model_dims"]
