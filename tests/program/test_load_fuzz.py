"""Damaged files and random graphs: a Program or a WorkloadError, never anything else."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, helper

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.program import Program, TensorKind
from tests.program.models import LIGHT, model, node, weight
from tests.thorough import examples

ROUND = helper.make_graph(
    [node("MatMul", "s w", "p"), node("Tanh", "p", "r"), node("Identity", "go", "on")],
    "round",
    [helper.make_tensor_value_info(name, kind, None) for name, kind in (("i", 7), ("go", 9), ("s", 1))],
    [helper.make_tensor_value_info(name, kind, None) for name, kind in (("on", 9), ("r", 1), ("p", 1))],
)

FUSIONS = ("none", "activation", "conv", "epilogue")  # each fuses more than the one before

SMALL = model(
    [
        node("Shape", "x", "dims"),
        node("Slice", "dims zero one", "rows"),
        node("Concat", "rows rest", "target", axis=0),
        node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c b b b b", "n"),
        node("Relu", "n", "r"),
        node("Reshape", "r target", "f"),
        node("LayerNormalization", "f g", "l", axis=-1),
        node("Gemm", "l v", "y", transB=1),
    ],
    {"x": ["batch", 4, 8, 8]},
    constants={
        "zero": np.array([0]), "one": np.array([1]), "rest": np.array([-1]), "w": (4, 4, 3, 3), "b": (4,), "g": (256,),
        "v": (10, 256),
    },
).SerializeToString()  # fmt: skip

SEQUENCES = model(
    [
        node("Shape", "x", "dims"),
        node("SplitToSequence", "dims", "sizes", keepdims=0),
        node("SequenceAt", "sizes zero", "rows"),
        node("Unsqueeze", "rows axes", "row"),
        node("Concat", "row rest", "target", axis=0),
        node("DequantizeLinear", "q scale", "w", axis=1),
        node("MatMul", "x w", "a"),
        node("SplitToSequence", "a pieces", "s", axis=1),
        node("SequenceInsert", "s x two", "t"),
        node("SequenceErase", "t two", "u"),
        node("ConcatFromSequence", "u", "b", axis=1, new_axis=0),
        node("Reshape", "b target", "y"),
    ],
    {"x": ["batch", 4]},
    constants={
        "zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1]), "two": np.array(2), "scale": (8,),
        "q": weight("q", (4, 8), TensorProto.INT8), "pieces": np.array([2, 6]),
    },
).SerializeToString()  # fmt: skip

FUSED = model(
    [
        node("Loop", "three _ x", "a z", body=ROUND),
        node("Attention", "a v b", "m", domain="com.microsoft", num_heads=2),
        node("SkipLayerNormalization", "m x g", "n", domain="com.microsoft"),
        node("FusedMatMul", "n n", "y", domain="com.microsoft", transB=1, alpha=0.5),
    ],
    {"x": [1, 6, 8]},
    "y z",
    constants={"three": np.array(3), "w": (8, 8), "v": (8, 24), "b": (24,), "g": (8,)},
    opset=17,
)
FUSED.opset_import.append(helper.make_opsetid("com.microsoft", 1))

FILES = (SMALL, SEQUENCES, FUSED.SerializeToString(), (LIGHT / "light_bvlc_alexnet.onnx").read_bytes())


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(FILES)))
    for _ in range(draw(st.integers(1, 4))):
        offset = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(("set", "set", "set", "cut", "insert", "delete"))):
            case "set":
                data[offset] = draw(st.integers(0, 255))
            case "cut":
                del data[offset + 1 :]
            case "insert":
                data[offset:offset] = draw(st.binary(min_size=1, max_size=8))
            case "delete":
                del data[offset + 1 : offset + 1 + draw(st.integers(1, 8))]
    return bytes(data)


def outcome(data: bytes, **options: Any) -> Program | WorkloadError:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        try:
            return load_onnx(path, **options)
        except WorkloadError as error:
            return error


@examples(400)
@given(damaged(), st.sampled_from(FUSIONS), st.sampled_from((None, 1, 3)))
def test_damaged_files(data: bytes, fusion: str, batch: int | None) -> None:
    assert isinstance(outcome(data, fusion=fusion, batch=batch), Program | WorkloadError)


@examples(100)
@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    assert isinstance(outcome(data), WorkloadError)


UNARY = ("Relu", "Sigmoid", "Tanh", "Identity", "Exp", "Softmax", "BatchNormalization", "Conv", "ConvBias", "Transpose")
BINARY = ("Add", "Mul", "Concat")
IMAGE = [1, 4, 6, 6]


@st.composite
def random_graphs(draw: st.DrawFn) -> tuple[list[NodeProto], str]:
    """Nodes over images of one shape, listed in any order, and the names of some outputs."""
    values = ["x"]
    nodes = []
    for index in range(draw(st.integers(1, 14))):
        op_type, result = draw(st.sampled_from(UNARY + BINARY)), f"v{index}"
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from([*values, "k", "s"]))
        inputs = {
            "BatchNormalization": f"{a} g g g g", "Conv": f"{a} w", "ConvBias": f"{a} w g",
            "Add": f"{a} {b}", "Mul": f"{b} {a}",
        }.get(op_type, a)  # fmt: skip
        if op_type == "Concat":
            nodes += [node("Concat", f"{a} {a}", f"{result}_c", axis=1),
                      node("Slice", f"{result}_c from to axis", result)]  # fmt: skip
        else:
            extra = {"perm": [0, 1, 3, 2]} if op_type == "Transpose" else {}
            nodes.append(node(op_type.removesuffix("Bias"), inputs, result, **extra))
        values.append(result)
    outputs = draw(st.lists(st.sampled_from(values[1:]), min_size=1, max_size=3, unique=True))
    return draw(st.permutations(nodes)), " ".join(outputs)


CONSTANTS = {
    "g": (4,), "w": (4, 4, 1, 1), "k": (4, 1, 1), "s": np.float32(2), "from": np.array([2]), "to": np.array([6]),
    "axis": np.array([1]),
}  # fmt: skip


@examples(150)
@given(random_graphs())
def test_random_graphs(graph: tuple[list[NodeProto], str]) -> None:
    nodes, outputs = graph
    proto = model(nodes, {"x": IMAGE}, outputs, constants=CONSTANTS).SerializeToString()
    outcomes = [outcome(proto, fusion=fusion) for fusion in FUSIONS]
    programs = [program for program in outcomes if isinstance(program, Program)]
    assert len(programs) == len(FUSIONS) or all("does no work" in str(error) for error in outcomes)
    for more, fewer in pairwise(programs):
        assert fewer.num_ops <= more.num_ops
        assert fewer.macs.sum() == more.macs.sum()
        assert fewer.vector_ops.sum() == more.vector_ops.sum()
        assert fewer.bytes_of(TensorKind.OUTPUT) == more.bytes_of(TensorKind.OUTPUT)
        assert fewer.bytes_of(TensorKind.ACTIVATION) <= more.bytes_of(TensorKind.ACTIVATION)
        added_biases = 16 * more.op_type.count("Conv")
        assert fewer.use_bytes.sum() <= more.use_bytes.sum() + added_biases
