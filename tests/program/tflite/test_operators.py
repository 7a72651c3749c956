"""Ops of each family of TFLite operators; the table contains only operators that exist."""

from __future__ import annotations

from typing import Any

import tflite

from memplace_env.program.frontends.tflite.tflite_operators import ROWS
from memplace_env.program.program import GEOMETRY, Program, TensorKind
from tests.offenders import every
from tests.program.models import names, operand_names
from tests.program.tflite.writer import Op, T, load, op

IMAGE = T([1, 4, 6, 8])


def columns(program: Program, number: int = 0) -> dict[str, int]:
    return dict(zip(GEOMETRY, map(int, program.geometry[number]), strict=True))


def test_every_row_is_an_operator_of_tflite() -> None:
    assert {name for name in ROWS if not name.startswith("custom operator ")} <= set(vars(tflite.BuiltinOperator))
    assert all(row.of_shapes or row.operator.stays for row in ROWS.values())


def test_a_transposed_convolution() -> None:
    tensors = {"size": T([4], "INT32", [1, 8, 12, 5]), "w": T([5, 3, 3, 8]), "x": IMAGE, "y": T([1, 8, 12, 5])}
    program = load([op("TRANSPOSE_CONV", "size w x", "y", Padding=0, StrideH=2, StrideW=2)], tensors)
    assert program.op_type == ("ConvTranspose",)
    assert program.gemm.tolist() == [[1, 24, 8, 45]]
    assert (columns(program)["pad"], columns(program)["stride"]) == (0, 2)
    assert operand_names(program, 0) == ["x", "w"]


@every(("data", "result"), [([2, 3, 12], [2, 3, 5]), ([6, 2, 2, 3], [6, 5]), ([6, 12], [6, 5])])
def test_a_fully_connected_layer(data: list[int], result: list[int]) -> None:
    program = load([op("FULLY_CONNECTED", "x w _", "y")], {"x": T(data), "w": T([5, 12]), "y": T(result)})
    assert program.op_type == ("Gemm",)
    assert program.gemm.tolist() == [[1, 6, 12, 5]]
    assert columns(program)["ofm_z"] == 5


def test_a_batched_product_with_turned_operands() -> None:
    tensors = {"x": T([2, 4, 6, 5]), "z": T([2, 4, 7, 6]), "y": T([2, 4, 5, 7])}
    program = load([op("BATCH_MATMUL", "x z", "y", AdjX=1, AdjY=1)], tensors, inputs="x z")
    assert program.gemm.tolist() == [[8, 5, 6, 7]]


def test_operators_of_mediapipe() -> None:
    """A transposed convolution with a bias, of the size that its struct of options gives; pooling and its inverse."""
    tensors = {"x": T([1, 8, 8, 4]), "w": T([2, 2, 2, 4]), "b": T([2], "INT32"), "y": T([1, 16, 16, 2])}
    program = load([Op("Convolution2DTransposeBias", "x w b", "y", custom=(1, 2, 2))], tensors)
    assert (program.op_type, int(program.macs.sum())) == (("ConvTranspose",), 2048)
    assert (columns(program)["pad"], columns(program)["stride"]) == (0, 2)
    assert set(operand_names(program, 0)) == {"x", "w", "b"}
    pooled = {"x": IMAGE, "p": T([1, 2, 3, 8]), "i": T([1, 2, 3, 8], "INT32"), "y": IMAGE}
    window = (1, 2, 2, 2, 2)
    ops = [Op("MaxPoolingWithArgmax2D", "x", "p i", custom=window), Op("MaxUnpooling2D", "p i", "y", custom=window)]
    program = load(ops, pooled)
    assert (program.op_type, program.vector_ops.tolist()) == (("MaxPool", "MaxUnpool"), [4 * 48, 0])
    assert operand_names(program, 1) == ["p", "i"]
    marks = {"x": T([1, 4, 4, 2]), "l": T([1, 9, 3]), "m": T([1, 4, 4]), "y": T([1, 2, 2, 2]), "z": T([1, 9, 2])}
    ops = [Op("Landmarks2TransformMatrix", "l", "m"), Op("TransformTensorBilinear", "x m", "y")]
    program = load([*ops, Op("TransformLandmarks", "l m", "z")], marks, inputs="x l", outputs="y z")
    assert program.vector_ops.tolist() == [2 * 27, 4 * 8, 4 * 18]


