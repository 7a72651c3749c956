"""The table of ONNX's operators, one row each.

MACs are counted as in model papers: padding positions count, biases do not. Numbers of element operations are our
choice, as vector units differ: an element-wise op takes 1 per result element, except Erf 4, Gelu 8 (its five primitive
ops with that Erf), Mish 3, Swish 2 and BatchNormalization 2 (scale and shift); softmax 5; layer, group and instance
normalisation 8; RMS normalisation 5; a reduction or global pooling 1 per input element; pooling its kernel's area per
result element; interpolation 1 per source point; a scatter that adds or multiplies 1 per update; data movement 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from memplace_env.program.frontends.onnx.rules import largest_shapes, missing_values, sequences, shape_folds
from memplace_env.program.frontends.onnx.rules.shape_folds import accumulated, of_elements, reduced
from memplace_env.program.lowering.node_graph import BehindConv, Operator, Site
from memplace_env.program.lowering.rules import (
    independent_axes,
    matrix_products,
    vector_ops,
    views,
    window_axes,
)
from memplace_env.program.lowering.rules.independent_axes import Rule
from memplace_env.program.lowering.rules.vector_ops import per_input, per_result


def _elementwise(name: str, operations: int = 1, **more: Any) -> Operator:
    """A number of operations per element of the result."""
    axes = more.pop("axes", independent_axes.elementwise)
    return Operator(name, vector_ops=per_result(operations), axes=axes, elementwise=True, **more)


def _activation(name: str, operations: int = 1, **more: Any) -> Operator:
    """An element-wise operator that "conv" fuses after a convolution."""
    return _elementwise(name, operations, behind_conv=BehindConv.ACTIVATION, **more)


def _variadic(name: str, **more: Any) -> Operator:
    """An element-wise operator of any number of operands."""
    work, axes = vector_ops.per_further_operand, independent_axes.elementwise
    return Operator(name, vector_ops=work, axes=axes, elementwise=True, view=views.of_only_input, **more)


def _rows(name: str, operations: int, axes: Rule, **more: Any) -> Operator:
    """An operator that normalises each row by what it is as a whole."""
    return Operator(name, vector_ops=per_result(operations), axes=axes, rowwise=True, **more)


def _reduction(name: str, **more: Any) -> Operator:
    """One operation per element of the operand, whose axes and parameters are those of most reductions."""
    usual: dict[str, Any] = {"vector_ops": per_input(1), "parameters": (1,), "axes": independent_axes.reduced}
    return Operator(name, **usual | more)


def _move(name: str, parameters: tuple[int, ...] = (), **more: Any) -> Operator:
    """No operations, only traffic."""
    axes = more.pop("axes", independent_axes.moved)
    return Operator(name, vector_ops=vector_ops.nothing, parameters=parameters, axes=axes, **more)


def _view(name: str, **more: Any) -> Operator:
    """Always a view."""
    return Operator(name, view=views.always, **more)


def _random(name: str) -> Operator:
    """One operation per random number."""
    return Operator(name, vector_ops=per_result(1), random=True)


def _product(name: str, **more: Any) -> Operator:
    """A matrix product that "epilogue" fuses with element-wise ops after it."""
    return Operator(name, epilogue_head=True, **more)


def _convolution(name: str, **more: Any) -> Operator:
    """A product over the windows of images."""
    axes = more.pop("axes", window_axes.convolution)
    return _product(name, axes=axes, filters=True, channels_first=True, **more)


def _recurrent(name: str, gates: int) -> Operator:
    return Operator(name, product=matrix_products.recurrent, vector_ops=vector_ops.recurrent(gates), written=0)


def _pooling(name: str, rule: Callable[[Site], int], axes: Rule, **more: Any) -> Operator:
    return Operator(name, vector_ops=rule, axes=axes, channels_first=True, **more)


_ACTIVATIONS: Final = (
    "Celu", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "PRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign",
    "Tanh", "ThresholdedRelu",
)  # fmt: skip
"""Activations of one operation without a fold."""

_ELEMENTWISE: Final = (
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
    "BitwiseXor", "Cos", "Cosh", "Exp", "IsInf", "IsNaN", "Log", "Shrink", "Sin", "Sinh", "Tan",
)  # fmt: skip
"""Other element-wise operators of one operation without a fold."""

_FOLDED: Final[Mapping[str, Callable[..., Any]]] = {
    "Abs": np.abs, "And": np.logical_and, "Ceil": np.ceil, "Equal": np.equal, "Floor": np.floor, "Greater": np.greater,
    "Less": np.less, "Neg": np.negative, "Not": np.logical_not, "Or": np.logical_or, "Pow": np.power,
    "Reciprocal": np.reciprocal, "Round": np.rint, "Sign": np.sign, "Sqrt": np.sqrt, "Where": np.where,
    "Xor": np.logical_xor,
}  # fmt: skip
"""Element-wise operators of one operation, with the function of NumPy that folds them."""

_REDUCTIONS: Final = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
"""Reductions without a fold, whose input 1 is a parameter."""

_ROWS: Final = (
    # Convolutions.
    _convolution("Conv", product=matrix_products.conv, conv_head=True),
    _convolution("ConvInteger", product=matrix_products.conv),
    _convolution(
        "ConvTranspose",
        product=matrix_products.conv_transpose,
        axes=window_axes.transposed_convolution,
        conv_head=True,
    ),
    _convolution("DeformConv", product=matrix_products.conv, vector_ops=vector_ops.deformed_sampling, axes=None),
    _convolution("QLinearConv", product=matrix_products.conv, weight=3, bias=8, conv_head=True),
    # Other matrix products.
    Operator(
        "Attention",
        product=matrix_products.attention,
        vector_ops=vector_ops.attention,
        axes=independent_axes.attention,
    ),
    _product(
        "Einsum",
        product=matrix_products.einsum,
        vector_ops=vector_ops.einsum_without_product,
        axes=independent_axes.einsum,
    ),
    _product("Gemm", product=matrix_products.gemm, axes=independent_axes.gemm),
    _product("MatMul", product=matrix_products.matmul, axes=independent_axes.matmul),
    _product("MatMulInteger", product=matrix_products.matmul, axes=independent_axes.matmul),
    _product("QLinearMatMul", product=matrix_products.matmul, weight=3, axes=independent_axes.matmul),
    _recurrent("GRU", gates=3),
    _recurrent("LSTM", gates=4),
    _recurrent("RNN", gates=1),
    # Element-wise, arithmetic.
    _elementwise("Add", behind_conv=BehindConv.SHIFT | BehindConv.RESIDUAL, fold=of_elements(np.add)),
    _elementwise("Div", behind_conv=BehindConv.QUOTIENT, fold=of_elements(shape_folds.quotient)),
    _elementwise("Mul", behind_conv=BehindConv.SCALE | BehindConv.GATE, fold=of_elements(np.multiply)),
    _elementwise("Sub", behind_conv=BehindConv.SHIFT, fold=of_elements(np.subtract)),
    _elementwise(
        "BatchNormalization",
        2,
        axes=independent_axes.normalised_batch,
        behind_conv=BehindConv.NORMALISATION,
        channels_first=True,
    ),
    _variadic("Max", fold=accumulated(np.maximum)),
    _variadic("Mean"),
    _variadic("Min", fold=accumulated(np.minimum)),
    _variadic("Sum", behind_conv=BehindConv.RESIDUAL, fold=accumulated(np.add)),
    # Element-wise, activations.
    *map(_activation, _ACTIVATIONS),
    _activation("Clip", fold=shape_folds.clip),
    _activation("Gelu", 8),
    _activation("Mish", 3),
    _activation("Swish", 2),
    # Element-wise, types.
    _view("BitCast"),
    _activation("Cast", view=views.if_same_type, fold=shape_folds.identity),
    _elementwise("CastLike", axes=independent_axes.scaled, view=views.if_same_type, fold=shape_folds.identity),
    _activation("DequantizeLinear", axes=independent_axes.scaled, view=views.unless_delivered),
    _activation("QuantizeLinear", axes=independent_axes.scaled),
    # Element-wise, anything else.
    *map(_elementwise, _ELEMENTWISE),
    *(_elementwise(name, fold=of_elements(function)) for name, function in _FOLDED.items()),
    _elementwise("Dropout", view=views.if_not_training),
    _elementwise("Erf", 4),
    _elementwise("GreaterOrEqual", shapes=missing_values.comparison, fold=of_elements(np.greater_equal)),
    _elementwise("LessOrEqual", shapes=missing_values.comparison, fold=of_elements(np.less_equal)),
    _elementwise("Mod", fold=shape_folds.remainder),
    # Normalisations, and whatever else takes several operations for each element of the result.
    Operator("AffineGrid", vector_ops=per_result(6), parameters=(1,)),
    Operator("DynamicQuantizeLinear", vector_ops=per_result(3), written=3),
    Operator("GridSample", vector_ops=per_result(8)),
    _rows(
        "GroupNormalization",
        8,
        independent_axes.first_axes(1),
        channels_first=True,
        shapes=missing_values.like_first,
    ),
    _rows("Hardmax", 2, independent_axes.before_axis(1)),
    _rows("InstanceNormalization", 8, independent_axes.first_axes(2), channels_first=True),
    Operator("LRN", vector_ops=vector_ops.local_response, axes=independent_axes.first_axes(1), channels_first=True),
    _rows("LayerNormalization", 8, independent_axes.before_axis(-1)),
    _rows("LogSoftmax", vector_ops.SOFTMAX, independent_axes.before_axis(1)),
    _rows("LpNormalization", 3, independent_axes.but_axis(-1)),
    _rows(
        "MeanVarianceNormalization",
        8,
        independent_axes.but_axes((0, 2, 3)),
        shapes=missing_values.like_first,
    ),
    _rows("RMSNormalization", 5, independent_axes.before_axis(-1)),
    Operator("Resize", vector_ops=vector_ops.resizing, axes=independent_axes.same_sizes, parameters=(1, 2, 3)),
    Operator("RoiAlign", vector_ops=vector_ops.region_pooling),
    Operator("RotaryEmbedding", vector_ops=per_result(3), axes=independent_axes.of_batch),
    _rows("Softmax", vector_ops.SOFTMAX, independent_axes.before_axis(1)),
    Operator("SwiGLU", vector_ops=per_result(3)),
    Operator("Upsample", vector_ops=vector_ops.resizing, axes=independent_axes.same_sizes, parameters=(1,)),
    # Pooling and reductions.
    *(
        _pooling(name, vector_ops.pooling, window_axes.pooling, pooled=missing_values.pooled)
        for name in ("AveragePool", "LpPool", "MaxPool")
    ),
    *(
        _pooling(name, per_input(1), window_axes.pooled_wholly)
        for name in ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
    ),
    *map(_reduction, _REDUCTIONS),
    _reduction("ArgMax", parameters=(), axes=independent_axes.found),
    _reduction("ArgMin", parameters=(), axes=independent_axes.found),
    _reduction("Col2Im", parameters=(1, 2), axes=None),
    _reduction("CumProd", axes=independent_axes.summed_along),
    _reduction("CumSum", axes=independent_axes.summed_along),
    _reduction("NegativeLogLikelihoodLoss", parameters=(), axes=None),
    _reduction("ReduceMax", fold=reduced(np.max)),
    _reduction("ReduceMean", fold=reduced(np.mean)),
    _reduction("ReduceMin", fold=reduced(np.min)),
    _reduction("ReduceProd", fold=reduced(np.prod)),
    _reduction("ReduceSum", fold=reduced(np.sum)),
    _reduction("TopK", axes=independent_axes.but_axis(-1), largest=largest_shapes.like_first, written=2),
    Operator("SoftmaxCrossEntropyLoss", vector_ops=per_input(vector_ops.SOFTMAX)),
    # Data movement.
    *map(_move, ("DepthToSpace", "EyeLike", "ReverseSequence", "SpaceToDepth")),
    _move("Scatter", axes=None, updates=2),
    _move("TensorScatter", axes=None, updates=1),
    _move("CenterCropPad", parameters=(1,)),
    _move("Concat", view=views.of_only_filled_input, fold=shape_folds.concat),
    _move("Expand", parameters=(1,), view=views.if_same_size, fold=shape_folds.broadcast),
    _move("Gather", gathers=(0,), fold=shape_folds.gather),
    _move("GatherElements", gathers=(0,), fold=shape_folds.gather_elements),
    _move("GatherND", gathers=(0,), tuples=(1,)),
    _move("MaxUnpool", parameters=(2,), axes=None, channels_first=True),
    _move("OneHot", parameters=(1, 2)),
    _move("Pad", parameters=(1, 2, 3), view=views.if_no_padding),
    Operator("ScatterElements", vector_ops=vector_ops.scattering, updates=2),
    Operator("ScatterND", vector_ops=vector_ops.scattering, updates=2),
    _move(
        "Slice",
        parameters=(1, 2, 3, 4),
        gathers=(0,),
        view=views.if_all_forwards,
        fold=shape_folds.slice_,
        largest=largest_shapes.like_first,
    ),
    _move("Split", parameters=(1,), view=views.if_same_size, fold=shape_folds.split, written=None),
    _move("Tile", parameters=(1, 2), view=views.if_same_size, fold=shape_folds.tile),
    _move(
        "Transpose",
        view=views.if_order_stays,
        view_of_constants=True,
        order=views.transposed_order,
        fold=shape_folds.transpose,
    ),
    _move("Trilu", parameters=(1,)),
    # Views.
    *(_view(name, fold=shape_folds.identity) for name in ("Flatten", "Identity", "Squeeze", "Unsqueeze")),
    _view("Reshape", keeps_elements=True, fold=shape_folds.identity),
    # Random numbers.
    *map(_random, ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike")),
    *map(_random, ("RandomUniform", "RandomUniformLike")),
    # Sequences.
    Operator("ConcatFromSequence", sequence=sequences.concat),
    Operator("SequenceAt", sequence=sequences.at),
    Operator("SequenceConstruct", sequence=sequences.construct),
    Operator("SequenceEmpty", sequence=sequences.empty),
    Operator("SequenceErase", sequence=sequences.erase),
    Operator("SequenceInsert", sequence=sequences.insert),
    Operator("SequenceLength", sequence=sequences.length),
    Operator("SplitToSequence", sequence=sequences.split),
    # Tensors whose size the data may decide; where shapes do, those without operands are constants.
    _move("Compress", axes=None, largest=largest_shapes.compressed),
    _move("ConstantOfShape", axes=None, fold=shape_folds.constant_of_shape),
    Operator(
        "NonMaxSuppression",
        vector_ops=vector_ops.suppression,
        parameters=(2, 3, 4),
        largest=largest_shapes.suppressed,
    ),
    Operator(
        "NonZero",
        vector_ops=per_input(1),
        sized_by_data=True,
        fold=shape_folds.nonzero,
        largest=largest_shapes.nonzero,
    ),
    Operator("Range", vector_ops=per_result(1), fold=shape_folds.arange),
    Operator("Unique", vector_ops=per_input(1), largest=largest_shapes.unique),
    # Operators without a cost, which disappear once shapes are known: constants, shape arithmetic, control flow.
    Operator("Constant", value=missing_values.literal),
    Operator("If", branches=True),
    Operator("Loop", loops=True),
    Operator("Shape", value=missing_values.dims_of_input),
    Operator("Size", value=missing_values.elements_of_input),
)

OPERATORS: Final[Mapping[str, Operator]] = {row.name: row for row in _ROWS}
"""The rows by name, all of the standard ONNX domain."""
