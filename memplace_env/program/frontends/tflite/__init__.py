"""Frontend for TensorFlow Lite: a Program from a .tflite file."""

from memplace_env.program.frontends.tflite.tflite_loader import check_tflite, load_tflite

__all__ = ["check_tflite", "load_tflite"]
