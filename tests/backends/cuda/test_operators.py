"""Operators that compute make what ONNX Runtime makes of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env._lib.errors import ExecutionError
from tests.backends.cuda.single import Known, agree, ints, known, numbers, several
from tests.offenders import every
from tests.thorough import examples

FEW = settings(max_examples=12)

UNARY = """
    Abs Acos Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Identity IsNaN Log Mish Neg Reciprocal Relu
    Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh GlobalAveragePool GlobalMaxPool Shape Size Gelu Elu Celu
    Selu LeakyRelu HardSigmoid Flatten Transpose Softmax LogSoftmax ArgMax ArgMin Dropout ReduceMean
""".split()


@every("op_type", UNARY)
def test_operators_of_one_input(op_type):
    agree(op_type, np.abs(numbers(0, 2, 3, 5)) * 0.4 if op_type in ("Log", "Sqrt") else numbers(0, 2, 3, 5) * 0.3)


@every("dtype", [np.float32, np.int64, np.int32])
@every("op_type", "Add Sub Mul Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Pow".split())
def test_operators_of_two_inputs(op_type, dtype):
    a, b = np.array([[-7], [7], [2], [3]]).astype(dtype), np.array([2, 3, 1, 2]).astype(dtype)
    agree(op_type, a, b)
    agree(op_type, a, Known(2, dtype=dtype))
    agree(op_type, known(a), b)


def test_what_is_not_the_usual():
    agree("Selu", numbers(0, 3, 4), alpha=2.0, gamma=1.5)
    agree("Selu", numbers(0, 3, 4), gamma=1.5)
    agree("Dropout", numbers(0, 3, 4), outputs=2)
    agree("CumSum", np.array([1, np.inf, 2, -1], np.float32), Known(0), exclusive=1)


def test_other_operators_of_elements():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    for op_type in ("And", "Or", "Xor"):
        agree(op_type, a, b)
    agree("Not", a)
    agree("Where", a, numbers(0, 3, 4), numbers(1, 1, 1))
    agree("PRelu", numbers(0, 2, 3, 4), numbers(1, 3, 1))
    agree("Acosh", np.abs(numbers(0, 4)) + 1)
    agree("Sum", numbers(0, 2, 3), numbers(1, 3), numbers(2, 1, 1))
    agree("Mean", numbers(0, 2, 3), numbers(1, 3), numbers(2, 1, 1))
    agree("Pow", np.array([2, 3, 4]), Known(0.5, dtype=np.float32))
    agree("Pow", numbers(0, 3), known(np.full((1, 1), 2, np.float32)))
    for divisor in (3, -3):
        agree("Mod", np.arange(-5, 5), np.array([divisor]))
        agree("Mod", np.arange(-5, 5), np.array([divisor]), fmod=1)
    agree("Gelu", numbers(0, 9), approximate="tanh")
    agree("HardSigmoid", numbers(0, 9), alpha=1 / 6, beta=0.5)
    agree("CastLike", numbers(0, 9), np.array(1))
    for element_type in (1, 6, 7, 9, 10, 11):
        agree("Cast", numbers(0, 9) * 3, to=element_type)


@given(low=st.sampled_from("no known given".split()), high=st.sampled_from("no known given".split()))
def test_clip(low, high):
    limits = [
        {"no": None, "known": Known(array=np.float32(limit)), "given": np.array(limit, np.float32)}[way]
        for way, limit in ((low, -0.5), (high, 0.25))
    ]
    agree("Clip", numbers(0, 20), *limits)
    agree("Clip", numbers(0, 20), opset=10, min=-0.5)


@st.composite
def windows(draw, rank):
    """Attributes of a convolution or a pool over so many axes, and its kernel."""
    kernel = several(draw, rank, 1, 3)
    attributes = {"strides": several(draw, rank, 1, 3)}
    padding = draw(st.sampled_from("no even any auto".split()))
    if padding == "auto":
        attributes["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    elif padding != "no":
        begin = [draw(ints(0, size - 1)) for size in kernel]
        attributes["pads"] = begin + (begin if padding == "even" else [draw(ints(0, size - 1)) for size in kernel])
    return kernel, attributes


@examples(40)
@given(st.data())
def test_conv(data):
    rank, group = data.draw(ints(1, 3)), data.draw(ints(1, 2))
    kernel, attributes = data.draw(windows(rank))
    if "auto_pad" not in attributes:
        attributes["dilations"] = several(data.draw, rank, 1, 2)
    x = numbers(0, 2, 2 * group, *several(data.draw, rank, 5, 7))
    bias = [numbers(2, 3 * group)] * data.draw(ints(0, 1))
    agree("Conv", x, numbers(1, 3 * group, 2, *kernel), *bias, group=group, **attributes)


@examples(40)
@given(st.data())
def test_conv_transpose(data):
    rank, group = data.draw(ints(1, 3)), data.draw(ints(1, 2))
    kernel, attributes = data.draw(windows(rank))
    x = numbers(0, 2, 2 * group, *several(data.draw, rank, 3, 5))
    if "auto_pad" not in attributes:
        attributes["dilations"] = several(data.draw, rank, 1, 2)
        attributes["output_padding"] = [data.draw(ints(0, stride - 1)) for stride in attributes["strides"]]
    bias = [numbers(2, 3 * group)] * data.draw(ints(0, 1))
    agree("ConvTranspose", x, numbers(1, 2 * group, 3, *kernel), *bias, group=group, **attributes)


def test_conv_transpose_of_a_given_shape():
    given = numbers(0, 1, 2, 4, 4), numbers(1, 2, 3, 3, 2), numbers(2, 3)
    for shape in ([12, 8], [12, 9], [10, 5], [14, 8]):
        for auto_pad in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
            agree("ConvTranspose", *given, strides=[3, 2], output_shape=shape, auto_pad=auto_pad)


@examples(40)
@given(st.data())
def test_pools(data):
    rank = data.draw(ints(1, 3))
    kernel, attributes = data.draw(windows(rank))
    if "auto_pad" in attributes:  # ONNX Runtime refuses gaps between padded windows
        attributes["strides"] = [min(pair) for pair in zip(attributes["strides"], kernel, strict=True)]
    x = numbers(0, 2, 3, *several(data.draw, rank, 5, 8))
    if "auto_pad" not in attributes:
        attributes |= {"ceil_mode": data.draw(ints(0, 1)), "dilations": several(data.draw, rank, 1, 2)}
    agree("MaxPool", x, kernel_shape=kernel, **attributes)
    count = data.draw(ints(0, 1))
    agree("AveragePool", x, kernel_shape=kernel, count_include_pad=count, **attributes)


REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()


@FEW
@given(kind=st.sampled_from(REDUCTIONS), data=st.data())
def test_reductions(kind, data):
    x = np.abs(numbers(0, 2, 3, 4)) + 0.1
    axes = data.draw(st.lists(ints(-3, 2), unique_by=lambda axis: axis % 3))
    keep = data.draw(ints(0, 1))
    agree(f"Reduce{kind}", x, Known(*axes), keepdims=keep)
    agree(f"Reduce{kind}", x, opset=12, keepdims=keep, **({"axes": axes} if axes else {}))
    agree(f"Reduce{kind}", x, Known(), noop_with_empty_axes=1, keepdims=keep)


def test_sums_of_whole_numbers_keep_their_type():
    whole = np.arange(6, dtype=np.int32).reshape(2, 3)
    for kind in ("L1", "Max", "Min", "Prod", "Sum", "SumSquare"):
        agree(f"Reduce{kind}", whole, Known(1))


@FEW
@given(axis=ints(-3, 2), flags=st.tuples(ints(0, 1), ints(0, 1)), data=st.data())
def test_along_an_axis(axis, flags, data):
    few = np.random.default_rng(data.draw(ints(0, 9))).integers(0, 3, (3, 4, 5)).astype(np.float32)
    agree("ArgMax", few, axis=axis, keepdims=flags[0], select_last_index=flags[1])
    agree("ArgMin", few, axis=axis, keepdims=flags[0], select_last_index=flags[1])
    agree("CumSum", few, Known(axis), exclusive=flags[0], reverse=flags[1])
    agree("TopK", few, Known(2), axis=axis, largest=flags[0], outputs=2)
    agree("Concat", few, few[:, :, :], axis=axis)
    for opset in (11, 13):
        agree("Softmax", few, opset=opset, axis=axis)
        agree("LogSoftmax", few, opset=opset, axis=axis)
    agree("LayerNormalization", few, numbers(1, *few.shape[axis:]), numbers(2, *few.shape[axis:]), axis=axis)


@FEW
@given(turn=st.tuples(ints(0, 1), ints(0, 1)), factors=st.sampled_from([(1.0, 1.0), (0.5, 2.0)]), bias=ints(0, 5))
def test_gemm(turn, factors, bias):
    a, b = numbers(0, 3, 4), numbers(1, 4, 5)
    c = [[], [numbers(2, 5)], [numbers(2, 3, 5)], [numbers(2, 3, 1)], [numbers(2)], [numbers(2, 1, 5)]][bias]
    a, b = a.T.copy() if turn[0] else a, b.T.copy() if turn[1] else b
    agree("Gemm", a, b, *c, transA=turn[0], transB=turn[1], alpha=factors[0], beta=factors[1])


def test_products():
    for a, b in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((3, 4), (4,))):
        agree("MatMul", numbers(0, *a), numbers(1, *b))
    agree("Einsum", numbers(0, 2, 3, 4), numbers(1, 2, 5, 4), equation="b i d, b j d -> b i j")
    agree("Einsum", numbers(0, 2, 3, 4), equation="...ij->...ji")


def test_normalisations():
    x = numbers(0, 2, 6, 5, 4)
    scale, shift = numbers(1, 6), numbers(2, 6)
    agree("BatchNormalization", x, scale, shift, numbers(3, 6), np.abs(numbers(4, 6)) + 0.1, epsilon=1e-3)
    agree("InstanceNormalization", x, scale, shift, epsilon=1e-3)
    agree("InstanceNormalization", numbers(0, 2, 6, 1), scale, shift)
    agree("GroupNormalization", x, scale, shift, num_groups=3, opset=21)
    agree("GroupNormalization", x, scale[:3], shift[:3], num_groups=3, opset=18)
    agree("LayerNormalization", x, numbers(1, 4), outputs=3)
    agree("RMSNormalization", x, numbers(1, 5, 4), axis=2, opset=23)


@FEW
@given(
    kind=st.sampled_from(["LSTM", "GRU"]), way=st.sampled_from(["forward", "reverse", "bidirectional"]),
    bias=st.booleans(), lengths=st.booleans(), state=st.booleans(),
)  # fmt: skip
def test_recurrent_layers(kind, way, bias, lengths, state):
    gates, sides = {"LSTM": 4, "GRU": 3}[kind], 1 + (way == "bidirectional")
    x, w, r = numbers(0, 5, 2, 3), numbers(1, sides, gates * 4, 3), numbers(2, sides, gates * 4, 4)
    rest = [numbers(3, sides, gates * 8) if bias else None, Known(5, 5, dtype=np.int32) if lengths else None]
    rest += [numbers(4, sides, 2, 4)] * (1 + (kind == "LSTM")) if state else []
    own = {"linear_before_reset": 1} if kind == "GRU" else {}
    agree(kind, x, w, r, *rest, outputs=2 + (kind == "LSTM"), hidden_size=4, direction=way, **own)


@every(
    ("kind", "attributes", "lacking"),
    [
        ("GRU", {}, "linear_before_reset"),
        ("LSTM", {"clip": 1.0}, "clip"),
        ("LSTM", {"activations": ["Tanh", "Tanh", "Tanh"]}, "activations"),
    ],
)
def test_recurrent_layers_that_torch_lacks(kind, attributes, lacking):
    gates = {"LSTM": 4, "GRU": 3}[kind]
    with pytest.raises(ExecutionError, match=rf"Node 'it' \({kind}\) cannot run on a device: .*{lacking}"):
        agree(
            kind,
            numbers(0, 5, 2, 3),
            numbers(1, 1, gates * 4, 3),
            numbers(2, 1, gates * 4, 4),
            hidden_size=4,
            **attributes,
        )


def test_quantisation():
    x = numbers(0, 2, 3, 4) * 3
    scale, zero = np.array([0.1, 0.2, 0.3], np.float32), np.array([3, 0, 250], np.uint8)
    agree("QuantizeLinear", x, scale, zero)
    agree("QuantizeLinear", x, scale[:1].reshape(()), zero[:1].reshape(()).astype(np.int8))
    agree("QuantizeLinear", x, scale[:1])
    coded = np.random.default_rng(0).integers(0, 255, (2, 3, 4)).astype(np.uint8)
    agree("DequantizeLinear", coded, scale, zero)
    agree("DequantizeLinear", coded, scale[:1].reshape(()), zero[:1].reshape(()), axis=1)
