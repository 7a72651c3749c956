"""Small ONNX models of the types that the zoo lacks, with weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

DEPTH: Final = 8
WIDTH: Final = 64


def float16_layers(path: Path) -> None:
    """Write matrix products, small biases and normalisations with gains near one, which a tolerance might hide."""
    rng, node = np.random.default_rng(1), helper.make_node
    nodes: list[NodeProto] = []
    weights: dict[str, Any] = {}
    for i in range(DEPTH):
        nodes += [
            node("MatMul", [f"x{i}", f"w{i}"], [f"m{i}"]),
            node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
            node("LayerNormalization", [f"a{i}", f"g{i}", f"s{i}"], [f"n{i}"]),
            node("Relu", [f"n{i}"], [f"x{i + 1}"]),
        ]
        numbers = rng.standard_normal((3, WIDTH))
        weights[f"w{i}"] = WIDTH**-0.5 * rng.standard_normal((WIDTH, WIDTH))
        weights |= {f"b{i}": 0.005 * numbers[0], f"g{i}": 1 + 0.002 * numbers[1], f"s{i}": 0.005 * numbers[2]}
    halves = {name: array.astype(np.float16) for name, array in weights.items()}
    _save(path, nodes, halves, "x0", f"x{DEPTH}", [8, WIDTH], TensorProto.FLOAT16)


def int8_convolutions(path: Path) -> None:
    """Write convolutions between QuantizeLinear and DequantizeLinear, with biases of int32."""
    rng, node, channels = np.random.default_rng(2), helper.make_node, 8
    nodes = [node("QuantizeLinear", ["x", "scale", "zero"], ["q0"])]
    weights: dict[str, Any] = {"scale": np.float32(0.05), "zero": np.int8(0), "weight_scale": np.float32(0.004)}
    weights["bias_scale"] = np.float32(0.0002)
    for i in range(DEPTH):
        nodes += [
            node("DequantizeLinear", [f"q{i}", "scale", "zero"], [f"x{i}"]),
            node("DequantizeLinear", [f"w{i}", "weight_scale"], [f"v{i}"]),
            node("DequantizeLinear", [f"b{i}", "bias_scale"], [f"c{i}"]),
            node("Conv", [f"x{i}", f"v{i}", f"c{i}"], [f"m{i}"], pads=[1, 1, 1, 1]),
            node("QuantizeLinear", [f"m{i}", "scale", "zero"], [f"q{i + 1}"]),
        ]
        weights[f"w{i}"] = rng.integers(-60, 61, (channels, channels, 3, 3)).astype(np.int8)
        weights[f"b{i}"] = rng.integers(-999, 1000, channels).astype(np.int32)
    nodes.append(node("DequantizeLinear", [f"q{DEPTH}", "scale", "zero"], ["y"]))
    _save(path, nodes, weights, "x", "y", [1, channels, 16, 16], TensorProto.FLOAT)


SMALL_MODELS: Final[Mapping[str, Callable[[Path], None]]] = {
    "layers in float16": float16_layers,
    "convolutions in int8": int8_convolutions,
}


def _save(
    path: Path, nodes: Sequence[NodeProto], weights: Mapping[str, Any], read: str, made: str,
    shape: Sequence[int], element_type: int,
) -> None:  # fmt: skip
    given, result = (helper.make_tensor_value_info(name, element_type, shape) for name in (read, made))
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, path.stem, [given], [result], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
