"""Export of plans: as a C header (`text_of`), or inside a TensorFlow Lite model (`tflite_file`)."""

from memplace_env.backends.export.c_header import text_of

__all__ = ["text_of"]
