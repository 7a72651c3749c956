"""The table of TFLite's operators, one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.frontends.tflite import attributes as about
from memplace_env.program.frontends.tflite import tflite_recurrent
from memplace_env.program.frontends.tflite.attributes import (
    Attributes,
    Orders,
    Shapes,
    no_attributes,
    no_orders,
    no_shapes,
)
from memplace_env.program.frontends.tflite.tflite_model import Call, custom
from memplace_env.program.lowering.node_graph import Operator, Site
from memplace_env.program.lowering.rules import independent_axes, matrix_products, vector_ops, views
from memplace_env.program.lowering.rules.vector_ops import per_input, per_result


@dataclass(frozen=True, slots=True)
class TfliteOperator:
    """A TFLite operator in ONNX's terms.

    Attributes:
        name: TFLite's name.
        operator: ONNX's operator, or one of our own where ONNX has none.
        inputs: TFLite's input positions in ONNX's order, None where ONNX has one more; None if they are the same.
        attributes: rule for the attributes that ONNX's rules read.
        shapes: rule for the operands of other shapes in ONNX, by ONNX's input position.
        orders: rule for the operands whose axes ONNX has in another order, by ONNX's input position: that order.
        of_shapes: whether the result follows from shapes alone, so that it is constant.
        activates: whether the option FusedActivationFunction is work in addition to the operator's own.
    """

    name: str
    operator: Operator
    inputs: tuple[int | None, ...] | None = None
    attributes: Callable[[Call], Attributes] = no_attributes
    shapes: Callable[[Call], Shapes] = no_shapes
    orders: Callable[[Call], Orders] = no_orders
    of_shapes: bool = False
    activates: bool = True


def _is(name: str, onnx: str, inputs: tuple[int | None, ...] | None = None, **more: Any) -> TfliteOperator:
    """An operator that ONNX has too."""
    return TfliteOperator(name, OPERATORS[onnx], inputs, **more)


def _like(name: str, onnx: str, inputs: tuple[int | None, ...] | None = None, **changes: Any) -> TfliteOperator:
    """An operator that differs a little from ONNX's."""
    return TfliteOperator(name, replace(OPERATORS[onnx], **changes), inputs)


def _elementwise(name: str, operator: str, operations: int) -> TfliteOperator:
    """An element-wise operator that ONNX lacks, with as many operations as its primitive ops."""
    axes, work = independent_axes.elementwise, per_result(operations)
    return TfliteOperator(name, Operator(operator, vector_ops=work, axes=axes, elementwise=True))


def _own(name: str, operator: str, work: Callable[[Site], int]) -> TfliteOperator:
    """An operator that ONNX lacks, whose tensors stay whole."""
    return TfliteOperator(name, Operator(operator, vector_ops=work))


def _move(name: str, operator: str, parameters: tuple[int, ...]) -> TfliteOperator:
    """An operator that only moves elements and that ONNX lacks."""
    axes, work = independent_axes.moved, vector_ops.nothing
    return TfliteOperator(name, Operator(operator, vector_ops=work, axes=axes, parameters=parameters))


# Compilers for TFLite treat a fully connected layer as a convolution of images of one pixel.
_FULLY_CONNECTED: Final = replace(
    OPERATORS["Gemm"], product=matrix_products.matmul, axes=independent_axes.fully_connected, conv_head=True
)

_DATA: Final = (0,)

_SAME: Final = (
    "ABS", "ADD", "CAST", "CEIL", "COS", "DEPTH_TO_SPACE", "DIV", "ELU", "EQUAL", "EXP", "FLOOR", "GATHER", "GELU",
    "GREATER", "HARD_SWISH", "LEAKY_RELU", "LESS", "LOG", "MUL", "NEG", "POW", "RELU", "ROUND", "SIGN", "SIN", "SLICE",
    "SPACE_TO_DEPTH", "SQRT", "SUB", "TANH", "TILE",
)  # fmt: skip
"""Operators that have the same name in ONNX, apart from its spelling."""

_RENAMED: Final = {
    "ADD_N": "Sum", "MAXIMUM": "Max", "MINIMUM": "Min", "FLOOR_MOD": "Mod", "LOGISTIC": "Sigmoid", "PRELU": "PRelu",
    "QUANTIZE": "QuantizeLinear", "GREATER_EQUAL": "GreaterOrEqual", "LESS_EQUAL": "LessOrEqual", "LOGICAL_AND": "And",
    "LOGICAL_NOT": "Not", "LOGICAL_OR": "Or", "SELECT": "Where", "SELECT_V2": "Where",
    "L2_NORMALIZATION": "LpNormalization", "CUMSUM": "CumSum", "TOPK_V2": "TopK", "BROADCAST_TO": "Expand",
    "CONCATENATION": "Concat", "GATHER_ND": "GatherND", "PACK": "Concat",
}  # fmt: skip
"""Other operators that take the row of an ONNX operator unchanged."""

_REDUCTIONS: Final = {
    "MEAN": "ReduceMean", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin", "REDUCE_PROD": "ReduceProd",
    "SUM": "ReduceSum",
}  # fmt: skip
"""Reductions over the axes that operand 1 names."""

