"""Export of plans: as a C header (`text_of`), a table (`csv_of`), or inside a TensorFlow Lite model (`tflite_file`)."""

from memplace_env.backends.export.block_table import csv_of
from memplace_env.backends.export.c_header import text_of

__all__ = ["csv_of", "text_of"]
