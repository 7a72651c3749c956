"""Three whole networks, against what Arm's compiler says of them; how "activation" and "chain" fuse them."""

from __future__ import annotations

import csv
from collections import Counter
from typing import Any

import numpy as np
import pytest

from benchmarks.experiments.vela import networks
from memplace_env.program.frontends.tflite import load_tflite
from memplace_env.program.lowering.fusion import FUSIONS
from memplace_env.program.program import GEOMETRY, Program, TensorKind
from tests.program.tflite.writer import Op, T, load, op

DATA = networks() / "vela"
NETWORKS = ("mobilenet_v2", "efficientnet_b0", "resnet50")


def network(name: str, fusion: str = "none") -> Program:
    return load_tflite(DATA / f"{name}.tflite", fusion=fusion)


def macs_by_layer_type(name: str) -> Counter[str]:
    macs: Counter[str] = Counter()
    with open(DATA / f"{name}.ethos-u65-512.Dedicated_Sram.layers.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            macs[row["op"]] += int(row["macs"])
    return macs


@pytest.mark.parametrize("name", NETWORKS)
def test_macs(name: str) -> None:
    """Vela counts averages as depthwise convolutions; our MACs are those of convolutions and fully connected layers."""
    program, layers = network(name), macs_by_layer_type(name)
    averages = sum(
        int(n) for n, op_type in zip(program.vector_ops, program.op_type, strict=True) if op_type == "ReduceMean"
    )
    assert program.macs.sum() + averages == sum(layers[key] for key in ("Conv2D", "DepthwiseConv2D", "FullyConnected"))
    with open(DATA / "networks.csv", encoding="utf-8") as file:
        totals = {int(row["nn_macs"]) for row in csv.DictReader(file) if row["network"] == name}
    # What is left of Vela's total are pools, lookup tables, copies and the softmax.
    assert totals == {sum(layers.values())}
    assert 1 <= sum(layers.values()) / program.macs.sum() < 1.03


@pytest.mark.parametrize(
    ("name", "op_types"),
    [
        ("mobilenet_v2", {"Conv": 52, "Add": 10, "ReduceMean": 1, "Gemm": 1, "Softmax": 1}),
        ("efficientnet_b0",
         {"Conv": 81, "Sigmoid": 65, "Mul": 65, "ReduceMean": 17, "Add": 9, "Gemm": 1, "Softmax": 1}),
        ("resnet50", {"Conv": 53, "Add": 16, "Pad": 2, "MaxPool": 1, "ReduceMean": 1, "Gemm": 1, "Softmax": 1}),
    ],
)  # fmt: skip
def test_op_types(name: str, op_types: dict[str, int]) -> None:
    program = network(name)
    assert Counter(program.op_type) == op_types
    assert program.dtype == "int8"
    assert program.bytes_of(TensorKind.INPUT) == 224 * 224 * 3
    assert program.bytes_of(TensorKind.OUTPUT) == 1000


@pytest.mark.parametrize(
    ("name", "parameters", "normalised", "biases"),
    [
        ("mobilenet_v2", 3_538_984, 17_056, 0),
        ("efficientnet_b0", 5_330_571 - 7, 21_008, 9_340),
        ("resnet50", 25_636_712, 26_560, 26_560),
    ],
)
def test_weights(name: str, parameters: int, normalised: int, biases: int) -> None:
    """Keras' parameters (without its 7 for the range of pixels) are weights, 4 per normalised channel, and biases.

    The classifier's 1000 biases are 0 here and left out. A normalisation folds into weights and a bias of 4 bytes.
    """
    weights = parameters - 4 * normalised - biases - 1000
    left = {"resnet50": biases}.get(name, normalised + biases)  # ResNet's biases stand before normalisations
    assert network(name).bytes_of(TensorKind.WEIGHT) == weights + 4 * left


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("fusion", ["activation", "chain", "conv", "epilogue"])
def test_fusion_conserves_work(name: str, fusion: str) -> None:
    apart, fused = network(name), network(name, fusion)
    assert fused.macs.sum() == apart.macs.sum()
    assert fused.vector_ops.sum() == apart.vector_ops.sum()
    assert fused.bytes_of(TensorKind.WEIGHT) == apart.bytes_of(TensorKind.WEIGHT)


def test_paddings_become_those_of_convolutions() -> None:
    program = network("resnet50", "activation")
    assert program.op_type.count("Pad") == 1  # a pool reads the other
    first = dict(zip(GEOMETRY, program.geometry[0], strict=True))
    assert [first[name] for name in ("ifm_x", "ofm_x", "kernel_x", "stride", "pad")] == [224, 112, 7, 2, 3]


def test_residuals_and_gates() -> None:
    assert Counter(network("resnet50", "activation").op_type)["Add"] == 16
    assert "Add" not in network("resnet50", "chain").op_type
    assert "Add" not in network("mobilenet_v2", "chain").op_type
    activation, chain = (Counter(network("efficientnet_b0", fusion).op_type) for fusion in ("activation", "chain"))
    # 16 of 65 are gates of channels: a convolution takes in their Sigmoid, and their Mul has another operand.
    assert (activation["Conv"], activation["Sigmoid"], activation["Mul"], activation["Add"]) == (81, 49, 65, 9)
    assert (chain["Conv"], chain["Sigmoid"], chain["Mul"], chain["Add"]) == (81, 49, 16, 0)


IMAGE = T([1, 8, 8, 4])
PADDED = {"x": IMAGE, "p": T([1, 10, 10, 4]), "w": T([4, 3, 3, 4]), "y": IMAGE, "z": T([1, 10, 10, 4])}


@pytest.mark.parametrize(
    ("rows", "ops", "folded"),
    [
        ([[0, 0], [1, 1], [1, 1], [0, 0]], [], True),
        (None, [], False),
        ([0, 1, 1, 0], [], False),
        ([[0, 0], [1, 1], [1, 1], [0, 0]], [op("TANH", "p", "z")], False),
        ([[0, 0], [1, 1], [0, 0], [1, 1]], [], False),
    ],
)
def test_which_paddings_fold(rows: list[Any] | None, ops: list[Op], folded: bool) -> None:
    """Return the paddings of height and width, known, that one convolution alone reads."""
    calls = [op("PAD", "x a", "p"), op("CONV_2D", "p w _", "y"), *ops]
    tensors = {**PADDED, "a": T(np.shape(rows) if rows else [4, 2], "INT32", rows)}
    for fusion in FUSIONS:
        program = load(calls, tensors, outputs="y z" if ops else "y", fusion=fusion)
        assert ("Pad" not in program.op_type) == (folded and fusion != "none")


def test_other_paddings_stay() -> None:
    rows = T([4, 2], "INT32", [[0, 0], [1, 1], [1, 1], [0, 0]])
    same = [op("PAD", "x a", "p"), op("CONV_2D", "p w _", "y", Padding=0)]
    ones = [op("PADV2", "x a a", "p"), op("CONV_2D", "p w _", "y")]
    for calls, result in ((same, PADDED["z"]), (ones, IMAGE)):
        program = load(calls, {**PADDED, "y": result, "a": rows}, fusion="conv")
        assert program.op_type == ("Pad", "Conv")