def test_a_sparse_weight_is_made_dense_once() -> None:
    tensors = {"x": IMAGE, "s": T([8, 1, 1, 8], sparse=True), "w": T([8, 1, 1, 8]), "y": IMAGE}
    program = load([op("DENSIFY", "s", "w"), op("CONV_2D", "x w _", "y")], tensors)
    assert (program.op_type, names(program, TensorKind.WEIGHT)) == (("Conv",), {"w"})
    assert program.bytes_of(TensorKind.WEIGHT) == 64


ELEMENTS = 4 * 6 * 8
UNARY = {
    "RELU": "Relu", "RELU6": "Clip", "RELU_N1_TO_1": "Clip", "LEAKY_RELU": "LeakyRelu", "HARD_SWISH": "HardSwish",
    "LOGISTIC": "Sigmoid", "TANH": "Tanh", "ELU": "Elu", "EXP": "Exp", "ABS": "Abs", "SQRT": "Sqrt", "QUANTIZE":
    "QuantizeLinear", "DEQUANTIZE": "DequantizeLinear", "NEG": "Neg", "LOG": "Log",
}  # fmt: skip
BINARY = {
    "ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "MAXIMUM": "Max", "MINIMUM": "Min", "POW": "Pow",
    "PRELU": "PRelu", "GREATER": "Greater",
}  # fmt: skip


@every("op_type", UNARY)
def test_element_wise_operators(op_type: str) -> None:
    program = load([op(op_type, "x", "y")], {"x": IMAGE, "y": IMAGE})
    assert program.op_type == (UNARY[op_type],)
    assert program.vector_ops.tolist() == [ELEMENTS]
    assert [columns(program)[name] for name in ("ifm_x", "ifm_y", "ifm_z", "ofm_x")] == [6, 4, 8, 6]


@every("op_type", BINARY)
def test_element_wise_operators_of_two_operands(op_type: str) -> None:
    program = load([op(op_type, "x z", "y")], {"x": IMAGE, "z": T([8]), "y": IMAGE}, inputs="x z")
    assert program.op_type == (BINARY[op_type],)
    assert program.vector_ops.tolist() == [ELEMENTS]
    assert program.use_bytes.tolist() == [ELEMENTS, 8, ELEMENTS]


@every(("op_type", "operations"), [("RSQRT", 2), ("SQUARE", 1), ("GELU", 8), ("SOFTMAX", 5)])
def test_operators_of_several_operations(op_type: str, operations: int) -> None:
    assert load([op(op_type, "x", "y")], {"x": IMAGE, "y": IMAGE}).vector_ops.tolist() == [operations * ELEMENTS]


