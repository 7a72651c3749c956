"""Attributes of ONNX's operators from TFLite's options, and operands' axes as ONNX would have them.

Feature maps stay [batch, height, width, channels]; filters become ONNX's [filters, channels, height, width]. A rule
raises ValueError where operands or options contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memplace_env.program.frontends.tflite.tflite_model import Call, Tensor
from memplace_env.program.lowering.graph_values import Shape

Attributes = Mapping[str, Any]
Shapes = Mapping[int, Shape]
Orders = Mapping[int, Sequence[int]]

_SAME: Final = 0
"""Value of the option Padding; the only other one is VALID, without padding."""


def no_attributes(call: Call) -> Attributes:
    """No attributes."""
    return {}


def no_shapes(call: Call) -> Shapes:
    """No operand with another shape in ONNX."""
    return {}


def no_orders(call: Call) -> Orders:
    """No operand with its axes in another order in ONNX."""
    return {}


def convolution(call: Call) -> Attributes:
    """CONV_2D: as many groups as the channels of the image over those of a filter."""
    return _window(call) | {"group": call.needed(0).shape[-1] // call.needed(1).shape[-1]}


def convolution_orders(call: Call) -> Orders:
    """CONV_2D: filters are stored [filters, height, width, channels]."""
    filters, _, _, channels = call.needed(1).shape
    groups, left = divmod(call.needed(0).shape[-1], channels)
    if left or filters % groups or call.result.shape[-1] != filters:
        raise ValueError("the filters do not fit the channels")
    return {1: (0, 3, 1, 2)}


def depthwise(call: Call) -> Attributes:
    """DEPTHWISE_CONV_2D: one group per channel."""
    return _window(call) | {"group": call.needed(0).shape[-1]}


def depthwise_orders(call: Call) -> Orders:
    """DEPTHWISE_CONV_2D: filters are stored [1, height, width, channels x multiplier]."""
    one, _, _, filters = call.needed(1).shape
    if one != 1 or call.result.shape[-1] != filters or filters % call.needed(0).shape[-1]:
        raise ValueError("the filters do not fit the channels")
    return {1: (3, 0, 1, 2)}


def transposed_convolution(call: Call) -> Attributes:
    """TRANSPOSE_CONV, also MediaPipe's: SAME crops the border to the size that the file declares."""
    strides = _positive(call, "StrideH", "StrideW")
    pads = [0, 0]
    if call.option("Padding", 1) == _SAME:
        for axis in (0, 1):
            full = (_image(call).shape[1 + axis] - 1) * strides[axis] + call.needed(1).shape[1 + axis]
            pads[axis] = max(0, full - call.result.shape[1 + axis]) // 2
    return {"strides": strides, "pads": (*pads, *pads)}


def transposed_convolution_orders(call: Call) -> Orders:
    """TRANSPOSE_CONV: filters are stored [filters, height, width, channels], ONNX has [channels, filters, ...]."""
    filters, _, _, channels = call.needed(1).shape
    if call.result.shape[-1] != filters or _image(call).shape[-1] != channels:
        raise ValueError("the filters do not fit the channels")
    return {1: (3, 0, 1, 2)}


def _image(call: Call) -> Tensor:
    """Return the image of a transposed convolution, which TFLite has behind the sizes of the result."""
    return call.needed(2 if call.op_type == "TRANSPOSE_CONV" else 0)


def fully_connected_shapes(call: Call) -> Shapes:
    """FULLY_CONNECTED: the left operand is split into rows of the weights' depth."""
    columns, depth = call.needed(1).shape
    if call.result.shape[-1] != columns:
        raise ValueError("the weights do not fit the result")
    return {0: (*call.result.shape[:-1], depth)}


def fully_connected_orders(call: Call) -> Orders:
    """FULLY_CONNECTED: weights are stored [columns, depth]."""
    return {1: (1, 0)}


def matmul_orders(call: Call) -> Orders:
    """BATCH_MATMUL: operands transposed if their option is set."""
    ranks = (len(call.needed(0).shape), len(call.needed(1).shape))
    transposed = (call.option("AdjX"), call.option("AdjY"))
    return {i: (*range(ranks[i] - 2), ranks[i] - 1, ranks[i] - 2) for i in (0, 1) if transposed[i]}


def pooling(call: Call) -> Attributes:
    """Pooling over two dims."""
    return _window(call) | {"kernel_shape": _positive(call, "FilterHeight", "FilterWidth")}


def padding(call: Call) -> Attributes:
    """PAD: the zeros [before, after] each dim, if the file has them."""
    paddings = call.needed(1).data
    if paddings is None or paddings.shape != (len(call.needed(0).shape), 2):
        return {}
    return {"zeros": paddings.tolist()}


def permutation(call: Call) -> Attributes:
    """TRANSPOSE: the order of the dims."""
    order = call.contents(1).ravel().tolist()
    if sorted(order) != list(range(len(call.needed(0).shape))):
        raise ValueError(f"the order of dims {order} is not a permutation")
    return {"perm": order}


def last_axis(call: Call) -> Attributes:
    """SOFTMAX and LOG_SOFTMAX: over the last axis."""
    return {"axis": -1}


def searched_axis(call: Call) -> Attributes:
    """ARG_MAX and ARG_MIN: the axis, None if the file does not have it; it disappears."""
    axis = call.needed(1).data
    return {"axis": None if axis is None else int(axis.reshape(-1)[0]), "keepdims": 0}


def reduction(call: Call) -> Attributes:
    """Reductions: whether the reduced axes stay, with one element."""
    return {"keepdims": call.option("KeepDims")}


def response_window(call: Call) -> Attributes:
    """LOCAL_RESPONSE_NORMALIZATION: the number of channels summed over."""
    return {"size": 2 * call.option("Radius") + 1}


def interpolation(mode: bytes) -> Callable[[Call], Attributes]:
    """Return the rule of a RESIZE operator: the kind of interpolation."""
    return lambda call: {"mode": mode}


def time_first(call: Call) -> Attributes:
    """Recurrent operators: whether dim 0 is time and dim 1 the batch."""
    return {"time_first": bool(call.option("TimeMajor"))}


def _window(call: Call) -> dict[str, Any]:
    padding: dict[str, Any] = {"auto_pad": b"SAME_UPPER"} if call.option("Padding", 1) == _SAME else {}
    dilations = (call.option("DilationHFactor", 1), call.option("DilationWFactor", 1))
    return {"strides": _positive(call, "StrideH", "StrideW"), "dilations": dilations} | padding


def _positive(call: Call, *names: str) -> tuple[int, ...]:
    numbers = tuple(map(call.option, names))
    if min(numbers) < 1:
        raise ValueError(f"the options {' and '.join(names)} are {numbers}")
    return numbers
