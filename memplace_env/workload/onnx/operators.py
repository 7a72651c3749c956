"""What each operator costs: matrix products, element operations, and how much of its operands it reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from memplace_env.workload.onnx.graph import Site
from memplace_env.workload.onnx.rules import products as gemms
from memplace_env.workload.onnx.rules.products import NO_GEMM, Gemm


class Cost(NamedTuple):
    """Work of one op: `gemm` as in `Program.gemm`, `vector_ops` element operations."""

    gemm: Gemm
    vector_ops: int


@dataclass(frozen=True, slots=True)
class OpRule:
    """How the loader treats one operator.

    Attributes:
        cost: its work, from the shapes around it.
        parameters: input positions that steer the op (axes, pads, ...): constants there are no tensors.
        gathers: input 0 is a table of which only the rows that end up in the result are read.
        elementwise: each result element depends on one element of each operand, so a compiler can fuse the op.
    """

    cost: Callable[[Site], Cost]
    parameters: frozenset[int] = frozenset()
    gathers: bool = False
    elementwise: bool = False


def _per_output(factor: int) -> Callable[[Site], Cost]:
    return lambda site: Cost(NO_GEMM, factor * site.result.elements)


def _per_input(factor: int) -> Callable[[Site], Cost]:
    return lambda site: Cost(NO_GEMM, factor * site.needed(0).elements)


def _product(gemm: Callable[[Site], Gemm]) -> Callable[[Site], Cost]:
    return lambda site: Cost(gemm(site), 0)


def _nothing(site: Site) -> Cost:
    return Cost(NO_GEMM, 0)


def _variadic(site: Site) -> Cost:
    return Cost(NO_GEMM, max(1, len(site.inputs) - 1) * site.result.elements)


def _pool(site: Site) -> Cost:
    return Cost(NO_GEMM, math.prod(site.attribute("kernel_shape", ())) * site.result.elements)


def _local_response(site: Site) -> Cost:
    return Cost(NO_GEMM, (site.attribute("size", 1) + 3) * site.result.elements)


def _resize(site: Site) -> Cost:
    """One operation per source point that a result is blended from; the nearest point is only moved."""
    points = {b"nearest": 0, b"linear": 2, b"bilinear": 2, b"cubic": 4}[site.attribute("mode", b"nearest")]
    scaled = sum(a != b for a, b in zip(site.needed(0).shape, site.result.shape, strict=True))
    return Cost(NO_GEMM, points**scaled * site.result.elements if points else 0)


def _roi_align(site: Site) -> Cost:
    """Four points blended for each sample; how many samples an adaptive ratio takes is taken to be one."""
    return Cost(NO_GEMM, 4 * max(1, site.attribute("sampling_ratio", 0)) ** 2 * site.result.elements)


def _deformable(site: Site) -> Cost:
    """The convolution, and four points blended for each element of its matrix operand."""
    gemm = gemms.conv(site)
    return Cost(gemm, 4 * math.prod(gemm[:3]))


def _attention(site: Site) -> Cost:
    return Cost(gemms.attention(site), (_SOFTMAX + 2) * gemms.attention_scores(site))


def _einsum(site: Site) -> Cost:
    gemm = gemms.einsum(site)
    return Cost(gemm, 0) if any(gemm) else Cost(NO_GEMM, max(v.elements for v in site.inputs if v is not None))


def _recurrent(gates: int) -> Callable[[Site], Cost]:
    """Bias and activation of each gate, and four operations that update the state."""

    def cost(site: Site) -> Cost:
        gemm = gemms.recurrent(site)
        count, rows, _, columns = gemm
        return Cost(gemm, count * rows * columns // gates * (2 * gates + 4))

    return cost


_SOFTMAX = 5

_SIMPLE: Final = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike
    Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Exp Floor Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN
    LeakyRelu Less LessOrEqual Log Mod Mul Neg Not Or PRelu Pow QuantizeLinear Reciprocal Relu Round Selu Shrink
    Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Tan Tanh ThresholdedRelu Where Xor
""".split()

_REDUCTIONS: Final = """
    ArgMax ArgMin CumProd CumSum GlobalAveragePool GlobalLpPool GlobalMaxPool ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare TopK
""".split()

_MOVES: Final = """
    CenterCropPad Concat DepthToSpace EyeLike Expand MaxUnpool OneHot Pad ReverseSequence Scatter ScatterElements
    ScatterND SpaceToDepth Split TensorScatter Tile Transpose Trilu
""".split()

_GATHERS: Final = ("Gather", "GatherElements", "GatherND", "Slice")

_RANDOM: Final = (
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial",
)  # fmt: skip

