"""Random graphs: more fusion leaves fewer ops and tensors, the same work and the same outputs."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx import NodeProto

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.program import Program, TensorKind
from tests.program.models import model, node
from tests.thorough import examples

FUSIONS = ("none", "activation", "conv", "epilogue")  # each fuses more than the one before


def outcome(data: bytes, **options: Any) -> Program | WorkloadError:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        try:
            return load_onnx(path, **options)
        except WorkloadError as error:
            return error


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
