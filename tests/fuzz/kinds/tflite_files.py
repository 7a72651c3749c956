"""Damaged .tflite files: a small one with many operators and two of networks, with bytes changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from memplace_env.program.frontends.tflite import load_tflite
from memplace_env.program.lowering.fusion import FUSIONS
from tests.fuzz.kinds.onnx_files import check_program
from tests.fuzz.mutations import damaged, pick
from tests.program.tflite.test_fuzz import SMALL
from tests.program.tflite.writer import T, op, write

NAME = "TFLite files"
CASES = 12_000

_LONG = write([op("LOGISTIC", "n" * 50_000, "y")], {"n" * 50_000: T([1, 4]), "y": T([1, 4])}, inputs="n" * 50_000)
_ESCAPES = write([op("\x1b[2Jown", "\x1b[31mx", "y")], {"\x1b[31mx": T([1, 4]), "y": T([1, 4])}, inputs="\x1b[31mx")


def prepare(folder: Path) -> list[bytes]:
    """Return the files."""
    return [SMALL, SMALL, SMALL, _LONG, _ESCAPES]


def case(prepared: Any, rng: np.random.Generator, folder: Path) -> bool:
    """Load one damaged file."""
    path = folder / "model.tflite"
    path.write_bytes(damaged(pick(rng, prepared), rng, prepared))
    check_program(load_tflite(path, fusion=pick(rng, tuple(FUSIONS)), dtype=pick(rng, (None, "float16"))))
    return True
