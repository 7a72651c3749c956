"""Damaged .tflite files: small ones with many operators or control flow, and two with odd names."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np

from memplace_env.program.frontends.tflite import load_tflite
from memplace_env.program.lowering.fusion import FUSIONS
from tests.fuzz.kinds.onnx_files import check_program
from tests.fuzz.mutations import damaged, pick
from tests.program.tflite.writer import Graph, T, op, write

NAME = "TFLite files"
CASES = 12_000

_IMAGE, _ROWS = T([1, 6, 6, 4]), T([4, 2], "INT32", [[0, 0], [1, 1], [1, 1], [0, 0]])
_WINDOW = {"FilterHeight": 2, "FilterWidth": 2, "StrideH": 2, "StrideW": 2}

SMALL = write(
    [
        op("PAD", "x rows", "p"),
        op("CONV_2D", "p w b", "c", FusedActivationFunction=1),
        op("DEPTHWISE_CONV_2D", "c d b", "e", Padding=0),
        op("LOGISTIC", "e", "s"),
        op("MUL", "e s", "g"),
        op("ADD", "g x", "a"),
        op("MAX_POOL_2D", "a", "m", **_WINDOW),
        op("TRANSPOSE_CONV", "size t m", "u", StrideH=2, StrideW=2),
        op("SHAPE", "u", "dims"),
        op("TRANSPOSE", "u order", "o"),
        op("RESHAPE", "o dims", "r"),
        op("FULLY_CONNECTED", "r v _", "y"),
        op("SVDF", "y f h _ state", "z"),
    ],
    {
        "x": _IMAGE, "rows": _ROWS, "p": T([1, 8, 8, 4]), "w": T([4, 3, 3, 4]), "b": T([4], "INT32"), "c": _IMAGE,
        "d": T([1, 3, 3, 4]), "e": _IMAGE, "s": _IMAGE, "g": _IMAGE, "a": _IMAGE, "m": T([1, 3, 3, 4]),
        "size": T([4], "INT32", [1, 6, 6, 4]), "t": T([4, 2, 2, 4]), "u": _IMAGE, "dims": T([4], "INT32"),
        "order": T([4], "INT32", [0, 3, 1, 2]), "o": T([1, 4, 6, 6]), "r": T([1, 144]), "v": T([10, 144]),
        "y": T([1, 10]), "f": T([4, 10]), "h": T([4, 3]), "state": T([1, 12], variable=True), "z": T([1, 4]),
    },
    outputs="y z",
)  # fmt: skip
"""A sound file."""
_BRANCHES: Final = [
    Graph([op("TANH", "tx", "ty")], "tx", "ty"),
    Graph([op("READ_VARIABLE", "eh", "es"), op("ADD", "ex es", "ey")], "ex eh", "ey"),
    Graph([op("LESS", "cx limit", "cc")], "cx", "cc"),
    Graph([op("MUL", "bx bw", "by")], "bx", "by"),
]
_ROW: Final = T([1, 4])
CONTROL = write(
    [
        op("VAR_HANDLE", "", "h", SharedName="state"),
        op("READ_VARIABLE", "h", "s"),
        op("WHILE", "x", "a", CondSubgraphIndex=3, BodySubgraphIndex=4),
        op("IF", "c a", "b", ThenSubgraphIndex=1, ElseSubgraphIndex=1),
        op("IF", "c b h", "y", ThenSubgraphIndex=2, ElseSubgraphIndex=2),
        op("ASSIGN_VARIABLE", "h y", ""),
    ],
    {
        **dict.fromkeys(("x", "s", "a", "b", "y", "tx", "ty", "ex", "es", "ey", "cx", "limit", "bx", "bw", "by"), _ROW),
        **dict.fromkeys(("h", "eh"), T([], "RESOURCE")), **dict.fromkeys(("c", "cc"), T([1], "BOOL")),
    },
    inputs="x c",
    graphs=_BRANCHES,
)  # fmt: skip
"""A sound file with control flow and a variable."""
_LONG = write([op("LOGISTIC", "n" * 50_000, "y")], {"n" * 50_000: T([1, 4]), "y": T([1, 4])}, inputs="n" * 50_000)
_ESCAPES = write([op("\x1b[2Jown", "\x1b[31mx", "y")], {"\x1b[31mx": T([1, 4]), "y": T([1, 4])}, inputs="\x1b[31mx")


def prepare(folder: Path) -> list[bytes]:
    """Return the files."""
    return [SMALL, SMALL, CONTROL, CONTROL, _LONG, _ESCAPES]


def case(prepared: Any, rng: np.random.Generator, folder: Path) -> bool:
    """Load one damaged file."""
    path = folder / "model.tflite"
    path.write_bytes(damaged(pick(rng, prepared), rng, prepared))
    settings = {"trips": pick(rng, (None, 1, 3)), "cut": pick(rng, (None, None, None, "a"))}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(the data choose a branch|of its graphs is loaded)")
        dtype = pick(rng, (None, "float16"))
        check_program(load_tflite(path, fusion=pick(rng, tuple(FUSIONS)), dtype=dtype, **settings))
    return True
