"""Fusion behind operators that have an activation inside, which ONNX's have not."""

from __future__ import annotations

import pytest

from memplace_env.program.program import TensorKind
from tests.program.tflite.writer import Op, T, load, op

IMAGE = T([1, 8, 8, 4])
TENSORS = {"x": IMAGE, "w": T([4, 3, 3, 4]), "b": T([4], "INT32"), "s": T([4]), "c": IMAGE, "d": IMAGE, "y": IMAGE}
RELU = 1


def types(ops: list[Op], fusion: str) -> tuple[str, ...]:
    return load(ops, TENSORS, fusion=fusion).op_type


def conv(activation: int) -> Op:
    return op("CONV_2D", "x w b", "c", Padding=0, FusedActivationFunction=activation)


def test_a_scale_behind_an_activation_does_not_fold() -> None:
    ops = [conv(RELU), op("MUL", "c s", "y")]
    assert types(ops, "conv") == ("Conv", "Mul")
    assert types([conv(0), *ops[1:]], "conv") == ("Conv",)
    assert "s" not in load([conv(0), *ops[1:]], TENSORS, fusion="conv").tensor_name


def test_a_scale_with_an_activation_ends_the_linear_part() -> None:
    ops = [conv(0), op("MUL", "c s", "d", FusedActivationFunction=RELU), op("MUL", "d s", "y")]
    assert types(ops, "conv") == ("Conv", "Mul")
    ops[1] = op("MUL", "c s", "d")
    assert types(ops, "conv") == ("Conv",)


@pytest.mark.parametrize("fusion", ["activation", "chain"])
def test_the_activation_inside_counts(fusion: str) -> None:
    assert types([conv(RELU), op("TANH", "c", "y")], fusion) == ("Conv", "Tanh")
    assert types([conv(0), op("TANH", "c", "y")], fusion) == ("Conv",)


def test_a_sum_with_an_activation() -> None:
    total = op("ADD", "c x", "y", FusedActivationFunction=RELU)
    assert types([conv(0), total], "chain") == ("Conv",)
    assert types([conv(RELU), total], "chain") == ("Conv", "Add")
    assert types([conv(RELU), total], "conv") == ("Conv",)


@pytest.mark.parametrize("fusion", ["activation", "chain", "conv"])
def test_a_fully_connected_layer_is_a_convolution(fusion: str) -> None:
    tensors = {"x": T([2, 8]), "w": T([4, 8]), "c": T([2, 4]), "s": T([4]), "d": T([2, 4]), "y": T([2, 4])}
    ops = [op("FULLY_CONNECTED", "x w _", "c"), op("ADD", "c s", "d"), op("LOGISTIC", "d", "y")]
    program = load(ops, tensors, fusion=fusion)
    assert program.op_type == ("Gemm",)
    assert program.bytes_of(TensorKind.WEIGHT) == 36
