"""Computed constants are what ONNX's reference implementation makes of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from memplace_env.program.frontends.onnx.dims import bind, input_shapes
from memplace_env.program.frontends.onnx.inference import infer
from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from tests.offenders import every
from tests.program.models import model, node

N = np.array([[3, -7, 0, 5], [2, 9, -1, 4]])
M = np.array([2, 3, -4, 7])
F = np.float32([[0.5, -1.5, 2.5, 9], [-0.2, 1, 2, 3]])
P = np.float32([[0.5, 1.5, 2.5, 9], [0.2, 1, 2, 3]])
B, C = N > 0, M > 2

CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((name, [N, M], {}) for name in ("Add", "Sub", "Mul", "Div", "Equal")),
    *((name, [N, M], {}) for name in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")),
    *((name, [F, F[1]], {}) for name in ("Add", "Sub", "Mul", "Div", "Equal", "GreaterOrEqual")),
    *((name, [N, M, np.array(1)], {}) for name in ("Max", "Min")),
    *((name, [B, C], {}) for name in ("And", "Or", "Xor")),
    *((name, [N], {}) for name in ("Abs", "Neg", "Sign", "NonZero", "Identity")),
    *((name, [F], {}) for name in ("Abs", "Neg", "Sign", "Ceil", "Floor", "Round")),
    *((name, [P], {}) for name in ("Sqrt", "Reciprocal")),
    *((name, [data], attributes) for name in ("ReduceMax", "ReduceMin") for data in (N, F)
      for attributes in ({}, {"keepdims": 0})),
    *((name, [N, np.array(axes)], {"keepdims": keep}) for name in ("ReduceProd", "ReduceSum", "ReduceMax")
      for axes in ([0], [-1], [0, 1]) for keep in (0, 1)),
    ("ReduceMean", [F, np.array([1])], {"keepdims": 0}),
    ("ReduceSum", [N], {"noop_with_empty_axes": 1}),
    ("Sum", [F, F[0], np.float32(2)], {}),
    ("Mod", [N, M], {}),
    ("Mod", [F, P], {"fmod": 1}),
    ("Mod", [N, M], {"fmod": 1}),
    ("Pow", [N, np.array(2)], {}),
    ("Pow", [P, np.float32(0.5)], {}),
    ("Not", [B], {}),
    ("Where", [B, N, M], {}),
    ("Clip", [N, np.array(-1), np.array(4)], {}),
    ("Clip", [N, None, np.array(4)], {}),
    ("Cast", [F], {"to": TensorProto.INT64}),
    ("Cast", [N], {"to": TensorProto.BOOL}),
    ("Cast", [N], {"to": TensorProto.FLOAT16}),
    ("CastLike", [N, np.float32(0)], {}),
    ("Concat", [N, N], {"axis": 1}),
    ("Expand", [M, np.array([2, 3, 1])], {}),
    ("Flatten", [N], {"axis": 0}),
    ("Gather", [N, np.array([1, -1, 0])], {"axis": 1}),
    ("Gather", [M, np.array(2)], {}),
    ("GatherElements", [N, np.array([[1, -1], [0, 3]])], {"axis": 1}),
    ("Reshape", [N, np.array([0, -1, 2])], {}),
    ("Slice", [N, np.array([3]), np.array([-(2**63)]), np.array([1]), np.array([-2])], {}),
    ("Slice", [N, np.array([1, -3]), np.array([9, -1])], {}),
    ("Split", [N, np.array([1, 3])], {"axis": 1}),
    ("Split", [N], {"axis": -1, "num_outputs": 2}),
    ("Squeeze", [N[:1], np.array([0])], {}),
    ("Tile", [N, np.array([2, 1])], {}),
    ("Transpose", [N], {"perm": [1, 0]}),
    ("Transpose", [N], {}),
    ("Unsqueeze", [N, np.array([0, -1])], {}),
    ("ConstantOfShape", [np.array([2, 3])], {}),
    ("ConstantOfShape", [np.array([2, 3])], {"value": helper.make_tensor("v", TensorProto.INT64, [1], [7])}),
    ("Range", [np.array(7), np.array(-4), np.array(-3)], {}),
    ("Range", [np.float32(0.5), np.float32(2.6), np.float32(0.25)], {}),
]  # fmt: skip


def single_node(name: str, inputs: list[Any], attributes: dict[str, Any], opset: int = 20) -> ModelProto:
    """One node of constants."""
    results = "k l" if name == "Split" else "k"
    read = [f"c{position}" if data is not None else "_" for position, data in enumerate(inputs)]
    constants = {f"c{position}": data for position, data in enumerate(inputs) if data is not None}
    return model([node(name, " ".join(read), results, **attributes)], {}, results, constants, opset=opset)


def folded(proto: ModelProto) -> list[Any]:
    values = infer(proto, bind(input_shapes(proto.graph), set(), None, None, set())).values
    return [values[output.name].data for output in proto.graph.output]


@every(("name", "inputs", "attributes"), CASES)
def test_like_the_reference(name: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    proto = single_node(name, inputs, attributes)
    proto.graph.output[0].type.tensor_type.elem_type = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = ReferenceEvaluator(proto.graph, opsets={"": 20}).run(None, {})
    for mine, theirs in zip(folded(proto), wanted, strict=True):
        assert mine.dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(mine, theirs)


def test_every_operator_that_folds_is_tried() -> None:
    assert {name for name, row in OPERATORS.items() if row.fold} == {name for name, _, _ in CASES}


@every(
    ("name", "inputs", "attributes"),
    [
        ("Div", [N, N], {}),
        ("Mod", [N, N], {}),
        ("GatherElements", [M, np.array([2**62])], {}),
        ("Gather", [M, np.array([4])], {}),
        ("Pow", [N, np.array(-1)], {}),
        ("ReduceMax", [np.zeros((0, 3))], {}),
    ],
)
def test_what_cannot_be_computed_is_unknown(name: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    assert folded(single_node(name, inputs, attributes)) == [None]


def test_lists_as_attributes_of_older_operator_sets() -> None:
    assert (
        folded(single_node("Slice", [N], {"starts": [1], "ends": [9], "axes": [1]}, 9))[0].tolist() == N[:, 1:].tolist()
    )
    assert folded(single_node("Unsqueeze", [M], {"axes": [0]}, 11))[0].tolist() == [M.tolist()]
    assert folded(single_node("ReduceSum", [N], {"axes": [0], "keepdims": 0}, 11))[0].tolist() == N.sum(0).tolist()
    assert folded(single_node("Split", [M], {"split": [1, 3]}, 11))[1].tolist() == M[1:].tolist()
