"""Ops that fuse, ops that do not, and quantities that fusion keeps."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from onnx import NodeProto

from memplace_env.machine.accelerator.accelerator import Fusion
from memplace_env.program.lowering.fusion import FUSIONS
from memplace_env.program.program import Program, TensorKind
from tests.offenders import every
from tests.program.models import load, names, node, operand_names, result_names

X = {"x": [1, 4, 8, 8]}
W = {"w": (4, 4, 1, 1)}
BN = dict.fromkeys(("g", "h", "m", "v"), (4,))
CONV = node("Conv", "x w", "c")


def fused(nodes: list[NodeProto], outputs: str = "y", constants: dict[str, Any] | None = None) -> Program:
    """The program with fusion "conv", after a check that fusion kept its work."""
    constants = W | (constants or {})
    program, plain = (load(nodes, X, outputs, fusion=fusion, constants=constants) for fusion in ("conv", "none"))
    assert program.macs.sum() == plain.macs.sum()
    assert program.vector_ops.sum() == plain.vector_ops.sum()
    return program


@every("op_type", ["Relu", "LeakyRelu", "Sigmoid", "HardSwish", "HardSigmoid", "Elu", "Tanh", "Gelu",
                                     "Mish", "Clip", "Softplus"])  # fmt: skip
def test_activation_joins_its_convolution(op_type: str) -> None:
    program = fused([CONV, node(op_type, "c", "y")])
    assert program.op_type == ("Conv",)
    assert program.op_name == ("n_c",)
    assert program.tensor_name == ("x", "w", "y")


def test_batch_normalisation_folds_into_a_bias() -> None:
    program = fused([CONV, node("BatchNormalization", "c g h m v", "b"), node("Relu", "b", "y")], constants=BN)
    assert program.op_type == ("Conv",)
    assert operand_names(program, 0) == ["x", "w", "n_c/folded_bias"]
    assert program.bytes_of(TensorKind.WEIGHT) == 4 * (16 + 4)


def test_batch_normalisation_folds_into_the_bias_that_is_there() -> None:
    nodes = [node("Conv", "x w b", "c"), node("BatchNormalization", "c g h m v", "y")]
    program = fused(nodes, constants=BN | {"b": (4,)})
    assert operand_names(program, 0) == ["x", "w", "b"]


def test_bias_add_becomes_the_bias_and_scales_vanish() -> None:
    nodes = [CONV, node("Mul", "c s", "a"), node("Add", "a t", "y")]
    program = fused(nodes, constants={"s": (4, 1, 1), "t": (1, 4, 1, 1)})
    assert operand_names(program, 0) == ["x", "w", "t"]


def test_normalisation_and_scale_chain() -> None:
    nodes = [
        CONV,
        node("BatchNormalization", "c g h m v", "b"),
        node("Mul", "b s", "a"),
        node("Add", "a t", "d"),
        node("Relu", "d", "y"),
    ]
    program = fused(nodes, constants=BN | {"s": (4, 1, 1), "t": (4, 1, 1)})
    assert operand_names(program, 0) == ["x", "w", "n_c/folded_bias"]


def test_normalisation_after_an_activation_cannot_fold() -> None:
    nodes = [CONV, node("Relu", "c", "r"), node("BatchNormalization", "r g h m v", "y")]
    assert fused(nodes, constants=BN).op_type == ("Conv", "BatchNormalization")


def test_graph_output_blocks_fusion() -> None:
    program = fused([CONV, node("Relu", "c", "y")], "c y")
    assert program.op_type == ("Conv", "Relu")
    view = fused([CONV, node("Flatten", "c", "z"), node("Relu", "c", "y")], "z y")
    assert view.op_type == ("Conv", "Relu")


def test_second_consumer_blocks_fusion() -> None:
    program = fused([CONV, node("Relu", "c", "a"), node("Exp", "c", "b"), node("Add", "a b", "y")])
    assert program.op_type[0] == "Conv"
    assert result_names(program, 0) == ["c"]


def test_residual_goes_to_the_later_convolution() -> None:
    nodes = [
        node("Conv", "x w", "left"),
        node("Conv", "x u", "right"),
        node("Add", "left right", "s"),
        node("Relu", "s", "y"),
    ]
    constants = {"u": (4, 4, 1, 1)}
    program = fused(nodes, constants=constants)
    assert program.op_name == ("n_left", "n_right")
    assert operand_names(program, 1) == ["x", "u", "left"]
    swapped = fused([nodes[1], nodes[0], *nodes[2:]], constants=constants)
    assert swapped.op_name == ("n_right", "n_left")


def test_residual_computed_after_the_convolution_is_not_fused() -> None:
    program = fused([CONV, node("Exp", "x", "e"), node("Add", "c e", "y")])
    assert program.op_type == ("Conv", "Exp", "Add")


def test_only_one_residual() -> None:
    nodes = [CONV, node("Add", "c x", "a"), node("Add", "a z", "y")]
    program = load(nodes, X | {"z": X["x"]}, constants=W, fusion="conv")
    assert program.op_type == ("Conv", "Add")


def test_residual_that_broadcasts_the_result_is_not_fused() -> None:
    program = load([CONV, node("Add", "c z", "y")], X | {"z": [3, 4, 8, 8]}, constants=W, fusion="conv")
    assert program.op_type == ("Conv", "Add")


@every(
    "gate",
    [
        [node("Sigmoid", "c", "s"), node("Mul", "c s", "y")],
        [node("Sigmoid", "c", "s"), node("Mul", "s c", "y")],
        [node("Softplus", "c", "s"), node("Tanh", "s", "t"), node("Mul", "c t", "y")],
        [node("Add", "c three", "s"), node("Clip", "s zero six", "t"), node("Mul", "c t", "u"),
         node("Div", "u six", "y")],
    ],
)  # fmt: skip
def test_gates_join_their_convolution(gate: list[NodeProto]) -> None:
    numbers = {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)}
    program = fused([CONV, *gate], constants=numbers)
    assert program.op_type == ("Conv",)
    assert program.tensor_name == ("x", "w", "y")


def test_gate_by_something_else_stays() -> None:
    nodes = [CONV, node("Sigmoid", "c", "s"), node("Mul", "x s", "y")]
    assert fused(nodes).op_type == ("Conv", "Mul")
    shared = [CONV, node("Sigmoid", "c", "s"), node("Mul", "c s", "a"), node("Add", "a s", "y")]
    assert fused(shared).op_type == ("Conv", "Sigmoid", "Mul", "Add")


def test_fused_op_runs_where_its_last_member_ran() -> None:
    nodes = [CONV, node("Exp", "x", "e"), node("Relu", "c", "r"), node("Add", "e r", "y")]
    program = fused(nodes)
    assert program.op_type == ("Exp", "Conv")
    assert operand_names(program, 1) == ["x", "w", "e"]


def test_conv_leaves_other_products_alone() -> None:
    nodes = [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Relu", "c", "y")]
    settings: dict[str, Any] = {"constants": {"w": (8, 8), "b": (8,)}}
    assert load(nodes, {"x": [2, 8]}, fusion="conv", **settings).op_type == ("MatMul", "Add", "Relu")
    program = load(nodes, {"x": [2, 8]}, fusion="epilogue", **settings)
    assert program.op_type == ("MatMul",)
    assert operand_names(program, 0) == ["x", "w", "b"]
    assert result_names(program, 0) == ["y"]


def test_epilogue_fuses_element_wise_chains() -> None:
    nodes = [
        node("Softmax", "x", "p"),
        node("Mul", "p x", "a"),
        node("Exp", "a", "b"),
        node("Softmax", "b", "q"),
        node("Abs", "q", "c"),
        node("Where", "t c x", "y"),
    ]
    program = load(nodes, {"x": [2, 8], "t": [2, 8]}, fusion="epilogue", types={"t": 9})
    assert program.op_type == ("Softmax", "Mul", "Softmax", "Abs")
    assert operand_names(program, 3) == ["q", "t", "x"]


def test_epilogue_gates_join_the_product_and_two_products_stay_two() -> None:
    nodes = [
        node("MatMul", "x w", "gate"),
        node("MatMul", "x u", "up"),
        node("Sigmoid", "gate", "s"),
        node("Mul", "gate s", "silu"),
        node("Mul", "silu up", "y"),
    ]
    program = load(nodes, {"x": [2, 8]}, fusion="epilogue", constants={"w": (8, 8), "u": (8, 8)})
    assert program.op_name == ("n_up", "n_gate")
    assert operand_names(program, 1) == ["x", "w", "up"]
    assert program.num_tensors == 5


def test_epilogue_does_not_recompute_what_is_broadcast() -> None:
    nodes = [node("ReduceMean", "x axis", "m"), node("Sqrt", "m", "r"), node("Div", "x r", "y")]
    program = load(nodes, {"x": [2, 8]}, fusion="epilogue", constants={"axis": np.array([1])})
    assert program.op_type == ("ReduceMean", "Sqrt", "Div")


def test_op_with_two_results_is_not_fused() -> None:
    nodes = [node("Split", "x", "a b", axis=1, num_outputs=2), node("Relu", "a", "c"), node("Add", "b c", "y")]
    program = load(nodes, X, fusion="epilogue")
    assert program.op_type == ("Split", "Relu")


def test_quantise_joins_its_convolution() -> None:
    nodes = [CONV, node("Relu", "c", "r"), node("QuantizeLinear", "r one zero", "q"),
             node("DequantizeLinear", "q one zero", "d"), node("MaxPool", "d", "y", kernel_shape=[2, 2])]  # fmt: skip
    program = fused(nodes, constants={"one": np.float32(1), "zero": np.int8(0)})
    assert program.op_type == ("Conv", "MaxPool")
    assert names(program, TensorKind.ACTIVATION) == {"q"}
    assert program.tensor_bytes[program.results(0)[0]] == 256


def test_nothing_folds_into_filters_that_are_computed() -> None:
    computed = [node("Relu", "v", "w2"), node("Conv", "x w2", "c"), node("BatchNormalization", "c g h m u", "y")]
    constants = dict.fromkeys(("g", "h", "m", "u"), (4,))
    inputs = {**X, "v": [4, 4, 1, 1]}
    program = load(computed, inputs, fusion="conv", constants=constants)
    assert program.op_type == ("Relu", "Conv", "BatchNormalization")


def test_chips_know_the_fusions() -> None:
    assert get_args(Fusion) == FUSIONS


def by_fusion(nodes: list[NodeProto], fusion: str, outputs: str = "y", **constants: Any) -> list[tuple[str, str]]:
    """Type and result of each op."""
    program = load(nodes, X, outputs, fusion=fusion, constants=W | constants)
    return [(program.op_type[op], *result_names(program, op)) for op in range(program.num_ops)]


def test_one_activation_and_no_more() -> None:
    nodes = [CONV, node("BatchNormalization", "c g h m v", "b"), node("Relu", "b", "r"), node("Tanh", "r", "y")]
    assert by_fusion(nodes, "activation", **BN) == [("Conv", "r"), ("Tanh", "y")]
    assert by_fusion(nodes, "chain", **BN) == [("Conv", "r"), ("Tanh", "y")]
    assert by_fusion(nodes, "conv", **BN) == [("Conv", "y")]


def test_gates_are_ops_of_their_own() -> None:
    nodes = [CONV, node("Sigmoid", "c", "s"), node("Mul", "c s", "y")]
    assert by_fusion(nodes, "activation") == [("Conv", "c"), ("Sigmoid", "s"), ("Mul", "y")]
    assert by_fusion(nodes, "chain") == [("Conv", "c"), ("Sigmoid", "y")]
    assert by_fusion(nodes, "conv") == [("Conv", "y")]


def test_one_residual_in_a_chain() -> None:
    nodes = [CONV, node("Add", "c x", "a"), node("Relu", "a", "r"), node("Add", "r x", "y")]
    assert by_fusion(nodes, "activation") == [("Conv", "c"), ("Add", "a"), ("Relu", "r"), ("Add", "y")]
    assert by_fusion(nodes, "chain") == [("Conv", "r"), ("Add", "y")]
    behind = [CONV, node("Relu", "c", "r"), node("Add", "r x", "a"), node("Relu", "a", "y")]
    assert by_fusion(behind, "chain") == [("Conv", "a"), ("Relu", "y")]


def test_chains_of_element_wise_ops_join_no_product() -> None:
    nodes = [node("MatMul", "x k", "m"), node("Exp", "m", "e"), node("Sqrt", "e", "q"), node("Abs", "q", "y")]
    assert by_fusion(nodes, "chain", k=(8, 8)) == [("MatMul", "m"), ("Exp", "y")]
    assert by_fusion(nodes, "activation", k=(8, 8)) == [("MatMul", "m"), ("Exp", "e"), ("Sqrt", "q"), ("Abs", "y")]
