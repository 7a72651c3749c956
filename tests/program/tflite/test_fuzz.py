"""Damaged files: a Program or a WorkloadError, never anything else."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.lowering.fusion import FUSIONS
from memplace_env.program.program import Program
from tests.program.tflite.test_networks import DATA
from tests.program.tflite.writer import T, load_bytes, op, write
from tests.thorough import examples

IMAGE, ROWS = T([1, 6, 6, 4]), T([4, 2], "INT32", [[0, 0], [1, 1], [1, 1], [0, 0]])
WINDOW = {"FilterHeight": 2, "FilterWidth": 2, "StrideH": 2, "StrideW": 2}

SMALL = write(
    [
        op("PAD", "x rows", "p"),
        op("CONV_2D", "p w b", "c", FusedActivationFunction=1),
        op("DEPTHWISE_CONV_2D", "c d b", "e", Padding=0),
        op("LOGISTIC", "e", "s"),
        op("MUL", "e s", "g"),
        op("ADD", "g x", "a"),
        op("MAX_POOL_2D", "a", "m", **WINDOW),
        op("TRANSPOSE_CONV", "size t m", "u", StrideH=2, StrideW=2),
        op("SHAPE", "u", "dims"),
        op("TRANSPOSE", "u order", "o"),
        op("RESHAPE", "o dims", "r"),
        op("FULLY_CONNECTED", "r v _", "y"),
        op("SVDF", "y f h _ state", "z"),
    ],
    {
        "x": IMAGE, "rows": ROWS, "p": T([1, 8, 8, 4]), "w": T([4, 3, 3, 4]), "b": T([4], "INT32"), "c": IMAGE,
        "d": T([1, 3, 3, 4]), "e": IMAGE, "s": IMAGE, "g": IMAGE, "a": IMAGE, "m": T([1, 3, 3, 4]),
        "size": T([4], "INT32", [1, 6, 6, 4]), "t": T([4, 2, 2, 4]), "u": IMAGE, "dims": T([4], "INT32"),
        "order": T([4], "INT32", [0, 3, 1, 2]), "o": T([1, 4, 6, 6]), "r": T([1, 144]), "v": T([10, 144]),
        "y": T([1, 10]), "f": T([4, 10]), "h": T([4, 3]), "state": T([1, 12], variable=True), "z": T([1, 4]),
    },
    outputs="y z",
)  # fmt: skip

FILES = (SMALL, (DATA / "resnet50.tflite").read_bytes())


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(FILES)))
    for _ in range(draw(st.integers(1, 4))):
        offset = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(("set", "set", "set", "flip", "huge", "cut", "delete"))):
            case "set":
                data[offset] = draw(st.integers(0, 255))
            case "flip":
                data[offset] ^= 1 << draw(st.integers(0, 7))
            case "huge":
                data[offset : offset + 4] = b"\xff\xff\xff\x7f"
            case "cut":
                del data[max(offset, 8) :]
            case "delete":
                del data[offset + 1 : offset + 1 + draw(st.integers(1, 8))]
    return bytes(data)


def outcome(data: bytes, fusion: str = "conv") -> Program | WorkloadError:
    try:
        return load_bytes(data, fusion=fusion)
    except WorkloadError as error:
        return error


@examples(120, deadline=None)
@given(damaged(), st.sampled_from(FUSIONS))
def test_damaged_files(data: bytes, fusion: str) -> None:
    assert isinstance(outcome(data, fusion), Program | WorkloadError)


@examples(50)
@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    assert isinstance(outcome(b"\x10\0\0\0TFL3" + data), WorkloadError)


def test_the_file_itself_is_sound() -> None:
    assert isinstance(outcome(SMALL), Program)
