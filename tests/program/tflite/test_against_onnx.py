"""The same network as .onnx and as .tflite file is the same Program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import NodeProto

from memplace_env.program.lowering.fusion import FUSIONS
from tests.program.models import load as load_onnx_nodes
from tests.program.models import node
from tests.program.tflite.writer import Op, T, load, op
from tests.thorough import examples

RELU = 1


@dataclass
class Both:
    """A network that grows in both formats; `shape` is [batch, height, width, channels] of its newest value `top`."""

    shape: tuple[int, int, int, int]
    top: str = "x"
    convolved: bool = False
    nodes: list[NodeProto] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, T] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = self.shape
        self.tensors["x"] = self._image(self.shape)

    def convolution(
        self, filters: int, kernel: int, stride: int, dilation: int, pad: Any, relu: bool, groups: int
    ) -> None:
        """`pad` is "same", or (top, left, bottom, right), which in TFLite is a PAD before the convolution."""
        batch, *size, channels = self.shape
        reach = (kernel - 1) * dilation
        name, groups = f"v{len(self.tensors)}", {0: channels}.get(groups, groups)
        common = {"StrideH": stride, "StrideW": stride, "DilationHFactor": dilation, "DilationWFactor": dilation}
        window = {"strides": [stride] * 2, "dilations": [dilation] * 2, "group": groups}
        source = self.top
        if pad == "same":
            result = [-(-each // stride) for each in size]
            where = {"auto_pad": "SAME_UPPER"}
        else:
            padded = [size[0] + pad[0] + pad[2], size[1] + pad[1] + pad[3]]
            result = [(each - reach - 1) // stride + 1 for each in padded]
            where = {"pads": list(pad)}
            if any(pad):
                source = f"{name}_pad"
                rows = [[0, 0], [pad[0], pad[2]], [pad[1], pad[3]], [0, 0]]
                self.tensors |= {
                    f"{name}_rows": T([4, 2], "INT32", rows),
                    source: self._image((batch, *padded, channels)),
                }
                self.ops.append(op("PAD", f"{self.top} {name}_rows", source))
        depthwise = groups == channels
        stored = [1, kernel, kernel, filters] if depthwise else [filters, kernel, kernel, channels // groups]
        self.shape = (batch, *result, filters)
        self.constants |= {f"{name}_w": (filters, channels // groups, kernel, kernel), f"{name}_b": (filters,)}
        self.tensors |= {
            f"{name}_w": T(stored, "FLOAT32"),
            f"{name}_b": T([filters], "FLOAT32"),
            name: self._image(self.shape),
        }
        op_type = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        flags = {**common, "Padding": 0 if pad == "same" else 1, "FusedActivationFunction": RELU * relu}
        self.ops.append(op(op_type, f"{source} {name}_w {name}_b", name, **flags))
        result = f"{name}_c" if relu else name
        self.nodes.append(node("Conv", f"{self.top} {name}_w {name}_b", result, **window, **where))
        if relu:
            self.nodes.append(node("Relu", result, name))
        self.top, self.convolved = name, not relu

    def pool(self, op_type: str, kernel: int, stride: int) -> None:
        onnx = {"MAX_POOL_2D": "MaxPool", "AVERAGE_POOL_2D": "AveragePool"}[op_type]
        batch, *size, channels = self.shape
        self.shape = (batch, *(-(-each // stride) for each in size), channels)
        size_of = {"FilterHeight": kernel, "FilterWidth": kernel, "StrideH": stride, "StrideW": stride}
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "auto_pad": "SAME_UPPER"}
        self._grow(op_type, onnx, self.top, {**size_of, "Padding": 0}, window)

    def unary(self, op_type: str, onnx: str) -> None:
        self._grow(op_type, onnx, self.top)

    def silu(self) -> None:
        source = self.top
        self._grow("LOGISTIC", "Sigmoid", source)
        self._grow("MUL", "Mul", f"{source} {self.top}")

    def residual(self, relu: bool) -> None:
        """A linear convolution of the newest value, and that value added."""
        skip, channels = self.top, self.shape[3]
        self.convolution(channels, 3, 1, 1, "same", relu=False, groups=1)
        self._grow("ADD", "Add", f"{self.top} {skip}", {"FusedActivationFunction": RELU * relu}, relu=relu)

    def head(self, classes: int) -> None:
        """The mean over height and width, a fully connected layer and the softmax."""
        batch, _, _, channels = self.shape
        self.tensors |= {"axes": T([2], "INT32", [1, 2]), "mean": T([batch, channels], "FLOAT32")}
        self.tensors |= {"head": T([classes, channels], "FLOAT32"), "logits": T([batch, classes], "FLOAT32")}
        self.tensors["y"] = T([batch, classes], "FLOAT32")
        self.constants |= {"head": (classes, channels), "axes": [2, 3]}
        self.ops += [op("MEAN", f"{self.top} axes", "mean"), op("FULLY_CONNECTED", "mean head _", "logits")]
        self.ops.append(op("SOFTMAX", "logits", "y"))
        self.nodes += [
            node("ReduceMean", f"{self.top} axes", "mean", keepdims=0),
            node("Gemm", "mean head", "logits", transB=1),
        ]
        self.nodes.append(node("Softmax", "logits", "y"))

    def _grow(
        self, op_type: str, onnx: str, inputs: str, options: Any = None, attributes: Any = None, relu: bool = False
    ) -> None:
        name = f"v{len(self.tensors)}"
        self.tensors[name] = self._image(self.shape)
        self.ops.append(op(op_type, inputs, name, **(options or {})))
        result = f"{name}_a" if relu else name
        self.nodes.append(node(onnx, inputs, result, **(attributes or {})))
        if relu:
            self.nodes.append(node("Relu", result, name))
        self.top = name

    @staticmethod
    def _image(shape: tuple[int, ...]) -> T:
        return T(shape, "FLOAT32")


@st.composite
def networks(draw: st.DrawFn, activated_sums: bool) -> Both:
    """Chains of layers; an addition has a Relu behind it only if `activated_sums`."""
    size = st.integers(5, 12)
    both = Both((draw(st.integers(1, 2)), draw(size), draw(size), draw(st.sampled_from([2, 4]))))
    for _ in range(draw(st.integers(1, 5))):
        match draw(st.sampled_from(["convolution", "depthwise", "pool", "silu", "residual", "tanh"])):
            case "convolution" | "depthwise" as kind:
                groups = draw(st.sampled_from([1, 2])) if kind == "convolution" and both.shape[3] > 2 else 1
                filters = both.shape[3] * draw(st.integers(1, 2)) if kind == "depthwise" else 4
                pads = st.tuples(*[st.integers(0, 2)] * 4)
                pad = draw(st.one_of(st.just("same"), pads)) if min(both.shape[1:3]) >= 5 else "same"
                strides = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2)))
                both.convolution(filters, *strides, pad, draw(st.booleans()), 0 if kind == "depthwise" else groups)
            case "pool":
                op_type = draw(st.sampled_from(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
                both.pool(op_type, draw(st.integers(1, 3)), draw(st.integers(1, 2)))
            case "silu":
                both.silu()
            case "residual":
                both.residual(activated_sums and draw(st.booleans()))
            case "tanh":
                both.unary("TANH", "Tanh")
    both.head(draw(st.integers(2, 10)))
    return both


@pytest.mark.parametrize("fusion", FUSIONS[1:])
@examples(20)
@given(data=st.data())
def test_the_same_program(data: st.DataObject, fusion: str) -> None:
    # Only .tflite files have a sum and its Relu as one op where fusion leaves both alone.
    both = data.draw(networks(activated_sums=fusion != "activation"))
    batch, height, width, channels = both.first
    shape = [batch, channels, height, width]
    onnx = load_onnx_nodes(both.nodes, {"x": shape}, constants=both.constants, opset=18, fusion=fusion)
    tflite = load(both.ops, both.tensors, fusion=fusion)
    assert tflite.op_type == onnx.op_type
    for array in ("gemm", "vector_ops", "geometry", "tensor_bytes", "tensor_kind", "use_tensor", "use_bytes"):
        assert getattr(tflite, array).tolist() == getattr(onnx, array).tolist(), array
    assert tflite.sha256 == onnx.sha256
