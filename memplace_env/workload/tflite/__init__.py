"""TensorFlow Lite models: from a .tflite file to a Program."""

from memplace_env.workload.tflite.loader import check_tflite, load_tflite

__all__ = ["check_tflite", "load_tflite"]
