"""All that the loader knows of ONNX's operators, one row for each.

MACs are counted as model papers do: padding positions count, biases do not. Element operations are our choice, as no
two vector units agree: an element-wise op takes 1 per result element whatever its function, except Erf 4, Gelu 8 (its
five primitive ops with that Erf), Mish 3, Swish 2 and BatchNormalization 2 (scale and shift); softmax 5; layer, group
and instance normalisation 8; RMS normalisation 5; a reduction or global pooling 1 per input element; pooling its
kernel's area per result element; interpolation 1 per point that is blended; a scatter
that adds or multiplies 1 per update; pure data movement 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from memplace_env.workload.lowered.graph import Site
from memplace_env.workload.lowered.operator import BehindConv, Operator
from memplace_env.workload.lowered.rules import products, vector_ops, views
from memplace_env.workload.lowered.rules.vector_ops import per_input, per_result
from memplace_env.workload.onnx.rules import folds, sequences, values
from memplace_env.workload.onnx.rules.folds import accumulated, of_elements, reduced


def operator_of(op_type: str) -> Operator:
    """The row of an operator; one that says nothing but the name if there is none."""
    return OPERATORS.get(op_type) or Operator(op_type)


def _elementwise(name: str, operations: int = 1, **more: Any) -> Operator:
    """So many operations for each element of the result."""
    return Operator(name, vector_ops=per_result(operations), elementwise=True, **more)


def _activation(name: str, operations: int = 1, **more: Any) -> Operator:
    """Element-wise, and "conv" fuses it behind a convolution."""
    return _elementwise(name, operations, behind_conv=BehindConv.ACTIVATION, **more)


def _variadic(name: str, **more: Any) -> Operator:
    """Element-wise over any number of operands."""
    return Operator(name, vector_ops=vector_ops.per_further_operand, elementwise=True, view=views.of_only_input, **more)


def _reduction(name: str, parameters: tuple[int, ...] = (), **more: Any) -> Operator:
    """One operation for each element of the operand."""
    return Operator(name, vector_ops=per_input(1), parameters=parameters, **more)


def _move(name: str, parameters: tuple[int, ...] = (), **more: Any) -> Operator:
    """No work but the traffic."""
    return Operator(name, vector_ops=vector_ops.nothing, parameters=parameters, **more)


def _view(name: str, **more: Any) -> Operator:
    """Always a view."""
    return Operator(name, view=views.always, **more)


def _random(name: str) -> Operator:
    """One operation for each number drawn."""
    return Operator(name, vector_ops=per_result(1), random=True)


def _product(name: str, **more: Any) -> Operator:
    """A matrix product that element-wise ops behind it can join."""
    return Operator(name, epilogue_head=True, **more)


def _convolution(name: str, **more: Any) -> Operator:
    """A product over the windows of images."""
    return _product(name, filters=True, channels_first=True, **more)


def _recurrent(name: str, gates: int) -> Operator:
    return Operator(name, product=products.recurrent, vector_ops=vector_ops.recurrent(gates))


def _pooling(name: str, rule: Callable[[Site], int]) -> Operator:
    return Operator(name, vector_ops=rule, channels_first=True)


_ROWS: Final = (
    # Convolutions.
    _convolution("Conv", product=products.conv, conv_head=True),
    _convolution("ConvInteger", product=products.conv),
    _convolution("ConvTranspose", product=products.conv_transpose, conv_head=True),
    _convolution("DeformConv", product=products.conv, vector_ops=vector_ops.deformed_sampling),
    _convolution("QLinearConv", product=products.conv, weight=3, bias=8, conv_head=True),
    # Other matrix products.
    Operator("Attention", product=products.attention, vector_ops=vector_ops.attention),
    _product("Einsum", product=products.einsum, vector_ops=vector_ops.einsum_without_product),
    _product("Gemm", product=products.gemm),
    _product("MatMul", product=products.matmul),
    _product("MatMulInteger", product=products.matmul),
    _product("QLinearMatMul", product=products.matmul, weight=3),
    _recurrent("GRU", gates=3),
    _recurrent("LSTM", gates=4),
    _recurrent("RNN", gates=1),
    # Element-wise, arithmetic.
    _elementwise("Add", behind_conv=BehindConv.SHIFT | BehindConv.RESIDUAL, fold=of_elements(np.add)),
    _elementwise("Div", behind_conv=BehindConv.QUOTIENT, fold=of_elements(folds.quotient)),
    _elementwise("Mul", behind_conv=BehindConv.SCALE | BehindConv.GATE, fold=of_elements(np.multiply)),
    _elementwise("Sub", behind_conv=BehindConv.SHIFT, fold=of_elements(np.subtract)),
    _elementwise("BatchNormalization", 2, behind_conv=BehindConv.NORMALISATION, channels_first=True),
    _variadic("Max", fold=accumulated(np.maximum)),
    _variadic("Mean"),
    _variadic("Min", fold=accumulated(np.minimum)),
    _variadic("Sum", behind_conv=BehindConv.RESIDUAL, fold=accumulated(np.add)),
    # Element-wise, activations.
    _activation("Celu"),
    _activation("Clip", fold=folds.within),
    _activation("Elu"),
    _activation("Gelu", 8),
    _activation("HardSigmoid"),
    _activation("HardSwish"),
    _activation("LeakyRelu"),
    _activation("Mish", 3),
    _activation("PRelu"),
    _activation("Relu"),
    _activation("Selu"),
    _activation("Sigmoid"),
    _activation("Softplus"),
    _activation("Softsign"),
    _activation("Swish", 2),
    _activation("Tanh"),
    _activation("ThresholdedRelu"),
    # Element-wise, types.
    _view("BitCast"),
    _activation("Cast", view=views.if_same_type, fold=folds.same),
    _elementwise("CastLike", view=views.if_same_type, fold=folds.same),
    _activation("DequantizeLinear", view=views.unless_delivered),
    _activation("QuantizeLinear"),
    # Element-wise, anything else.
    _elementwise("Abs", fold=of_elements(np.abs)),
    _elementwise("Acos"),
    _elementwise("Acosh"),
    _elementwise("And", fold=of_elements(np.logical_and)),
    _elementwise("Asin"),
    _elementwise("Asinh"),
    _elementwise("Atan"),
    _elementwise("Atanh"),
    _elementwise("BitShift"),
    _elementwise("BitwiseAnd"),
    _elementwise("BitwiseNot"),
    _elementwise("BitwiseOr"),
    _elementwise("BitwiseXor"),
    _elementwise("Ceil", fold=of_elements(np.ceil)),
    _elementwise("Cos"),
    _elementwise("Cosh"),
    _elementwise("Dropout", view=views.if_not_training),
    _elementwise("Equal", fold=of_elements(np.equal)),
    _elementwise("Erf", 4),
    _elementwise("Exp"),
    _elementwise("Floor", fold=of_elements(np.floor)),
    _elementwise("Greater", fold=of_elements(np.greater)),
    _elementwise("GreaterOrEqual", fallback_shape=values.comparison, fold=of_elements(np.greater_equal)),
    _elementwise("IsInf"),
    _elementwise("IsNaN"),
    _elementwise("Less", fold=of_elements(np.less)),
    _elementwise("LessOrEqual", fallback_shape=values.comparison, fold=of_elements(np.less_equal)),
    _elementwise("Log"),
    _elementwise("Mod", fold=folds.remainder),
    _elementwise("Neg", fold=of_elements(np.negative)),
    _elementwise("Not", fold=of_elements(np.logical_not)),
    _elementwise("Or", fold=of_elements(np.logical_or)),
    _elementwise("Pow", fold=of_elements(np.power)),
    _elementwise("Reciprocal", fold=of_elements(np.reciprocal)),
    _elementwise("Round", fold=of_elements(np.rint)),
    _elementwise("Shrink"),
    _elementwise("Sign", fold=of_elements(np.sign)),
    _elementwise("Sin"),
    _elementwise("Sinh"),
    _elementwise("Sqrt", fold=of_elements(np.sqrt)),
    _elementwise("Tan"),
    _elementwise("Where", fold=of_elements(np.where)),
    _elementwise("Xor", fold=of_elements(np.logical_xor)),
    # Normalisations, and whatever else takes several operations for each element of the result.
    Operator("AffineGrid", vector_ops=per_result(6), parameters=(1,)),
    Operator("DynamicQuantizeLinear", vector_ops=per_result(3)),
    Operator("GridSample", vector_ops=per_result(8)),
    Operator("GroupNormalization", vector_ops=per_result(8), channels_first=True, fallback_shape=values.like_first),
    Operator("Hardmax", vector_ops=per_result(2)),
    Operator("InstanceNormalization", vector_ops=per_result(8), channels_first=True),
    Operator("LRN", vector_ops=vector_ops.local_response, channels_first=True),
    Operator("LayerNormalization", vector_ops=per_result(8)),
    Operator("LogSoftmax", vector_ops=per_result(vector_ops.SOFTMAX)),
    Operator("LpNormalization", vector_ops=per_result(3)),
    Operator("MeanVarianceNormalization", vector_ops=per_result(8), fallback_shape=values.like_first),
    Operator("RMSNormalization", vector_ops=per_result(5)),
    Operator("Resize", vector_ops=vector_ops.resizing, parameters=(1, 2, 3)),
    Operator("RoiAlign", vector_ops=vector_ops.region_pooling),
    Operator("RotaryEmbedding", vector_ops=per_result(3)),
    Operator("Softmax", vector_ops=per_result(vector_ops.SOFTMAX)),
    Operator("SwiGLU", vector_ops=per_result(3)),
    Operator("Upsample", vector_ops=vector_ops.resizing, parameters=(1,)),
    # Pooling and reductions.
    _pooling("AveragePool", vector_ops.pooling),
    _pooling("GlobalAveragePool", per_input(1)),
    _pooling("GlobalLpPool", per_input(1)),
    _pooling("GlobalMaxPool", per_input(1)),
    _pooling("LpPool", vector_ops.pooling),
    _pooling("MaxPool", vector_ops.pooling),
    _reduction("ArgMax"),
    _reduction("ArgMin"),
    _reduction("Col2Im", parameters=(1, 2)),
    _reduction("CumProd", parameters=(1,)),
    _reduction("CumSum", parameters=(1,)),
    _reduction("NegativeLogLikelihoodLoss"),
    _reduction("ReduceL1", parameters=(1,)),
    _reduction("ReduceL2", parameters=(1,)),
    _reduction("ReduceLogSum", parameters=(1,)),
    _reduction("ReduceLogSumExp", parameters=(1,)),
    _reduction("ReduceMax", parameters=(1,), fold=reduced(np.max)),
    _reduction("ReduceMean", parameters=(1,), fold=reduced(np.mean)),
    _reduction("ReduceMin", parameters=(1,), fold=reduced(np.min)),
    _reduction("ReduceProd", parameters=(1,), fold=reduced(np.prod)),
    _reduction("ReduceSum", parameters=(1,), fold=reduced(np.sum)),
    _reduction("ReduceSumSquare", parameters=(1,)),
    Operator("SoftmaxCrossEntropyLoss", vector_ops=per_input(vector_ops.SOFTMAX)),
    _reduction("TopK", parameters=(1,)),
    # Data movement.
    _move("CenterCropPad", parameters=(1,)),
    _move("Concat", view=views.of_only_filled_input, fold=folds.joined),
    _move("DepthToSpace"),
    _move("Expand", parameters=(1,), view=views.if_same_size, fold=folds.spread),
    _move("EyeLike"),
    _move("Gather", gathers=True, fold=folds.rows),
    _move("GatherElements", gathers=True, fold=folds.chosen),
    _move("GatherND", gathers=True),
    _move("MaxUnpool", parameters=(2,), channels_first=True),
    _move("OneHot", parameters=(1, 2)),
    _move("Pad", parameters=(1, 2, 3), view=views.if_no_padding),
    _move("ReverseSequence"),
    _move("Scatter"),
    Operator("ScatterElements", vector_ops=vector_ops.scattering),
    Operator("ScatterND", vector_ops=vector_ops.scattering),
    _move("Slice", parameters=(1, 2, 3, 4), gathers=True, view=views.if_all_forwards, fold=folds.part),
    _move("SpaceToDepth"),
    _move("Split", parameters=(1,), view=views.if_same_size, fold=folds.pieces),
    _move("TensorScatter"),
    _move("Tile", parameters=(1, 2), view=views.if_same_size, fold=folds.repeated),
    _move("Transpose", view=views.if_order_stays, view_of_constants=True, fold=folds.turned),
    _move("Trilu", parameters=(1,)),
    # Views.
    _view("Flatten", fold=folds.same),
    _view("Identity", fold=folds.same),
    _view("Reshape", keeps_elements=True, fold=folds.same),
    _view("Squeeze", fold=folds.same),
    _view("Unsqueeze", fold=folds.same),
    # Random numbers.
    _random("Bernoulli"),
    _random("Multinomial"),
    _random("RandomNormal"),
    _random("RandomNormalLike"),
    _random("RandomUniform"),
    _random("RandomUniformLike"),
    # Sequences.
    Operator("ConcatFromSequence", sequence=sequences.concat),
    Operator("SequenceAt", sequence=sequences.at),
    Operator("SequenceConstruct", sequence=sequences.construct),
    Operator("SequenceEmpty", sequence=sequences.empty),
    Operator("SequenceErase", sequence=sequences.erase),
    Operator("SequenceInsert", sequence=sequences.insert),
    Operator("SequenceLength", sequence=sequences.length),
    Operator("SplitToSequence", sequence=sequences.split),
    # What is gone once shapes are known: constants, shape arithmetic, control flow.
    Operator("Constant", value=values.literal),
    Operator("ConstantOfShape", fold=folds.filled),
    Operator("If", branches=True),
    Operator("Loop", loops=True),
    Operator("NonZero", sized_by_data=True, fold=folds.places),
    Operator("Range", fold=folds.counted),
    Operator("Scan", loops=True),
    Operator("Shape", value=values.dims_of_input),
    Operator("Size", value=values.elements_of_input),
)

OPERATORS: Final[Mapping[str, Operator]] = {row.name: row for row in _ROWS}
"""The rows by name, all of the standard ONNX domain."""
