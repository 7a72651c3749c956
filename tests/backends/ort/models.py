"""Small ONNX models with everything that matters to their execution, and a chip that is too small for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from memplace_env.backends.ort import Executor
from memplace_env.machine.accelerator import Accelerator, MemoryLevel
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.task import Task
from tests.by_hand import machine

FLOAT, INT64, INT8, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT8, TensorProto.UINT8
FLOAT16, BFLOAT16 = TensorProto.FLOAT16, TensorProto.BFLOAT16
_RATES = dict.fromkeys(("float32", "int8"), 10**9)
_PICOJOULES = dict.fromkeys(("float32", "int8"), 1.0)


def chip(kibibytes: int = 4, weights: str = "streamed") -> Accelerator:
    """A chip for float32 and int8 with so much fast memory."""
    levels = (
        MemoryLevel("fast", kibibytes * 1024, 10**10, 10**10, 0, 1.0),
        MemoryLevel("slow", 10**9, 10**9, 10**9, 0, 10.0),
    )
    return machine(
        dtype="float32", weights=weights, fusion="conv", levels=levels, matrix_macs_per_s=_RATES,
        vector_ops_per_s=_RATES, mac_pj=_PICOJOULES, vector_pj=_PICOJOULES,
    )  # fmt: skip


def task_of(path: Path, **options) -> Task:
    """The task of a model; what `chip` takes, or options of `resolve_task`."""
    described = {key: options.pop(key) for key in ("kibibytes", "weights") if key in options}
    return resolve_task(path, chip(**described), **options)


def written(path: Path, nodes, inputs, outputs, constants, **options) -> Path:
    """The file of a model; inputs and outputs by name, with element type and shape."""
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, *value) for name, value in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, path, **options)
    return path


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / max(1, np.prod(shape[1:])) ** 0.5).astype(np.float32)


def convolutional(path: Path, **options) -> Path:
    """Conv + BatchNormalization + Relu, a residual, a pool, a view and a product."""
    rng = np.random.default_rng(1)
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["c0"], "conv0", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c0", "scale", "shift", "mean", "variance"], ["n0"], "norm0"),
        node("Relu", ["n0"], ["r0"], "relu0"),
        node("Conv", ["r0", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        node("Add", ["c1", "r0"], ["a1"], "add1"),
        node("Relu", ["a1"], ["r1"], "relu1"),
        node("MaxPool", ["r1"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["g"], "average"),
        node("Flatten", ["g"], ["f"], "flatten"),
        node("Gemm", ["f", "w2", "b2"], ["y"], "gemm"),
    ]
    constants = {
        "w0": normal(rng, 8, 3, 3, 3), "scale": 1 + normal(rng, 8), "shift": normal(rng, 8), "mean": normal(rng, 8),
        "variance": np.abs(normal(rng, 8)) + 1, "w1": normal(rng, 8, 8, 3, 3), "b1": normal(rng, 8),
        "w2": normal(rng, 8, 16), "b2": normal(rng, 16),
    }  # fmt: skip
    return written(path, nodes, {"x": (FLOAT, [1, 3, 8, 8])}, {"y": (FLOAT, [1, 16])}, constants, **options)


def attentive(path: Path) -> Path:
    """A table, products of products, a softmax, views all around, two outputs one of which is a view."""
    rng = np.random.default_rng(2)
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "ids"], ["e"], "embed"),
        node("MatMul", ["e", "wq"], ["q"], "queries"),
        node("Reshape", ["q", "split"], ["q4"], "heads"),
        node("Transpose", ["q4"], ["qt"], "turn", perm=[0, 2, 1, 3]),
        node("Transpose", ["qt"], ["kt"], "turn_again", perm=[0, 1, 3, 2]),
        node("MatMul", ["qt", "kt"], ["s"], "scores"),
        node("Softmax", ["s"], ["p"], "softmax"),
        node("MatMul", ["p", "qt"], ["o"], "mix"),
        node("Transpose", ["o"], ["ot"], "turn_back", perm=[0, 2, 1, 3]),
        node("Reshape", ["ot", "join"], ["oj"], "unheads"),
        node("Add", ["oj", "e"], ["a"], "add"),
        node("LayerNormalization", ["a", "gain", "bias"], ["n"], "norm"),
        node("Reshape", ["n", "flat"], ["y"], "view_of_output"),
        node("ReduceMean", ["n", "axes"], ["z"], "mean", keepdims=0),
    ]
    constants = {
        "table": normal(rng, 20, 16), "wq": normal(rng, 16, 16), "gain": 1 + normal(rng, 16), "bias": normal(rng, 16),
        "split": np.array([1, 6, 2, 8]), "join": np.array([1, 6, 16]), "flat": np.array([6, 16]),
        "axes": np.array([1]),
    }  # fmt: skip
    outputs = {"y": (FLOAT, [6, 16]), "z": (FLOAT, [1, 16])}
    return written(path, nodes, {"ids": (INT64, [1, 6])}, outputs, constants)


def quantised(path: Path) -> Path:
    """A convolution and a product between QuantizeLinear and DequantizeLinear."""
    rng = np.random.default_rng(3)
    node = helper.make_node

    def coded(name: str) -> list:
        return [
            node("QuantizeLinear", [name, "s", "zero"], [f"{name}_q"], f"{name}_code"),
            node("DequantizeLinear", [f"{name}_q", "s", "zero"], [f"{name}_d"], f"{name}_decode"),
        ]

    nodes = [
        *coded("x"),
        node("DequantizeLinear", ["w0", "s", "zero_w"], ["w0_d"], "w0_decode"),
        node("Conv", ["x_d", "w0_d"], ["c"], "conv", pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"], "relu"),
        *coded("r"),
        node("GlobalAveragePool", ["r_d"], ["g"], "average"),
        node("Flatten", ["g"], ["f"], "flatten"),
        node("DequantizeLinear", ["w1", "s", "zero_w"], ["w1_d"], "w1_decode"),
        node("Gemm", ["f", "w1_d"], ["y"], "gemm"),
    ]
    constants = {
        "w0": rng.integers(-50, 50, (8, 3, 3, 3)).astype(np.int8), "w1": rng.integers(-50, 50, (8, 5)).astype(np.int8),
        "s": np.float32(0.02), "zero": np.uint8(128), "zero_w": np.int8(0),
    }  # fmt: skip
    return written(path, nodes, {"x": (FLOAT, [1, 3, 8, 8])}, {"y": (FLOAT, [1, 5])}, constants)


def half(path: Path, casting: bool) -> Path:
    """Products of float16 numbers; input and output of float32 if casting."""
    rng = np.random.default_rng(4)
    node = helper.make_node
    nodes = [
        node("MatMul", ["x16", "w0"], ["h"], "first"),
        node("Relu", ["h"], ["r"], "relu"),
        node("MatMul", ["r", "w1"], ["s"], "second"),
        node("Add", ["s", "x16"], ["y16"], "add"),
    ]
    if casting:
        nodes = [
            node("Cast", ["x"], ["x16"], "narrow", to=FLOAT16),
            *nodes,
            node("Cast", ["y16"], ["y"], "widen", to=FLOAT),
        ]
    constants = {name: normal(rng, 16, 16).astype(np.float16) for name in ("w0", "w1")}
    read, made = ("x", "y") if casting else ("x16", "y16")
    kind = FLOAT if casting else FLOAT16
    return written(path, nodes, {read: (kind, [4, 16])}, {made: (kind, [4, 16])}, constants)


def biased(path: Path) -> Path:
    """Two small biases of float16 on large numbers."""
    rng = np.random.default_rng(7)
    nodes = [helper.make_node("Add", [f"x{i}", f"b{i}"], [f"x{i + 1}"], f"add{i}") for i in range(2)]
    constants = {f"b{i}": (0.001 * normal(rng, 16)).astype(np.float16) for i in range(2)}
    return written(path, nodes, {"x0": (FLOAT16, [4, 16])}, {"x2": (FLOAT16, [4, 16])}, constants)


def stereo(path: Path) -> Path:
    """Two pictures of bytes, and which of their pixels count."""
    node = helper.make_node
    nodes = [
        *(node("Cast", [name], [f"{name}_f"], f"cast_{name}", to=FLOAT) for name in ("left", "right", "counts")),
        node("Sub", ["left_f", "right_f"], ["d"], "difference"),
        node("Mul", ["d", "counts_f"], ["y"], "product"),
    ]
    inputs = {"left": (UINT8, [1, 3, 8, 8]), "right": (INT8, [1, 3, 8, 8]), "counts": (INT64, [1, 3, 8, 8])}
    return written(path, nodes, inputs, {"y": (FLOAT, [1, 3, 8, 8])}, {})


MODELS = {"convolutional": convolutional, "attentive": attentive, "quantised": quantised}


def executors_of(folder: Path, **options) -> dict[tuple[str, str], Executor]:
    """Executors of `MODELS`, by name and by whether weights are streamed or resident; options as of `task_of`."""
    return {
        (name, weights): Executor(task_of(make(folder / f"{name}.onnx"), weights=weights, **options))
        for name, make in MODELS.items()
        for weights in ("streamed", "resident")
    }
