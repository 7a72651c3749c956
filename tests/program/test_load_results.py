"""Results of nodes: those that nothing reads, several outputs of the same data, windows of poolings that round up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

from memplace_env.program.lowering.fusion import FUSIONS
from memplace_env.program.program import TensorKind
from tests.program.models import load, load_model, model, names, node, result_names
from tests.program.tflite.writer import T, op
from tests.program.tflite.writer import load as load_lite

SEVERAL: Sequence[tuple[NodeProto, set[str]]] = (
    (node("Split", "x", "o0 o1 o2", axis=0, num_outputs=3), {"o0", "o1", "o2"}),
    (node("TopK", "x two", "o0 o1"), {"o0", "o1"}),
    (node("DynamicQuantizeLinear", "x", "o0 o1 o2"), {"o0", "o1", "o2"}),
    (node("Unique", "x", "o0 o1 o2"), {"o0"}),
    (node("LayerNormalization", "x s", "o0 o1 o2"), {"o0"}),
    (node("LSTM", "t w r", "o0 o1 o2", hidden_size=4), set()),
    (node("MaxPool", "t", "o0 o1", kernel_shape=[2]), {"o0"}),
    (node("Dropout", "x ratio yes", "o0 o1"), {"o0"}),
)
"""Nodes of several results, and those that their kernels always write; ONNX calls the others optional."""


@pytest.mark.parametrize(("made", "always"), SEVERAL, ids=[made.op_type for made, _ in SEVERAL])
def test_results_that_nothing_reads_take_bytes(made: NodeProto, always: set[str]) -> None:
    """While their op runs; optional ones are not made."""
    constants = {"two": np.array([2]), "s": (6,), "w": (1, 16, 4), "r": (1, 16, 4), "ratio": np.float32(0.5),
                 "yes": np.array(True)}  # fmt: skip
    for count in range(1, len(made.output) + 1):
        for read in map(set, combinations(made.output, count)):
            nodes = [made, *(node("Cast", name, f"y{name}", to=TensorProto.DOUBLE) for name in sorted(read))]
            inputs = {"x": [6, 6], "t": [3, 2, 4]}
            outputs = " ".join(f"y{name}" for name in sorted(read))
            program = load(
                nodes, inputs, outputs, constants=constants, dims={"*": 5} if made.op_type == "Unique" else {}
            )
            (op,) = (op for op, name in enumerate(program.op_type) if name == made.op_type)
            results = set(result_names(program, op))
            assert results == read | always
            dead = [program.tensor_name.index(name) for name in results - read]
            assert all(program.live_end[dead] == op)
            assert program.live_bytes[op] == program.tensor_bytes[program.results(op)].sum()


def test_parts_that_nothing_reads_in_tflite() -> None:
    tensors = {"axis": T([], "INT32", 0), "x": T([6, 4]), **{name: T([2, 4]) for name in ("a", "b", "c", "y")}}
    program = load_lite([op("SPLIT", "axis x", "a b c"), op("ABS", "b", "y")], tensors)
    assert [result_names(program, number) for number in range(2)] == [["a", "b", "c"], ["y"]]


VIEWS = ("Identity", "Flatten", "Unsqueeze")


@given(
    views=st.lists(st.tuples(st.sampled_from(VIEWS), st.integers(0, 5)), max_size=5),
    outputs=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    fusion=st.sampled_from(FUSIONS),
)
@settings(max_examples=60, deadline=None)
def test_each_output_has_a_buffer_of_its_own(views: list[tuple[str, int]], outputs: list[int], fusion: str) -> None:
    """Views of one result, of which some are outputs of the graph, some of them twice."""
    nodes, made = [node("Relu", "x", "v0")], ["v0"]
    for op_type, source in views:
        made.append(f"v{len(made)}")
        more = ["zero"] if op_type == "Unsqueeze" else []
        nodes.append(node(op_type, " ".join([made[source % (len(made) - 1)], *more]), made[-1]))
    wanted = [made[number % len(made)] for number in outputs]
    program = load(nodes, {"x": [4, 6]}, " ".join(wanted), constants={"zero": np.array([0])}, fusion=fusion)
    kept = program.tensor_kind == TensorKind.OUTPUT
    assert kept.sum() == len(wanted)
    assert set(program.tensor_bytes[kept]) == {4 * 6 * 4}
    assert program.op_type == ("Relu", *["Identity"] * (len(wanted) - 1))


def test_outputs_that_are_no_copies() -> None:
    """Inputs and constants have a place of their own already; what other ops read too is one tensor."""
    nodes = [node("Identity", "x", "a"), node("Identity", "x", "b"), node("Relu", "x", "y"), node("Abs", "y", "z")]
    program = load(nodes, {"x": [4]}, "a b y z")
    assert program.op_type == ("Relu", "Abs")
    assert names(program, TensorKind.OUTPUT) == {"y", "z"}


def test_outputs_of_the_same_data_in_tflite() -> None:
    tensors = {"x": T([2, 6]), "y": T([2, 6]), "z": T([12]), "shape": T([1], "INT32", [12])}
    program = load_lite([op("ABS", "x", "y"), op("RESHAPE", "y shape", "z")], tensors, outputs="y z")
    assert program.op_type == ("Abs", "Identity")


def dims() -> Any:
    """Kernel, stride, padding before and behind, dilation and image along one axis."""
    return st.integers(1, 4).flatmap(
        lambda kernel: st.tuples(
            st.just(kernel), st.integers(1, 5), st.integers(0, kernel - 1), st.integers(0, kernel - 1),
            st.integers(1, 2), st.integers(2 * kernel - 1, 12),
        )
    )  # fmt: skip


@given(op_type=st.sampled_from(["AveragePool", "LpPool", "MaxPool"]), axes=st.lists(dims(), min_size=1, max_size=2))
@settings(max_examples=80, deadline=None)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_poolings_that_round_up_make_what_kernels_make(op_type: str, axes: list[tuple[int, ...]]) -> None:
    """No window starts in the padding behind the image."""
    kernel, strides, before, behind, dilations, sizes = map(list, zip(*axes, strict=True))
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": before + behind, "dilations": dilations}
    nodes = [node(op_type, "x", "p", ceil_mode=1, **attributes), node("Neg", "p", "y")]
    proto = model(nodes, {"x": [1, 2, *sizes]}, opset=21)
    image = {"x": np.ones((1, 2, *sizes), dtype=np.float32)}
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    (result,), (other,) = session.run(None, image), ReferenceEvaluator(proto).run(None, image)
    assert result.shape == other.shape
    program = load_model(proto, fusion="none")
    assert program.tensor_bytes[program.results(0)].tolist() == [4 * result.size]


def test_a_quantised_pooling_that_rounds_up() -> None:
    """ONNX Runtime's own makes 1 x 1 x 2, not 3."""
    made = node(
        "QLinearAveragePool", "x s _ s", "p", domain="com.microsoft", kernel_shape=[1], strides=[4], ceil_mode=1
    )
    program = load([made, node("Cast", "p", "y", to=1)], {"x": [1, 1, 7]}, constants={"s": np.float32(1)},
                   types={"x": TensorProto.UINT8})  # fmt: skip
    assert program.tensor_bytes[program.results(0)].tolist() == [2]
