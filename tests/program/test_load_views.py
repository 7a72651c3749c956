"""Views make no tensor; constants are weights, counted once; dead work disappears."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from memplace_env.program.program import TensorKind
from tests.offenders import every
from tests.program.models import load, load_model, model, names, node, operand_names, result_names, tensor, weight

VIEWS: list[tuple[NodeProto, dict[str, Any]]] = [
    (node("Reshape", "a t", "b"), {"t": np.array([-1, 2])}),
    (node("Flatten", "a", "b", axis=1), {}),
    (node("Squeeze", "a t", "b"), {"t": np.array([0])}),
    (node("Unsqueeze", "a t", "b"), {"t": np.array([0])}),
    (node("Identity", "a", "b"), {}),
    (node("Dropout", "a", "b"), {}),
    (node("Dropout", "a r t", "b"), {"r": np.float32(0.5), "t": np.array(False)}),
    (node("Cast", "a", "b", to=TensorProto.FLOAT), {}),
    (node("CastLike", "a t", "b"), {"t": np.float32(1)}),
    (node("Transpose", "a", "b", perm=[1, 0, 2]), {}),
    (node("Expand", "a t", "b"), {"t": np.array([1, 1])}),
    (node("Tile", "a t", "b"), {"t": np.array([1, 1, 1])}),
    (node("Slice", "a s e", "b"), {"s": np.array([0]), "e": np.array([9])}),
    (node("Pad", "a t", "b"), {"t": np.zeros(6, np.int64)}),
    (node("Concat", "a e", "b", axis=1), {"e": (1, 0, 4)}),
    (node("Split", "a", "b", axis=1, num_outputs=1), {}),
    (node("Sum", "a", "b"), {}),
]

COPIES: list[tuple[NodeProto, dict[str, Any]]] = [
    (node("Dropout", "a r t", "b"), {"r": np.float32(0.5), "t": np.array(True)}),
    (node("Cast", "a", "b", to=TensorProto.FLOAT16), {}),
    (node("Cast", "a", "b", to=TensorProto.INT32), {}),
    (node("Transpose", "a", "b", perm=[0, 2, 1]), {}),
    (node("Transpose", "a", "b"), {}),
    (node("Expand", "a t", "b"), {"t": np.array([2, 1, 1])}),
    (node("Tile", "a t", "b"), {"t": np.array([1, 2, 1])}),
    (node("Slice", "a s e", "b"), {"s": np.array([0, 0]), "e": np.array([1, 2])}),
    (node("Slice", "a s e x_ d", "b"), {"s": np.array([9]), "e": np.array([-9]), "x_": np.array([1]),
                                         "d": np.array([-1])}),
    (node("Pad", "a t", "b"), {"t": np.array([0, 1, 0, 0, -1, 0])}),
    (node("Concat", "a e", "b", axis=1), {"e": (1, 1, 4)}),
]  # fmt: skip


@every(("view", "constants"), VIEWS)
def test_views_are_the_tensor_they_look_at(view: NodeProto, constants: dict[str, Any]) -> None:
    program = load([node("Relu", "x", "a"), view, node("Abs", "b", "y")], {"x": [1, 3, 4]}, constants=constants)
    assert program.op_type == ("Relu", "Abs")
    assert program.tensor_name == ("x", "a", "y")
    assert list(program.tensor_bytes) == [48, 48, 48]


@every(("copy", "constants"), COPIES)
def test_copies_are_ops(copy: NodeProto, constants: dict[str, Any]) -> None:
    program = load([node("Relu", "x", "a"), copy, node("Abs", "b", "y")], {"x": [1, 3, 4]}, constants=constants)
    assert program.op_type == ("Relu", copy.op_type, "Abs")


def test_cast_between_floats_is_a_view_when_all_floats_are_retyped() -> None:
    nodes = [node("Relu", "x", "a"), node("Cast", "a", "b", to=TensorProto.FLOAT16), node("Abs", "b", "y")]
    program = load(nodes, {"x": [8]}, dtype="int8")
    assert program.op_type == ("Relu", "Abs")
    assert list(program.tensor_bytes) == [8, 8, 8]
    assert program.dtype == "int8"


def test_graph_output_that_is_a_view_makes_its_source_an_output() -> None:
    nodes = [node("Relu", "x", "a"), node("Flatten", "a", "y"), node("Abs", "a", "z")]
    program = load(nodes, {"x": [1, 3, 4]}, "y z")
    assert names(program, TensorKind.OUTPUT) == {"a", "z"}


def test_graph_outputs_without_work_are_dropped() -> None:
    nodes = [node("Relu", "x", "y"), node("Identity", "x", "same"), node("Relu", "w", "fixed")]
    program = load(nodes, {"x": [4]}, "y same fixed", constants={"w": (4,)})
    assert program.op_type == ("Relu",)
    assert names(program, TensorKind.OUTPUT) == {"y"}


def test_dead_ops_are_dropped_and_unused_results_are_not() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Exp", "a", "dead"),
        node("Abs", "dead", "deader"),
        node("Split", "a", "y unused", axis=0, num_outputs=2),
    ]
    program = load(nodes, {"x": [8]})
    assert program.op_type == ("Relu", "Split")
    assert program.tensor_name == ("x", "a", "y", "unused")


def test_tensors_without_elements_do_not_exist() -> None:
    nodes = [node("Relu", "e", "f"), node("Concat", "f x", "a", axis=0), node("Relu", "a", "y")]
    program = load(nodes, {"x": [4], "e": [0]})
    assert program.op_type == ("Relu",)
    assert program.tensor_name == ("x", "y")


def test_operand_used_twice_counts_once() -> None:
    program = load([node("Mul", "x x", "y")], {"x": [8]})
    assert operand_names(program, 0) == ["x"]


def test_shared_weight_counts_once_through_its_views() -> None:
    nodes = [
        node("MatMul", "x w", "a"),
        node("Transpose", "w", "wt", perm=[1, 0]),
        node("Identity", "wt", "wi"),
        node("MatMul", "a wi", "y"),
    ]
    program = load(nodes, {"x": [2, 4]}, constants={"w": (4, 8)})
    assert names(program, TensorKind.WEIGHT) == {"w"}
    assert program.bytes_of(TensorKind.WEIGHT) == 4 * 32


def test_constant_expressions_fold_to_one_new_weight() -> None:
    nodes = [
        node("ConstantOfShape", "dims", "w", value=helper.make_tensor("v", TensorProto.FLOAT16, [1], [0.02])),
        node("Cast", "w", "w32", to=TensorProto.FLOAT),
        node("Mul", "w32 two", "scaled"),
        node("MatMul", "x scaled", "y"),
    ]
    program = load(nodes, {"x": [2, 100]}, constants={"dims": np.array([100, 1000]), "two": np.float32(2)})
    assert program.op_type == ("MatMul",)
    assert names(program, TensorKind.WEIGHT) == {"scaled"}
    assert program.bytes_of(TensorKind.WEIGHT) == 400_000


def test_single_numbers_and_parameters_are_no_tensors() -> None:
    nodes = [
        node("Clip", "x low high", "a"),
        node("Pow", "a two", "b"),
        node("ReduceMean", "b axes", "c"),
        node("Pad", "c pads", "y"),
    ]
    constants = {
        "low": np.float32(0),
        "high": np.float32(6),
        "two": np.array([2], np.float32),
        "axes": np.array([1, 2]),
        "pads": np.array([0, 0, 0, 1, 1, 1]),
    }
    program = load(nodes, {"x": [2, 3, 4]}, constants=constants)
    assert not names(program, TensorKind.WEIGHT)
    assert program.num_uses == 8


def test_sizes_of_a_grid_are_parameters() -> None:
    size = {"size": np.array([1, 3, 4, 5])}
    program = load([node("AffineGrid", "theta size", "y")], {"theta": [1, 2, 3]}, constants=size)
    assert program.tensor_name == ("theta", "y")


def test_indices_are_data_only_if_they_depend_on_an_input() -> None:
    nodes = [node("Cast", "i", "j", to=TensorProto.INT64), node("Gather", "w j", "y")]
    program = load(nodes, {"i": [2, 3]}, constants={"w": (100, 8)}, types={"i": TensorProto.INT32})
    assert operand_names(program, 1) == ["w", "j"]
    folded = load([node("Gather", "w j", "g"), node("Add", "g x", "y")], {"x": [2, 8]},
                  constants={"w": (100, 8), "j": np.array([3, 5])})  # fmt: skip
    assert folded.op_type == ("Add",)
    assert names(folded, TensorKind.WEIGHT) == {"g"}


def test_gather_like_ops_read_only_what_they_select() -> None:
    nodes = [
        node("Gather", "w i", "a"),
        node("Slice", "a zero one axis", "b"),
        node("GatherElements", "b e", "y", axis=0),
    ]
    constants = {"w": (100, 8), "zero": np.array([0]), "one": np.array([2]), "axis": np.array([1])}
    program = load(nodes, {"i": [5], "e": [1, 2]}, constants=constants,
                   types={"i": TensorProto.INT64, "e": TensorProto.INT64})  # fmt: skip
    moved = {
        (int(op), program.tensor_name[t]): int(b)
        for op, t, b in zip(program.use_op, program.use_tensor, program.use_bytes, strict=True)
    }
    assert moved[0, "w"] == 5 * 8 * 4
    assert moved[0, "i"] == 5 * 8
    assert moved[1, "a"] == 5 * 2 * 4
    assert moved[2, "b"] == 2 * 4
    assert program.tensor_bytes[tensor(program, "w")] == 3200


def test_gather_of_more_rows_than_the_table_has_reads_the_table_once() -> None:
    program = load([node("Gather", "w i", "y")], {"i": [1000]}, constants={"w": (10, 8)},
                   types={"i": TensorProto.INT64})  # fmt: skip
    assert program.use_bytes[0] == 320


def test_quantised_weights_are_read_as_they_are_stored() -> None:
    nodes = [
        node("DequantizeLinear", "q s", "w", axis=0),
        node("MatMul", "x w", "a"),
        node("QuantizeLinear", "a one zero", "b"),
        node("DequantizeLinear", "b one zero", "c"),
        node("MatMul", "c w", "y"),
    ]
    constants = {"q": weight("q", (64, 64), TensorProto.INT8), "s": (64,), "one": np.float32(1), "zero": np.int8(0)}
    program = load(nodes, {"x": [2, 64]}, constants=constants)
    assert program.op_type == ("MatMul", "QuantizeLinear", "MatMul")
    assert program.tensor_bytes[tensor(program, "q")] == 64 * 64
    assert operand_names(program, 2) == ["b", "q"]
    assert program.tensor_bytes[tensor(program, "b")] == 128
    assert program.dtype == "int8"


@every(
    ("element_type", "dtype", "bits"),
    [
        (TensorProto.FLOAT, "float32", 32),
        (TensorProto.DOUBLE, "float32", 64),
        (TensorProto.FLOAT16, "float16", 16),
        (TensorProto.BFLOAT16, "bfloat16", 16),
    ],
)
def test_dtype_goes_by_the_operands_of_matrix_products(element_type: int, dtype: str, bits: int) -> None:
    program = load([node("MatMul", "x w", "y")], {"x": [2, 4]}, types={"x": element_type, "y": element_type},
                   constants={"w": weight("w", (4, 5), element_type)})  # fmt: skip
    assert program.dtype == dtype
    assert program.tensor_bytes[1] == 20 * bits // 8


def test_four_bit_weights_round_up_to_bytes() -> None:
    nodes = [node("DequantizeLinear", "q s", "w"), node("MatMul", "x w", "y")]
    constants = {"q": weight("q", (3, 5), TensorProto.INT4), "s": np.float32(1)}
    program = load(nodes, {"x": [2, 3]}, constants=constants, opset=21)
    assert program.tensor_bytes[tensor(program, "q")] == 8


def test_if_with_a_condition_that_shapes_decide_is_inlined() -> None:
    def branch(op_type: str) -> Any:
        inner = [node("Constant", "_", "k", value=helper.make_tensor("k", TensorProto.FLOAT, [4], [1, 2, 3, 4])),
                 node("Add", "x k", "s"), node(op_type, "s", "t")]  # fmt: skip
        inner[0].ClearField("input")
        return helper.make_graph(inner, op_type, [], [helper.make_tensor_value_info("t", TensorProto.FLOAT, [4])])

    nodes = [
        node("Shape", "x", "dims"),
        node("Gather", "dims zero", "rows"),
        node("Equal", "rows four", "c"),
        node("If", "c", "a", then_branch=branch("Relu"), else_branch=branch("Exp")),
        node("Not", "c", "d"),
        node("If", "d", "b", then_branch=branch("Relu"), else_branch=branch("Exp")),
        node("Add", "a b", "y"),
    ]
    program = load(nodes, {"x": [4]}, constants={"zero": np.array(0), "four": np.array(4)})
    assert program.op_type == ("Add", "Relu", "Add", "Exp", "Add")
    assert result_names(program, 1) == ["a/t"]


def test_local_functions_are_inlined() -> None:
    body = [node("Relu", "p", "q"), node("Exp", "q", "r")]
    function = helper.make_function("my", "act", ["p"], ["r"], body, [helper.make_opsetid("", 20)])
    proto = model([node("act", "x", "y", domain="my")], {"x": [4]}, functions=[function])
    proto.opset_import.append(helper.make_opsetid("my", 1))
    assert load_model(proto).op_type == ("Relu", "Exp")


def test_schedule_is_topological_with_ties_by_position() -> None:
    nodes = [node("Add", "b c", "y"), node("Exp", "x", "c"), node("Abs", "x", "b"), node("Neg", "x", "unused")]
    program = load(nodes, {"x": [4]})
    assert program.op_type == ("Exp", "Abs", "Add")


def test_initialiser_that_is_also_an_input_is_a_weight() -> None:
    program = load([node("Add", "x w", "y")], {"x": [4], "w": [4]}, constants={"w": (4,)})
    assert names(program, TensorKind.WEIGHT) == {"w"}


def test_names_are_made_up_where_the_file_has_none() -> None:
    program = load([helper.make_node("Relu", ["x"], ["y"])], {"x": [4]})
    assert program.op_name == ("Relu_0",)
