"""Small nodes of every operator whose axes have a rule, with operands to compute them on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.lowering.rules import independent_axes

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """A node and its operands.

    Attributes:
        op_type: the operator.
        inputs: operands, None for one that is absent.
        attributes: of the node.
        outputs: number of results.
        opset: version of the operators.
        cut: whether the node also runs on parts of its operands; without it, only on whole operands whose other parts
            have other contents, as for parameters that are not cut but must fit.
        tagged: positions of the operands whose elements are moved.
    """

    op_type: str
    inputs: tuple[Array | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 21
    cut: bool = True
    tagged: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        shapes = ",".join("x".join(map(str, value.shape)) if value is not None else "_" for value in self.inputs)
        return f"{self.op_type}-{self.opset}({shapes}){self.attributes or ''}"


def floats(*shape: int) -> Array:
    """Numbers in 0.1 ... 0.9, which every function takes but those of at least 1."""
    return np.random.default_rng([len(shape), *shape]).uniform(0.1, 0.9, shape).astype(np.float32)


def ints(*shape: int, to: int = 100, dtype: Any = np.int64) -> Array:
    """Numbers in 0 ... to - 1."""
    return np.random.default_rng([len(shape), *shape]).integers(0, to, shape).astype(dtype)


def bools(*shape: int) -> Array:
    """Truth values."""
    return ints(*shape, to=2, dtype=np.bool_)


def i64(*numbers: int) -> Array:
    """Contents of a parameter."""
    return np.array(numbers, dtype=np.int64)


def f32(*numbers: float) -> Array:
    """Contents of a parameter."""
    return np.array(numbers, dtype=np.float32)


BROADCASTS: Final = (
    ((4, 5), (4, 5)), ((2, 1, 5), (3, 5)), ((4,), (3, 4)), ((2, 3, 4), (3, 1)), ((3, 4), ()), ((1, 4), (3, 1)),
)  # fmt: skip
_BOOLS: Final = ("And", "Not", "Or", "Xor")
_UNARY: Final = frozenset(
    "Celu Elu HardSigmoid HardSwish LeakyRelu Relu Selu Sigmoid Softplus Softsign Tanh ThresholdedRelu Gelu Mish Swish "
    "Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cos Cosh Exp IsInf IsNaN Log Shrink Sin Sinh Tan Abs Ceil Floor Neg "
    "Not Reciprocal Round Sign Sqrt Erf".split()
)
_OWN_OPERANDS: Final = frozenset({"BitShift", "Cast", "CastLike", "Clip", "Dropout", "PRelu", "Where", "Mod"})
_NEWEST: Final = {"Swish": 24, "CumProd": 26, "Attention": 23, "RMSNormalization": 23, "RotaryEmbedding": 23}


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for name, row in OPERATORS.items():
        if row.axes is independent_axes.elementwise and name not in _OWN_OPERANDS:
            yield from _elementwise(name)
    yield from (
        *_special_elementwise(), *_products(), *_windows(), *_normalisations(), *_reductions(), *_resizing(), *_moves()
    )  # fmt: skip


def _elementwise(name: str) -> Iterator[Case]:
    kind: Any = bools if name in _BOOLS else partial(ints, dtype=np.int32) if name.startswith("Bitwise") else floats
    opset = _NEWEST.get(name, 21)
    for left, right in BROADCASTS:
        a = kind(*left) + 1 if name == "Acosh" else kind(*left)
        yield Case(name, (a,) if name in _UNARY else (a, kind(*right)), opset=opset)
    if name in ("Max", "Mean", "Min", "Sum"):
        yield Case(name, (kind(4),), opset=opset)
        yield Case(name, (kind(2, 1, 4), kind(3, 1), kind(4)), opset=opset)


def _special_elementwise() -> Iterator[Case]:
    for left, right in BROADCASTS:
        yield Case("Where", (bools(*left), floats(*right), floats(1)))
        yield Case("Mod", (ints(*left), ints(*right) + 1))
        yield Case("BitShift", (ints(*left, dtype=np.uint8), ints(*right, to=4, dtype=np.uint8)), {"direction": "LEFT"})
    yield Case("PRelu", (floats(2, 3, 4) - 0.5, floats(3, 1)))
    yield Case("Cast", (floats(3, 4),), {"to": 7})
    yield Case("CastLike", (floats(3, 4), ints(5, 5, 6)))
    yield Case("Clip", (floats(3, 4), np.float32(0.2), np.float32(0.5)))
    yield Case("Dropout", (floats(3, 4),), outputs=2)
    x = floats(2, 3, 4, 5)
    yield Case("BatchNormalization", (x, *(floats(3) for _ in range(4))), cut=False)
    yield Case("BatchNormalization", (x, *(floats(3) for _ in range(4))), {"training_mode": 1}, outputs=3)
    yield Case("BatchNormalization", (x, *(floats(3) for _ in range(4))), {"training_mode": 1})
    yield Case("BatchNormalization", (x[..., 0], *(floats(3) for _ in range(4))), opset=9, cut=False)
    bytes_ = ints(2, 3, 4, dtype=np.uint8)
    yield Case("QuantizeLinear", (x, np.float32(0.1), np.uint8(3)))
    yield Case("QuantizeLinear", (x, floats(3), ints(3, dtype=np.uint8)), {"axis": 1}, cut=False)
    yield Case("DequantizeLinear", (bytes_, np.float32(0.1), np.uint8(3)))
    yield Case("DequantizeLinear", (bytes_, floats(3), ints(3, dtype=np.uint8)), {"axis": 1}, cut=False)
    yield Case("DequantizeLinear", (bytes_, floats(2, 3, 2)), {"axis": 2, "block_size": 2}, cut=False)


def _products() -> Iterator[Case]:
    for left, right in (
        ((4, 5), (5, 3)),
        ((5,), (5, 3)),
        ((4, 5), (5,)),
        ((5,), (5,)),
        ((2, 4, 5), (2, 5, 3)),
        ((2, 4, 5), (5, 3)),
        ((4, 5), (2, 5, 3)),
        ((5,), (2, 5, 3)),
        ((2, 4, 5), (5,)),
        ((3, 1, 4, 5), (2, 5, 3)),
        ((1, 2, 4, 5), (3, 1, 5, 3)),
    ):
        yield Case("MatMul", (floats(*left), floats(*right)))
        a, b = ints(*left, dtype=np.uint8), ints(*right, dtype=np.uint8)
        yield Case("MatMulInteger", (a, b, np.uint8(3), np.uint8(5)))
        scale, zero = np.float32(0.1), np.uint8(3)
        yield Case("QLinearMatMul", (a, scale, zero, b, scale, zero, np.float32(20), zero))
    for trans_a in (0, 1):
        for trans_b in (0, 1):
            a, b = floats(*((5, 4) if trans_a else (4, 5))), floats(*((3, 5) if trans_b else (5, 3)))
            flags = {"transA": trans_a, "transB": trans_b}
            yield Case("Gemm", (a, b), flags)
            for shape in ((4, 3), (3,), (1, 3), (4, 1), (1,), ()):
                yield Case("Gemm", (a, b, floats(*shape)), flags)
    for equation, *shapes in (
        ("ij,jk->ik", (4, 5), (5, 3)),
        ("bij,bkj->bik", (2, 4, 5), (2, 3, 5)),
        ("bhid, bhjd -> bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
        ("ij->ji", (4, 5)),
        ("ij->i", (4, 5)),
        ("ii->i", (4, 4)),
        ("i,j->ij", (4,), (5,)),
        ("ij,jk", (4, 5), (5, 3)),
        ("...ij,...jk->...ik", (2, 4, 5), (2, 5, 3)),
        ("ij->", (4, 5)),
        ("ij,j,jk->ik", (4, 5), (5,), (5, 3)),
    ):
        yield Case("Einsum", tuple(floats(*shape) for shape in shapes), {"equation": equation})
    q, past, heads = floats(3, 4, 6), floats(3, 2, 5, 3), {"q_num_heads": 2, "kv_num_heads": 2}
    four = floats(3, 2, 4, 3)
    for shape in ((4, 4), (3, 4, 4), (1, 4, 4), (3, 1, 4, 4), (1, 1, 4, 4)):
        wide = floats(3, 3, 4, 2)
        yield Case("Attention", (wide, wide, wide, floats(*shape)), opset=23)
    yield Case("Attention", (q, floats(3, 5, 6), floats(3, 5, 6)), heads, opset=23)
    yield Case("Attention", (four, four, four, None, past, past), {"is_causal": 1}, outputs=3, opset=23)
    x, cache = floats(3, 2, 4, 6), floats(3, 4, 3)
    yield Case("RotaryEmbedding", (x, cache, cache), opset=23)
    yield Case("RotaryEmbedding", (x, floats(9, 3), floats(9, 3), ints(3, 4, to=9)), opset=23, cut=False)


def _windows() -> Iterator[Case]:
    for k in (1, 2, 3):
        for stride in (1, 2, 3):
            for pads in ([0, 0, 0, 0], [1, 0, 1, 1] if k > 1 else [0, 0, 0, 0]):
                window: dict[str, Any] = {"strides": [stride, 1], "pads": pads}
                yield Case("Conv", (floats(2, 3, 9, 7), floats(4, 3, k, 2)), {**window, "dilations": [2, 1]})
                pool = {**window, "kernel_shape": [k, 2]}
                yield Case("MaxPool", (floats(2, 3, 9, 7),), pool)
                yield Case("AveragePool", (floats(2, 3, 9, 7),), pool)
                yield Case("LpPool", (floats(2, 3, 9, 7),), {**pool, "p": 2}, cut=False)
                yield Case("ConvTranspose", (floats(2, 3, 5, 4), floats(3, 4, k, 2)), {"strides": [stride, 1]})
    x = floats(2, 4, 8, 8)
    yield Case("Conv", (x, floats(6, 4, 3, 3), floats(6)), {"pads": [1, 1, 1, 1]})
    yield Case("Conv", (floats(2, 4, 9), floats(6, 4, 3)), {"strides": [2]})
    yield Case("Conv", (floats(1, 2, 5, 4, 6), floats(3, 2, 3, 1, 2)), {"pads": [1, 0, 0, 1, 0, 0]})
    yield Case("Conv", (x, floats(6, 2, 3, 3), floats(6)), {"group": 2}, cut=False)
    yield Case("Conv", (x, floats(4, 1, 3, 3), floats(4)), {"group": 4, "pads": [1, 1, 1, 1]}, cut=False)
    yield Case("Conv", (x, floats(8, 1, 3, 3)), {"group": 4}, cut=False)
    for padding in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Case("Conv", (x, floats(6, 4, 3, 3)), {"auto_pad": padding, "strides": [2, 2]}, cut=False)
    tiles: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 3]}
    yield Case("AveragePool", (floats(1, 2, 4, 6),), tiles, cut=False)
    yield Case("Conv", (floats(1, 2, 4, 6), floats(3, 2, 2, 2)), {**tiles, "pads": [2, 3, 1, 0]}, cut=False)
    scale, zeros = np.float32(0.1), (np.uint8(3), np.uint8(5))
    images, filters = ints(2, 3, 7, 7, dtype=np.uint8), ints(4, 3, 3, 3, dtype=np.uint8)
    yield Case("ConvInteger", (images, filters, *zeros), {"pads": [1, 1, 1, 1]})
    yield Case("ConvInteger", (images, filters, zeros[0].reshape(1)), cut=False)
    quantised = (images, scale, zeros[0], filters, scale, zeros[1], np.float32(30), zeros[0])
    yield Case("QLinearConv", quantised, {"pads": [1, 1, 1, 1]})
    yield Case("QLinearConv", (*quantised, ints(4, dtype=np.int32)), {"strides": [2, 2]})
    yield Case("ConvTranspose", (floats(2, 4, 5, 5), floats(4, 3, 3, 3), floats(6)), {"group": 2}, cut=False)
    yield Case("ConvTranspose", (floats(2, 4, 5, 5), floats(4, 3, 3, 3), floats(3)), {"pads": [1, 1, 0, 0]}, cut=False)
    pool = {"kernel_shape": [3, 3], "strides": [2, 2]}
    yield from (Case(name, (x,), {**pool, "ceil_mode": 1}, cut=False) for name in ("AveragePool", "MaxPool"))
    yield Case("MaxPool", (x,), {**pool, "dilations": [2, 1]}, outputs=2, cut=False)
    yield Case("AveragePool", (x,), {**pool, "pads": [1, 1, 1, 1], "count_include_pad": 1}, cut=False)
    for name in ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"):
        yield from (Case(name, (image,)) for image in (x, floats(2, 3, 4)))


def _normalisations() -> Iterator[Case]:
    x, groups = floats(3, 4, 5, 6), ((21, floats(4)), (18, floats(2)))
    for name in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (11, 13):
            yield Case(name, (x,), opset=opset)
            for axis in (0, 1, 2, 3, -1, -2, -4):
                yield Case(name, (x,), {"axis": axis}, opset=opset)
            yield Case(name, (floats(4),), {"axis": 0}, opset=opset)
    for axis in (1, 2, -1, -2):
        shape = x.shape[axis:]
        yield Case("LayerNormalization", (x, floats(*shape), floats(*shape)), {"axis": axis})
        yield Case("LayerNormalization", (x, floats(*shape)), {"axis": axis}, outputs=3)
        yield Case("RMSNormalization", (x, floats(*shape)), {"axis": axis}, opset=23)
        yield Case("LpNormalization", (x,), {"axis": axis, "p": 1})
    yield Case("LpNormalization", (x,))
    yield from (Case("GroupNormalization", (x, f, f), {"num_groups": 2}, opset=o) for o, f in groups)
    yield Case("InstanceNormalization", (x, floats(4), floats(4)), cut=False)
    yield Case("LRN", (x,), {"size": 3})
    yield Case("MeanVarianceNormalization", (x,), opset=13)
    yield Case("MeanVarianceNormalization", (x,), {"axes": [1, -1]}, opset=13)


def _reductions() -> Iterator[Case]:
    x = floats(3, 4, 5)
    for name, row in OPERATORS.items():
        if row.axes is not independent_axes.reduced:
            continue
        for keepdims in (0, 1):
            for axes in ([0], [1], [-1], [0, 2]):
                yield Case(name, (x,), {"axes": axes, "keepdims": keepdims}, opset=11)
                yield Case(name, (x, i64(*axes)), {"keepdims": keepdims})
            yield Case(name, (x,), {"keepdims": keepdims})
        yield from (Case(name, inputs, {"noop_with_empty_axes": 1}) for inputs in ((x,), (x, i64())))
    for name in ("ArgMax", "ArgMin"):
        for attributes in ({}, *({"axis": axis, "keepdims": keep} for axis in (0, 1, -1) for keep in (0, 1))):
            yield Case(name, (x,), attributes)
    for name in ("CumProd", "CumSum"):
        for axis in (0, 1, -1):
            yield Case(name, (x, np.int64(axis)), {"reverse": 1}, opset=_NEWEST.get(name, 21))
    yield from (Case("TopK", (x, i64(2)), {"axis": axis}, outputs=2) for axis in (0, 1, -1))
    yield Case("TopK", (x, i64(2)), outputs=2)


def _resizing() -> Iterator[Case]:
    x, none = floats(2, 3, 4, 5), f32()
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in ("half_pixel", "align_corners", "asymmetric"):
            attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
            yield Case("Resize", (x, none, f32(1, 1, 2, 2)), attributes)
            yield Case("Resize", (x, none, f32(1, 1, 1, 1.5)), attributes)
            yield Case("Resize", (x, none, f32(1, 1, 1.1, 1.5)), attributes)
            yield Case("Resize", (x, none, none, i64(2, 3, 4, 7)), attributes, cut=False)
    crop = f32(0, 0, 0.2, 0.2, 1, 1, 0.8, 0.8)
    attributes = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    yield Case("Resize", (x, crop, none, i64(2, 3, 4, 10)), attributes, cut=False)
    yield Case("Resize", (x, None, None, i64(4, 5)), {"mode": "linear", "axes": [2, 3]}, cut=False)
    yield Case("Resize", (x, f32(1, 1, 2, 2)), opset=10)
    yield from (Case("Upsample", (x, f32(1, 1, scale, 2)), opset=9) for scale in (1, 2))


def _moves() -> Iterator[Case]:
    x, image = floats(3, 4, 5), floats(2, 8, 3, 4)
    yield Case("DepthToSpace", (image,), {"blocksize": 2})
    yield Case("SpaceToDepth", (floats(2, 3, 4, 6),), {"blocksize": 2})
    yield Case("EyeLike", (floats(3, 4),))
    yield Case("ReverseSequence", (floats(4, 3), i64(2, 4, 1)))
    yield Case("CenterCropPad", (x, i64(2, 4, 7)))
    yield Case("Concat", (x, floats(3, 2, 5)), {"axis": 1}, tagged=(0, 1))
    yield Case("Expand", (floats(4, 1), i64(3, 4, 5)))
    yield Case("Gather", (x, ints(1, 3, to=4)), {"axis": 1})
    yield Case("GatherElements", (x, ints(3, 2, 5, to=4)), {"axis": 1})
    yield Case("GatherND", (x, ints(2, 2, to=3)))
    yield Case("OneHot", (i64(2, 0, 2), i64(4), f32(0, 1)), tagged=(2,))
    for mode in ("constant", "reflect", "edge"):
        yield Case("Pad", (x, i64(1, 0, 2, 0, 1, 2)), {"mode": mode})
    yield Case("Slice", (x, i64(1, 4), i64(3, -9), i64(0, 2), i64(1, -2)))
    yield Case("Split", (x, i64(1, 3)), {"axis": 1}, outputs=2)
    yield Case("Tile", (x, i64(1, 2, 3)))
    yield Case("Transpose", (x,), {"perm": [2, 0, 1]})
    yield Case("Trilu", (x, np.int64(1)), {"upper": 0})