AXES = T([2], "INT32", [1, 2])
SMALL = T([1, 8])
ONE = T([1], "INT32", [1])
OTHERS: dict[str, tuple[Op, dict[str, T], str, int]] = {
    "mean": (op("MEAN", "x a", "y"), {"a": AXES, "y": SMALL}, "ReduceMean", ELEMENTS),
    "sum": (op("SUM", "x a", "y"), {"a": AXES, "y": SMALL}, "ReduceSum", ELEMENTS),
    "maximum": (op("REDUCE_MAX", "x a", "y"), {"a": AXES, "y": SMALL}, "ReduceMax", ELEMENTS),
    "arg max": (op("ARG_MAX", "x a", "y"), {"a": ONE, "y": T([1, 6, 8], "INT32")}, "ArgMax", ELEMENTS),
    "max pool": (
        op("MAX_POOL_2D", "x", "y", FilterHeight=2, FilterWidth=3, StrideH=2, StrideW=3),
        {"y": T([1, 2, 2, 8])}, "MaxPool", 6 * 32,
    ),
    "average pool": (
        op("AVERAGE_POOL_2D", "x", "y", FilterHeight=4, FilterWidth=6), {"y": T([1, 1, 1, 8])}, "AveragePool", ELEMENTS,
    ),
    "bilinear": (op("RESIZE_BILINEAR", "x a", "y"), {"a": AXES, "y": T([1, 8, 12, 8])}, "Resize", 16 * ELEMENTS),
    "nearest": (op("RESIZE_NEAREST_NEIGHBOR", "x a", "y"), {"a": AXES, "y": T([1, 8, 12, 8])}, "Resize", 0),
    "local response": (
        op("LOCAL_RESPONSE_NORMALIZATION", "x", "y", Radius=2), {"y": IMAGE}, "LRN", 8 * ELEMENTS,
    ),
    "squared difference": (op("SQUARED_DIFFERENCE", "x x", "y"), {"y": IMAGE}, "SquaredDifference", 2 * ELEMENTS),
    "concatenation": (op("CONCATENATION", "x x w", "y"), {"w": IMAGE, "y": T([1, 4, 6, 24])}, "Concat", 0),
    "pack": (op("PACK", "x w", "y"), {"w": IMAGE, "y": T([2, 1, 4, 6, 8])}, "Concat", 0),
    "unpack": (op("UNPACK", "x", "y z"), {"y": T([1, 2, 6, 8]), "z": T([1, 2, 6, 8])}, "Split", 0),
    "split": (op("SPLIT", "a x", "y z"), {"a": ONE, "y": T([1, 2, 6, 8]), "z": T([1, 2, 6, 8])}, "Split", 0),
    "slice": (op("SLICE", "x a a", "y"), {"a": AXES, "y": SMALL}, "Slice", 0),
    "strided slice": (op("STRIDED_SLICE", "x a a a", "y"), {"a": AXES, "y": SMALL}, "Slice", 0),
    "transpose": (
        op("TRANSPOSE", "x a", "y"), {"a": T([4], "INT32", [0, 3, 1, 2]), "y": T([1, 8, 4, 6])}, "Transpose", 0,
    ),
    "gather": (op("GATHER", "x w", "y"), {"w": T([2], "INT32"), "y": SMALL}, "Gather", 0),
    "space to depth": (op("SPACE_TO_DEPTH", "x", "y"), {"y": T([1, 2, 3, 32])}, "SpaceToDepth", 0),
    "space to batch": (op("SPACE_TO_BATCH_ND", "x a a", "y"), {"a": AXES, "y": T([4, 2, 3, 8])}, "SpaceToBatch", 0),
    "pad": (op("PAD", "x a", "y"), {"a": T([4, 2], "INT32"), "y": T([1, 5, 7, 8])}, "Pad", 0),
    "select": (op("SELECT_V2", "c x x", "y"), {"c": T([1], "BOOL"), "y": IMAGE}, "Where", ELEMENTS),
}  # fmt: skip


@every("name", OTHERS)
def test_other_operators(name: str) -> None:
    call, tensors, op_type, vector_ops = OTHERS[name]
    program = load([call], {"x": IMAGE, **tensors}, outputs=call.outputs)
    assert program.op_type == (op_type,)
    assert program.vector_ops.tolist() == [vector_ops]
    assert not {"a"} & set(program.tensor_name)


def test_a_gather_reads_the_rows_it_selects() -> None:
    tensors = {"table": T([1000, 16]), "x": T([3], "INT32"), "y": T([3, 16])}
    for call in (op("GATHER", "table x", "y"), op("EMBEDDING_LOOKUP", "x table", "y")):
        program = load([call], tensors)
        assert sorted(program.use_bytes.tolist()) == [12, 48, 48]


