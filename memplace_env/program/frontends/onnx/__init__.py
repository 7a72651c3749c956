"""Frontend for ONNX: a Program from an .onnx file."""

from memplace_env.program.frontends.onnx.onnx_loader import inferred_graph, load_onnx, model_dims

__all__ = ["inferred_graph", "load_onnx", "model_dims"]
