"""All that the loader knows of TFLite's operators, one row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from memplace_env.workload.lowered.operator import Operator
from memplace_env.workload.lowered.rules import products, vector_ops, views
from memplace_env.workload.lowered.rules.vector_ops import per_result
from memplace_env.workload.onnx.operator_table import OPERATORS
from memplace_env.workload.tflite import attributes as about
from memplace_env.workload.tflite import recurrent
from memplace_env.workload.tflite.attributes import Attributes, Shapes, no_attributes, no_shapes
from memplace_env.workload.tflite.model import Call


@dataclass(frozen=True, slots=True)
class Row:
    """How a TFLite operator is one of ONNX.

    Attributes:
        name: what TFLite calls it.
        operator: ONNX's operator, or one of our own where ONNX has none.
        inputs: TFLite's input positions in ONNX's order, None where ONNX has one more; None if they are the same.
        attributes: those that ONNX's rules ask for.
        shapes: by ONNX's input position, the shape in which ONNX has an operand.
        of_shapes: the result follows from shapes alone, so it is constant.
        activates: the option FusedActivationFunction is work beside the operator's own.
    """

    name: str
    operator: Operator
    inputs: tuple[int | None, ...] | None = None
    attributes: Callable[[Call], Attributes] = no_attributes
    shapes: Callable[[Call], Shapes] = no_shapes
    of_shapes: bool = False
    activates: bool = True


def _is(name: str, onnx: str, inputs: tuple[int | None, ...] | None = None, **more: Any) -> Row:
    """An operator that ONNX has too."""
    return Row(name, OPERATORS[onnx], inputs, **more)


def _like(name: str, onnx: str, inputs: tuple[int | None, ...] | None = None, **changes: Any) -> Row:
    """An operator that ONNX has a little differently."""
    return Row(name, replace(OPERATORS[onnx], **changes), inputs)


def _elementwise(name: str, operator: str, operations: int) -> Row:
    """An element-wise operator that ONNX lacks; operations as its primitive ops would take."""
    return Row(name, Operator(operator, vector_ops=per_result(operations), elementwise=True))


def _move(name: str, operator: str, parameters: tuple[int, ...]) -> Row:
    """An operator that only moves elements and that ONNX lacks."""
    return Row(name, Operator(operator, vector_ops=vector_ops.nothing, parameters=parameters))


# To compilers for TFLite a fully connected layer is a convolution of images of one pixel.
_FULLY_CONNECTED: Final = replace(OPERATORS["Gemm"], product=products.matmul, conv_head=True)

_DATA: Final = (0,)

_ROWS: Final = (
    # Matrix products.
    _is("CONV_2D", "Conv", attributes=about.convolution, shapes=about.convolution_shapes),
    _is("DEPTHWISE_CONV_2D", "Conv", attributes=about.depthwise, shapes=about.depthwise_shapes),
    _is(
        "TRANSPOSE_CONV",
        "ConvTranspose",
        (2, 1, 3),
        attributes=about.transposed_convolution,
        shapes=about.transposed_convolution_shapes,
    ),
    Row("FULLY_CONNECTED", _FULLY_CONNECTED, shapes=about.fully_connected_shapes),
    _is("BATCH_MATMUL", "MatMul", shapes=about.matmul_shapes),
    Row(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        Operator("LSTM", product=recurrent.lstm, vector_ops=recurrent.lstm_vector_ops, weight=2),
        attributes=about.time_first,
        activates=False,
    ),
    Row(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        Operator("RNN", product=recurrent.rnn, vector_ops=recurrent.rnn_vector_ops),
        attributes=about.time_first,
        activates=False,
    ),
    Row("SVDF", Operator("SVDF", product=recurrent.svdf, vector_ops=recurrent.svdf_vector_ops)),
    # Element-wise, arithmetic.
    _is("ADD", "Add"),
    _is("ADD_N", "Sum"),
    _is("DIV", "Div"),
    _is("MAXIMUM", "Max"),
    _is("MINIMUM", "Min"),
    _is("MUL", "Mul"),
    _is("POW", "Pow"),
    _is("SUB", "Sub"),
    _elementwise("FLOOR_DIV", "FloorDiv", 2),
    _is("FLOOR_MOD", "Mod"),
    _elementwise("SQUARED_DIFFERENCE", "SquaredDifference", 2),
    # Element-wise, activations.
    _is("ELU", "Elu"),
    _is("GELU", "Gelu"),
    _is("HARD_SWISH", "HardSwish"),
    _is("LEAKY_RELU", "LeakyRelu"),
    _is("LOGISTIC", "Sigmoid"),
    _is("PRELU", "PRelu"),
    _is("RELU", "Relu"),
    _is("RELU6", "Clip", _DATA),
    _is("RELU_0_TO_1", "Clip", _DATA),
    _is("RELU_N1_TO_1", "Clip", _DATA),
    _is("TANH", "Tanh"),
    # Element-wise, types. Constants are stored as they are, and come as they are used.
    _is("CAST", "Cast"),
    _like("DEQUANTIZE", "DequantizeLinear", view=None, view_of_constants=True),
    _is("QUANTIZE", "QuantizeLinear"),
    # Element-wise, anything else.
    _is("ABS", "Abs"),
    _is("CEIL", "Ceil"),
    _is("COS", "Cos"),
    _is("EQUAL", "Equal"),
    _is("EXP", "Exp"),
    _is("FLOOR", "Floor"),
    _is("GREATER", "Greater"),
    _is("GREATER_EQUAL", "GreaterOrEqual"),
    _is("LESS", "Less"),
    _is("LESS_EQUAL", "LessOrEqual"),
    _is("LOG", "Log"),
    _is("LOGICAL_AND", "And"),
    _is("LOGICAL_NOT", "Not"),
    _is("LOGICAL_OR", "Or"),
    _is("NEG", "Neg"),
    _elementwise("NOT_EQUAL", "NotEqual", 1),
    _is("ROUND", "Round"),
    _elementwise("RSQRT", "Rsqrt", 2),
    _is("SELECT", "Where"),
    _is("SELECT_V2", "Where"),
    _is("SIGN", "Sign"),
    _is("SIN", "Sin"),
    _is("SQRT", "Sqrt"),
    _elementwise("SQUARE", "Square", 1),
    # Normalisations and interpolation.
    _is("L2_NORMALIZATION", "LpNormalization"),
    _is("LOCAL_RESPONSE_NORMALIZATION", "LRN", attributes=about.response_window),
    _is("LOG_SOFTMAX", "LogSoftmax"),
    _is("RESIZE_BILINEAR", "Resize", attributes=about.interpolation(b"linear")),
    _is("RESIZE_NEAREST_NEIGHBOR", "Resize", attributes=about.interpolation(b"nearest")),
    _is("SOFTMAX", "Softmax"),
    # Pooling and reductions.
    _is("AVERAGE_POOL_2D", "AveragePool", attributes=about.pooling),
    _is("L2_POOL_2D", "LpPool", attributes=about.pooling),
    _is("MAX_POOL_2D", "MaxPool", attributes=about.pooling),
    _is("ARG_MAX", "ArgMax", _DATA),
    _is("ARG_MIN", "ArgMin", _DATA),
    _is("CUMSUM", "CumSum"),
    _is("MEAN", "ReduceMean"),
    _is("REDUCE_MAX", "ReduceMax"),
    _is("REDUCE_MIN", "ReduceMin"),
    _is("REDUCE_PROD", "ReduceProd"),
    _is("SUM", "ReduceSum"),
    _is("TOPK_V2", "TopK"),
    # Data movement.
    _move("BATCH_TO_SPACE_ND", "BatchToSpace", (1, 2)),
    _is("BROADCAST_TO", "Expand"),
    _is("CONCATENATION", "Concat"),
    _is("DEPTH_TO_SPACE", "DepthToSpace"),
    _is("EMBEDDING_LOOKUP", "Gather", (1, 0)),
    _is("FILL", "Expand", (1, 0)),
    _is("GATHER", "Gather"),
    _is("GATHER_ND", "GatherND"),
    _like("MIRROR_PAD", "Pad", view=views.if_same_size),
    _is("ONE_HOT", "OneHot", (0, 1)),
    _is("PACK", "Concat"),
    Row("PAD", replace(OPERATORS["Pad"], view=views.if_same_size), attributes=about.padding),
    _like("PADV2", "Pad", view=views.if_same_size),
    _move("REVERSE_V2", "Reverse", (1,)),
    _is("SLICE", "Slice"),
    _move("SPACE_TO_BATCH_ND", "SpaceToBatch", (1, 2)),
    _is("SPACE_TO_DEPTH", "SpaceToDepth"),
    _is("SPLIT", "Split", (1,)),
    _is("SPLIT_V", "Split", (0, 1)),
    _is("STRIDED_SLICE", "Slice", (0, 1, 2, None, 3)),
    _is("TILE", "Tile"),
    _is("TRANSPOSE", "Transpose", _DATA, attributes=about.permutation),
    _is("UNPACK", "Split", _DATA),
    # Views.
    _is("EXPAND_DIMS", "Unsqueeze", _DATA),
    _is("RESHAPE", "Reshape", _DATA),
    _is("SQUEEZE", "Squeeze", _DATA),
    # What shapes and constants say.
    _is("RANK", "Size", (), of_shapes=True),
    Row("RANGE", Operator("Range", vector_ops=per_result(1))),
    _is("SHAPE", "Shape", (), of_shapes=True),
    _is("ZEROS_LIKE", "Constant", (), of_shapes=True),
)

ROWS: Final[Mapping[str, Row]] = {row.name: row for row in _ROWS}
"""The rows by TFLite's name."""