def recurrent(op_type: str, shapes: dict[int, T], last: int, **options: Any) -> Program:
    """A recurrent operator of 5 steps of batch 2 with 6 features and 4 outputs; operands by position."""
    inputs = " ".join(["x", *(f"t{i}" if i in shapes else "_" for i in range(1, last + 1))])
    tensors = {"x": T([2, 5, 6]), "y": T([2, 5, 4])} | {f"t{i}": shape for i, shape in shapes.items()}
    return load([op(op_type, inputs, "y", **options)], tensors)


def test_a_lstm() -> None:
    gates = {i: T([4, 6]) for i in (1, 2, 3, 4)} | {i: T([4, 4]) for i in (5, 6, 7, 8)}
    states = {i: T([2, 4], variable=True) for i in (18, 19)}
    program = recurrent("UNIDIRECTIONAL_SEQUENCE_LSTM", gates | states, 19, FusedActivationFunction=4)
    assert program.op_type == ("LSTM",)
    assert program.macs.sum() == 5 * 2 * 4 * 4 * (6 + 4)
    assert program.vector_ops.sum() == 5 * 2 * 4 * 12
    assert names(program, TensorKind.INPUT) == {"x", "t18", "t19"}
    coupled = {i: shape for i, shape in gates.items() if i not in (1, 5)}
    projected = coupled | {i: T([4, 3]) for i in (6, 7, 8)} | {16: T([3, 4])}
    assert recurrent("UNIDIRECTIONAL_SEQUENCE_LSTM", coupled, 19).macs.sum() == 5 * 2 * 4 * 3 * (6 + 4)
    more = recurrent("UNIDIRECTIONAL_SEQUENCE_LSTM", projected, 19).macs.sum()
    assert more == 5 * 2 * (4 * 3 * (6 + 3) + 4 * 3)
    turned = recurrent("UNIDIRECTIONAL_SEQUENCE_LSTM", gates, 19, TimeMajor=1)
    assert turned.gemm.tolist() == [[2, 5, 40, 4]]


def test_a_plain_recurrent_layer() -> None:
    program = recurrent("UNIDIRECTIONAL_SEQUENCE_RNN", {1: T([4, 6]), 2: T([4, 4]), 3: T([4])}, 3)
    assert program.gemm.tolist() == [[5, 2, 10, 4]]
    assert program.vector_ops.tolist() == [2 * 5 * 2 * 4]


def test_a_svdf() -> None:
    tensors = {"x": T([1, 40]), "f": T([32, 40]), "t": T([32, 9]), "s": T([1, 288], variable=True), "y": T([1, 32])}
    program = load([op("SVDF", "x f t _ s", "y", Rank=1, FusedActivationFunction=1)], tensors)
    assert program.gemm.tolist() == [[1, 1, 49, 32]]
    assert program.vector_ops.tolist() == [64]


VIEWS = {
    "reshape": (op("RESHAPE", "x a", "v"), {"a": AXES, "v": T([24, 8])}),
    "squeeze": (op("SQUEEZE", "x", "v"), {"v": T([4, 6, 8])}),
    "expanded": (op("EXPAND_DIMS", "x a", "v"), {"a": AXES, "v": T([1, 1, 4, 6, 8])}),
    "transposed ones": (op("TRANSPOSE", "x a", "v"), {"a": T([4], "INT32", [1, 0, 2, 3]), "v": T([4, 1, 6, 8])}),
    "same type": (op("CAST", "x", "v"), {"v": IMAGE}),
    "padded by nothing": (op("PAD", "x a", "v"), {"a": AXES, "v": IMAGE}),
    "all of it": (op("SLICE", "x a a", "v"), {"a": AXES, "v": IMAGE}),
    "one part": (op("SPLIT", "a x", "v"), {"a": ONE, "v": IMAGE}),
}


@every("name", VIEWS)
def test_views_make_no_tensor(name: str) -> None:
    call, tensors = VIEWS[name]
    program = load([call, op("TANH", "v", "y")], {"x": IMAGE, **tensors, "y": T(tensors["v"].shape)})
    assert program.op_type == ("Tanh",)
    assert program.tensor_name == ("x", "y")


