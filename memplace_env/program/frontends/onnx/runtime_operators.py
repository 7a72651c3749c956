"""The table of the operators that ONNX Runtime writes into the files that it optimises.

Each counts as the ONNX operators that it stands for: a `BiasGelu` as an addition and a Gelu, 9 operations per element.
An approximation of Gelu takes 8 as Gelu does, QuickGelu 3. Arithmetic on quantised tensors counts as on floats, without
dequantising and quantising again, as in ONNX's `QLinearConv`. An activation in an attribute takes 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onnx import AttributeProto, TensorProto

from memplace_env.program.frontends.onnx.rules import missing_values
from memplace_env.program.frontends.onnx.rules import runtime_costs as costs
from memplace_env.program.frontends.onnx.rules import runtime_shapes as shapes
from memplace_env.program.lowering.node_graph import BehindConv, Operator
from memplace_env.program.lowering.rules import independent_axes, vector_ops, views, window_axes
from memplace_env.program.lowering.rules import matrix_products as products
from memplace_env.program.lowering.rules.vector_ops import per_input, per_result

_UINT8: Final = TensorProto.UINT8
_LAYER: Final = 8
_ROOT_MEAN_SQUARE: Final = 5


def _elementwise(name: str, work: Any, *positions: int, **more: Any) -> Operator:
    """A number of operations per element of the inputs at these positions, broadcast."""
    rule = shapes.broadcast(*positions)
    usual: dict[str, Any] = {"shapes": rule, "axes": independent_axes.elementwise, "elementwise": True}
    return Operator(name, vector_ops=work, **usual | more)


def _gelu(name: str, work: Any) -> Operator:
    return _elementwise(name, work, 0, behind_conv=BehindConv.ACTIVATION)


def _normalisation(name: str, work: Any, statistics: int, **more: Any) -> Operator:
    axes = independent_axes.before_axis(-1)
    usual: dict[str, Any] = {"axes": axes, "shapes": shapes.normalised(statistics), "rowwise": True}
    return Operator(name, vector_ops=work, **usual | more)


def _convolution(name: str, **more: Any) -> Operator:
    """A convolution of images with channels first; conv heads can fuse more behind them."""
    usual: dict[str, Any] = {"product": products.conv, "axes": window_axes.convolution, "conv_head": True}
    usual |= {"epilogue_head": True, "filters": True, "channels_first": True}
    return Operator(name, **usual | more)


def _product(name: str, right: int = 1, **more: Any) -> Operator:
    usual: dict[str, Any] = {"product": costs.product(right), "weight": right, "shapes": shapes.product(right)}
    return Operator(name, epilogue_head=True, **usual | more)


_ROWS: Final = (
    # Products with what was behind them.
    _convolution(
        "FusedConv", vector_ops=costs.activated, activated=True, shapes=shapes.standard("Conv", (0, 1, 2), 13)
    ),
    _product("FusedGemm", vector_ops=costs.activated),
    _product("FusedMatMul", vector_ops=costs.scaled),
    _product("GemmFastGelu", vector_ops=costs.per_result_and(8, 2)),
    _product("TransposeMatMul", vector_ops=costs.scaled),
    _product("MatMulBnb4", product=costs.packed_product, shapes=shapes.packed_product),
    _product("MatMulNBits", product=costs.packed_product, shapes=shapes.packed_product),
    # Attention.
    Operator(
        "Attention",
        product=costs.projected_attention(4),
        vector_ops=costs.projected_attention_operations(4),
        shapes=shapes.projected_attention(4),
    ),
    Operator(
        "GroupQueryAttention",
        product=costs.attention,
        vector_ops=costs.attention_operations(),
        shapes=shapes.attention,
        parameters=(5, 6),
    ),
    Operator(
        "MultiHeadAttention",
        product=costs.attention,
        vector_ops=costs.attention_operations(3),
        shapes=shapes.attention,
    ),
    _elementwise("RotaryEmbedding", per_result(3), 0, axes=independent_axes.of_batch, elementwise=False),
    # Activations.
    _gelu("BiasGelu", per_result(9)),
    _gelu("FastGelu", costs.per_result_and(8, 1)),
    _gelu("Gelu", per_result(8)),
    _gelu("QuickGelu", per_result(3)),
    Operator("BiasSplitGelu", vector_ops=per_result(11), shapes=shapes.halved),
    Operator("BiasSoftmax", vector_ops=per_result(vector_ops.SOFTMAX + 1), shapes=shapes.broadcast(0)),
    # Normalisations; the first two stand in ONNX's domain also where its version does not have them.
    _normalisation("LayerNormalization", per_result(_LAYER), 2),
    _normalisation("SimplifiedLayerNormalization", per_result(_ROOT_MEAN_SQUARE), 1),
    _normalisation("SkipLayerNormalization", costs.per_result_and(_LAYER + 1, 4), 2),
    _normalisation("SkipSimplifiedLayerNormalization", costs.per_result_and(_ROOT_MEAN_SQUARE + 1, 3), 2),
    _normalisation(
        "EmbedLayerNormalization",
        costs.per_result_and(_LAYER + 1, 4),
        0,
        axes=None,
        gathers=(2, 3, 4),
        shapes=shapes.embedded,
    ),
    # Quantised.
    _convolution(
        "QLinearConv", weight=3, bias=8, shapes=shapes.typed(shapes.standard("Conv", (0, 3), 13), 7, _UINT8)
    ),
    _product("QGemm", 3, shapes=shapes.typed(shapes.typed(shapes.product(3), 1, _UINT8), 8, TensorProto.FLOAT)),
    _product("DynamicQuantizeMatMul", vector_ops=costs.rescaled(3, 4)),
    _product("MatMulIntegerToFloat", vector_ops=costs.rescaled(0, 6), shapes=shapes.typed(shapes.product(1), 2, 1)),
    Operator(
        "QAttention",
        product=costs.projected_attention(8),
        vector_ops=costs.projected_attention_operations(8),
        shapes=shapes.typed(shapes.projected_attention(8), 3, TensorProto.FLOAT),
    ),
    Operator(
        "DynamicQuantizeLSTM", product=costs.lstm, vector_ops=costs.lstm_operations, shapes=shapes.lstm, written=0
    ),
    _normalisation(
        "QEmbedLayerNormalization",
        costs.per_result_and(_LAYER + 1, 4),
        0,
        axes=None,
        gathers=(2, 3, 4),
        written=2,
        shapes=shapes.typed(shapes.embedded, 8, TensorProto.FLOAT),
    ),
    Operator("GatherBlockQuantized", vector_ops=per_result(1), shapes=shapes.gathered, gathers=(0,)),
    _elementwise("QLinearAdd", per_result(1), 0, 3, behind_conv=BehindConv.RESIDUAL),
    _elementwise("QLinearMul", per_result(1), 0, 3),
    _elementwise("QLinearLeakyRelu", per_result(1), 0, behind_conv=BehindConv.ACTIVATION),
    _elementwise("QLinearSigmoid", per_result(1), 0, behind_conv=BehindConv.ACTIVATION),
    _elementwise("QLinearWhere", per_result(1), 0, 4, 1),
    Operator("QLinearConcat", vector_ops=vector_ops.nothing, shapes=shapes.concatenated),
    Operator("QLinearSoftmax", vector_ops=per_result(vector_ops.SOFTMAX), shapes=shapes.broadcast(0)),
    Operator(
        "QLinearAveragePool",
        vector_ops=vector_ops.pooling,
        shapes=shapes.standard("AveragePool", (0,), 11),
        channels_first=True,
        pooled=missing_values.pooled,
    ),
    Operator(
        "QLinearGlobalAveragePool",
        vector_ops=per_input(1),
        shapes=shapes.standard("GlobalAveragePool", (0,), 11),
        channels_first=True,
    ),
    Operator("QLinearReduceMean", vector_ops=per_input(1), shapes=shapes.standard("ReduceMean", (0,), 13)),
    _elementwise("QuantizeLinear", per_result(1), 0, shapes=shapes.typed(shapes.broadcast(0), 2, _UINT8),
                 axes=independent_axes.scaled, behind_conv=BehindConv.ACTIVATION),
    _elementwise("DequantizeLinear", per_result(1), 0, shapes=shapes.typed(shapes.broadcast(0), 1, TensorProto.FLOAT),
                 axes=independent_axes.scaled, behind_conv=BehindConv.ACTIVATION, view=views.unless_delivered),
)  # fmt: skip

RUNTIME_OPERATORS: Final[Mapping[str, Operator]] = {row.name: row for row in _ROWS}
"""The rows by name, of ONNX Runtime's domain and of what it adds to ONNX's."""

_TYPES: Final[Mapping[Any, tuple[str, ...]]] = {
    AttributeProto.FLOAT: ("alpha",),
    AttributeProto.INT: (
        "K", "N", "axis", "bits", "ceil_mode", "count_include_pad", "do_rotary", "gather_axis", "group", "keepdims",
        "kv_num_heads", "num_heads", "transA", "transB", "transBatchA", "transBatchB",
    ),
    AttributeProto.INTS: ("axes", "dilations", "kernel_shape", "pads", "qkv_hidden_sizes", "strides"),
    AttributeProto.STRING: ("activation", "auto_pad"),
}  # fmt: skip

RUNTIME_ATTRIBUTES: Final[Mapping[str, int]] = {name: kind for kind, names in _TYPES.items() for name in names}
"""Types of the attributes that any rule of these rows reads, as ONNX's schemas have them for its own operators."""