_ROWS: Final = (
    *(_is(name, name.title().replace("_", "")) for name in _SAME),
    *(_is(name, onnx) for name, onnx in _RENAMED.items()),
    *(_is(name, onnx, attributes=about.reduction) for name, onnx in _REDUCTIONS.items()),
    # Matrix products.
    _is("CONV_2D", "Conv", attributes=about.convolution, orders=about.convolution_orders),
    _is("DEPTHWISE_CONV_2D", "Conv", attributes=about.depthwise, orders=about.depthwise_orders),
    _is(
        "TRANSPOSE_CONV",
        "ConvTranspose",
        (2, 1, 3),
        attributes=about.transposed_convolution,
        orders=about.transposed_convolution_orders,
    ),
    TfliteOperator(
        "FULLY_CONNECTED",
        _FULLY_CONNECTED,
        shapes=about.fully_connected_shapes,
        orders=about.fully_connected_orders,
    ),
    _is(
        custom("Convolution2DTransposeBias"),
        "ConvTranspose",
        attributes=about.transposed_convolution,
        orders=about.transposed_convolution_orders,
    ),
    _is("BATCH_MATMUL", "MatMul", orders=about.matmul_orders),
    TfliteOperator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        Operator("LSTM", product=tflite_recurrent.lstm, vector_ops=tflite_recurrent.lstm_vector_ops, weight=2),
        attributes=about.time_first,
        activates=False,
    ),
    TfliteOperator(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        Operator("RNN", product=tflite_recurrent.rnn, vector_ops=tflite_recurrent.rnn_vector_ops),
        attributes=about.time_first,
        activates=False,
    ),
    TfliteOperator(
        "SVDF", Operator("SVDF", product=tflite_recurrent.svdf, vector_ops=tflite_recurrent.svdf_vector_ops)
    ),
    # Element-wise, arithmetic.
    _elementwise("FLOOR_DIV", "FloorDiv", 2),
    _elementwise("SQUARED_DIFFERENCE", "SquaredDifference", 2),
    # Element-wise, activations.
    _is("RELU6", "Clip", _DATA),
    _is("RELU_0_TO_1", "Clip", _DATA),
    _is("RELU_N1_TO_1", "Clip", _DATA),
    # Element-wise, types. Constants are stored in one type and used in another.
    _like("DEQUANTIZE", "DequantizeLinear", view=None, view_of_constants=True),
    # Element-wise, anything else.
    _elementwise("NOT_EQUAL", "NotEqual", 1),
    _elementwise("RSQRT", "Rsqrt", 2),
    _elementwise("SQUARE", "Square", 1),
    # Normalisations and interpolation.
    _is("LOCAL_RESPONSE_NORMALIZATION", "LRN", attributes=about.response_window),
    _is("LOG_SOFTMAX", "LogSoftmax", attributes=about.last_axis),
    _is("SOFTMAX", "Softmax", attributes=about.last_axis),
    _is("RESIZE_BILINEAR", "Resize", attributes=about.interpolation(b"linear")),
    _is("RESIZE_NEAREST_NEIGHBOR", "Resize", attributes=about.interpolation(b"nearest")),
    # MediaPipe's: two operations per coordinate of a landmark, and one per source point or product and sum.
    _own(custom("Landmarks2TransformMatrix"), "LandmarksToTransform", per_input(2)),
    _own(custom("TransformLandmarks"), "TransformLandmarks", per_result(4)),
    _own(custom("TransformTensorBilinear"), "TransformTensor", per_result(4)),
    # Pooling and reductions.
    _is("AVERAGE_POOL_2D", "AveragePool", attributes=about.pooling),
    _is("L2_POOL_2D", "LpPool", attributes=about.pooling),
    _is("MAX_POOL_2D", "MaxPool", attributes=about.pooling),
    TfliteOperator(
        custom("MaxPoolingWithArgmax2D"), replace(OPERATORS["MaxPool"], written=None), attributes=about.pooling
    ),
    _is("ARG_MAX", "ArgMax", _DATA, attributes=about.searched_axis),
    _is("ARG_MIN", "ArgMin", _DATA, attributes=about.searched_axis),
    # Data movement.
    _is(custom("MaxUnpooling2D"), "MaxUnpool"),
    _move("BATCH_TO_SPACE_ND", "BatchToSpace", (1, 2)),
    _is("EMBEDDING_LOOKUP", "Gather", (1, 0)),
    _is("FILL", "Expand", (1, 0)),
    _like("MIRROR_PAD", "Pad", view=views.if_same_size),
    _is("ONE_HOT", "OneHot", (0, 1)),
    TfliteOperator("PAD", replace(OPERATORS["Pad"], view=views.if_same_size), attributes=about.padding),
    _like("PADV2", "Pad", view=views.if_same_size),
    _move("REVERSE_V2", "Reverse", (1,)),
    _move("SPACE_TO_BATCH_ND", "SpaceToBatch", (1, 2)),
    _is("SPLIT", "Split", (1,)),
    _is("SPLIT_V", "Split", (0, 1)),
    _is("STRIDED_SLICE", "Slice", (0, 1, 2, None, 3)),
    _is("TRANSPOSE", "Transpose", _DATA, attributes=about.permutation),
    _is("UNPACK", "Split", _DATA),
    # Views.
    _is("EXPAND_DIMS", "Unsqueeze", _DATA),
    _is("RESHAPE", "Reshape", _DATA),
    _is("SQUEEZE", "Squeeze", _DATA),
    # Results that follow from shapes and constants.
    _is("RANK", "Size", (), of_shapes=True),
    _is("DENSIFY", "Constant", (), of_shapes=True),  # of a constant, once before the first inference
    _own("RANGE", "Range", per_result(1)),
    _is("SHAPE", "Shape", (), of_shapes=True),
    _is("ZEROS_LIKE", "Constant", (), of_shapes=True),
)

ROWS: Final[Mapping[str, TfliteOperator]] = {row.name: row for row in _ROWS}
"""The rows by TFLite's name."""