def test_shape_arithmetic_disappears() -> None:
    ops = [
        op("EXP", "x", "unread"),
        op("SHAPE", "unread", "dims"),
        op("STRIDED_SLICE", "dims a a a", "rows"),
        op("PACK", "rows a", "target"),
        op("TANH", "x", "t"),
        op("RESHAPE", "t target", "y"),
    ]
    dims = T([4], "INT32")
    tensors = {"x": IMAGE, "unread": IMAGE, "dims": dims, "a": ONE, "rows": T([1], "INT32"), "target": T([2], "INT32")}
    program = load(ops, tensors | {"t": IMAGE, "y": T([24, 8])})
    assert (program.op_type, program.tensor_name) == (("Tanh",), ("x", "t"))


def test_results_that_are_left_out() -> None:
    parts = {"y": T([1, 2, 6, 8]), "z": T([1, 2, 6, 8])}
    program = load([op("UNPACK", "x", "_ z"), op("PRELU", "z w", "y")], {"x": IMAGE, "w": T([8]), **parts})
    assert program.op_type == ("Split", "PRelu")
    squared = load([op("FULLY_CONNECTED", "x x _", "y")], {"x": T([3, 5]), "y": T([3, 3])})
    assert squared.gemm.tolist() == [[1, 3, 5, 3]]


def test_what_follows_from_constants_is_constant() -> None:
    scalar, ops = T([], "INT32"), [op("RANGE", "a b c", "r"), op("ADD", "x r", "y")]
    program = load(ops, {"x": SMALL, "a": scalar, "b": scalar, "c": scalar, "r": T([8], "INT32"), "y": SMALL})
    assert program.op_type == ("Add",)
    assert names(program, TensorKind.WEIGHT) == {"r"}


def test_what_only_steers_a_view_disappears() -> None:
    ops = [op("EXP", "x", "sizes"), op("SLICE", "x sizes sizes", "v"), op("TANH", "v", "y")]
    program = load(ops, {"x": IMAGE, "sizes": IMAGE, "v": IMAGE, "y": IMAGE})
    assert (program.op_type, program.tensor_name) == (("Tanh",), ("x", "y"))


def test_dequantised_weights_are_stored_quantised() -> None:
    ops = [op("DEQUANTIZE", "half", "w"), op("FULLY_CONNECTED", "x w _", "y")]
    tensors = {
        "x": T([1, 6], "FLOAT32"),
        "half": T([5, 6], "FLOAT16"),
        "w": T([5, 6], "FLOAT32"),
        "y": T([1, 5], "FLOAT32"),
    }
    program = load(ops, tensors)
    assert program.op_type == ("Gemm",)
    assert program.bytes_of(TensorKind.WEIGHT) == 60


@every(
    ("activations", "weights", "dtype", "sizes"),
    [
        ("INT8", "INT8", None, ("int8", 6, 30)),
        ("UINT8", "UINT8", None, ("int8", 6, 30)),
        ("INT16", "INT8", None, ("int8", 12, 30)),
        ("INT8", "INT4", None, ("int8", 6, 15)),
        ("FLOAT16", "FLOAT16", None, ("float16", 12, 60)),
        ("FLOAT32", "INT8", None, ("float32", 24, 30)),
        ("FLOAT32", "FLOAT32", "int8", ("int8", 6, 30)),
        ("FLOAT32", "FLOAT32", "bfloat16", ("bfloat16", 12, 60)),
        ("INT8", "INT8", "float32", ("float32", 6, 30)),
    ],
)
def test_types(activations: str, weights: str, dtype: str | None, sizes: tuple[str, int, int]) -> None:
    tensors = {"x": T([1, 6], activations), "w": T([5, 6], weights), "y": T([1, 5], activations)}
    program = load([op("FULLY_CONNECTED", "x w _", "y")], tensors, dtype=dtype)
    actual = (program.dtype, program.bytes_of(TensorKind.INPUT), program.bytes_of(TensorKind.WEIGHT))
    assert actual == sizes