_NORMALISATIONS: Final = {
    "Hardmax": 2,
    "Softmax": _SOFTMAX,
    "LogSoftmax": _SOFTMAX,
    "LpNormalization": 3,
    "RMSNormalization": 5,
    "GroupNormalization": 8,
    "InstanceNormalization": 8,
    "LayerNormalization": 8,
    "MeanVarianceNormalization": 8,
    "RotaryEmbedding": 3,
    "GridSample": 8,
    "AffineGrid": 6,
    "DynamicQuantizeLinear": 3,
}

_PARAMETERS: Final[Mapping[str, frozenset[int]]] = {
    name: frozenset(positions)
    for name, positions in {
        "AffineGrid": (1,),
        "CenterCropPad": (1,),
        "CumProd": (1,),
        "CumSum": (1,),
        "Expand": (1,),
        "MaxUnpool": (2,),
        "OneHot": (1, 2),
        "Pad": (1, 2, 3),
        "ReduceL1": (1,),
        "ReduceL2": (1,),
        "ReduceLogSum": (1,),
        "ReduceLogSumExp": (1,),
        "ReduceMax": (1,),
        "ReduceMean": (1,),
        "ReduceMin": (1,),
        "ReduceProd": (1,),
        "ReduceSum": (1,),
        "ReduceSumSquare": (1,),
        "Resize": (1, 2, 3),
        "Slice": (1, 2, 3, 4),
        "Split": (1,),
        "Tile": (1, 2),
        "TopK": (1,),
        "Trilu": (1,),
        "Upsample": (1,),
    }.items()
}


def _table() -> dict[str, OpRule]:
    rules = {name: OpRule(_per_output(1), elementwise=True) for name in _SIMPLE}
    rules |= {name: OpRule(_variadic, elementwise=True) for name in ("Max", "Mean", "Min", "Sum")}
    rules |= {
        "BatchNormalization": OpRule(_per_output(2), elementwise=True),
        "Erf": OpRule(_per_output(4), elementwise=True),
        "Gelu": OpRule(_per_output(8), elementwise=True),
        "Mish": OpRule(_per_output(3), elementwise=True),
        "Swish": OpRule(_per_output(2), elementwise=True),
    }
    rules |= {name: OpRule(_per_output(factor)) for name, factor in _NORMALISATIONS.items()}
    rules |= {name: OpRule(_per_input(1), _PARAMETERS.get(name, frozenset())) for name in _REDUCTIONS}
    rules |= {name: OpRule(_nothing, _PARAMETERS.get(name, frozenset())) for name in _MOVES}
    rules |= {name: OpRule(_nothing, _PARAMETERS.get(name, frozenset()), gathers=True) for name in _GATHERS}
    rules |= {name: OpRule(_per_output(1)) for name in _RANDOM}
    rules |= {name: OpRule(_pool) for name in ("AveragePool", "LpPool", "MaxPool")}
    rules |= {name: OpRule(_resize, _PARAMETERS[name]) for name in ("Resize", "Upsample")}
    rules |= {name: OpRule(_product(gemms.conv)) for name in ("Conv", "ConvInteger", "QLinearConv")}
    rules |= {name: OpRule(_product(gemms.matmul)) for name in ("MatMul", "MatMulInteger", "QLinearMatMul")}
    rules |= {name: OpRule(_recurrent(gates)) for name, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))}
    rules |= {
        "Attention": OpRule(_attention),
        "ConvTranspose": OpRule(_product(gemms.conv_transpose)),
        "DeformConv": OpRule(_deformable),
        "Einsum": OpRule(_einsum),
        "Gemm": OpRule(_product(gemms.gemm)),
        "LRN": OpRule(_local_response),
        "Col2Im": OpRule(_per_input(1), frozenset((1, 2))),
        "RoiAlign": OpRule(_roi_align),
        "SwiGLU": OpRule(_per_output(3)),
        "NegativeLogLikelihoodLoss": OpRule(_per_input(1)),
        "SoftmaxCrossEntropyLoss": OpRule(_per_input(_SOFTMAX)),
    }
    return rules


OP_RULES: Final[Mapping[str, OpRule]] = _table()
"""Every operator that can be an op of a Program.

MACs are counted as model papers do: padding positions count, biases do not. Element operations are our choice, as no
two vector units agree: an element-wise op 1 per result element whatever its function, except Erf 4, Gelu 8 (its five
primitive ops with that Erf), Mish 3, Swish 2 and BatchNormalization 2 (scale and shift); softmax 5 (maximum,
difference, exponential, sum, quotient); layer, group and instance normalisation 8; RMS normalisation 5; a reduction or
global pooling 1 per input element; pooling its kernel's area per result element;
interpolation 1 per point that is blended; pure data movement 0.
"""
