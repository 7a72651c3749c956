"""Small ONNX models that together reach the rules of the loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

IMPORTS: Final = (helper.make_opsetid("", 20), helper.make_opsetid("own", 1))


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """Names are separated by blanks, `_` is an absent one."""
    read, made = ([name.replace("_", "") for name in text.split()] for text in (inputs, outputs))
    return helper.make_node(op_type, read, made, name=f"n {made[0]}", **attributes)


def seeds() -> list[ModelProto]:
    """Return the models; each but the one with a loop becomes a Program when its dims have sizes."""
    numbers = np.arange
    x = {"x": ["batch", 4, 8, 8]}
    return [
        made_model([
            node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], dilations=[1, 1], group=1),
            node("BatchNormalization", "c b b b b", "n"), node("Relu", "n", "r"), node("Add", "r x", "a"),
            node("MaxPool", "a", "m", kernel_shape=[2, 2], strides=[2, 2]),
            node("ConvTranspose", "m t", "u", strides=[2, 2]),
            node("Resize", "u _ scales", "z", mode="linear"),
            node("AveragePool", "z", "v", kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
            node("GlobalAveragePool", "v", "g"), node("Flatten", "g", "f", axis=1),
            node("Gemm", "f k", "y", transB=1),
        ], x, {"w": (4, 4, 3, 3), "b": (4,), "t": (4, 4, 2, 2), "k": (10, 4), "scales": np.float32([1, 1, 2, 2])}),
        made_model([
            node("Shape", "x", "dims"), node("Gather", "dims zero", "rows", axis=0),
            node("Unsqueeze", "rows axes", "row"),
            node("Mul", "row two", "more"), node("Div", "more two", "same"),
            node("Concat", "same rest", "target", axis=0),
            node("Reshape", "x target", "r"), node("Slice", "dims one four axes", "tail"),
            node("ReduceProd", "tail", "all", keepdims=0),
            node("ConstantOfShape", "tail", "filled", value=helper.make_tensor("v", TensorProto.FLOAT, [1], [2.0])),
            node("Range", "zero all step", "range"), node("Cast", "range", "floats", to=TensorProto.FLOAT),
            node("Where", "flag range range", "where"), node("Tile", "range repeats", "tiled"),
            node("Equal", "row one", "flag"),
            node("Add", "r floats", "a"), node("Reshape", "a dims", "b"), node("Add", "b filled", "y"),
            node("Cast", "where", "w", to=TensorProto.FLOAT), node("Split", "w halves", "s t", axis=0),
            node("Transpose", "tiled", "z", perm=[0]),
        ], x, {
            "zero": np.array(0), "one": np.array([1]), "two": np.array([2]), "axes": np.array([0]),
            "rest": np.array([-1]), "four": np.array([4]),
            "step": np.array(1), "repeats": np.array([2]), "halves": np.array([128, 128]),
        }, "y s"),
        made_model([
            node("Identity", "flag", "c"),
            node("If", "c", "h", then_branch=_branch("Relu", "x"), else_branch=_branch("Tanh", "x")),
            node("If", "c", "y", then_branch=GraphProto(
                node=[node("If", "c", "o", then_branch=_branch("Exp", "h"), else_branch=_branch("Abs", "h"))],
                output=[helper.make_tensor_value_info("o", 1, None)]), else_branch=_branch("Neg", "h")),
        ], x, {"flag": np.array(True)}),
        made_model([
            node("Loop", "count flag x", "y", body=helper.make_graph(
                [node("Identity", "c", "d"),
                node("Relu", "v", "o")], "body", [helper.make_tensor_value_info("i", 7, []),
                 helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("v", 1, None)],
                [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("o", 1, None)])),
        ], x, {"count": np.array(3), "flag": np.array(True)}),
        made_model([
            node("SplitToSequence", "x pieces", "s", axis=1), node("SequenceInsert", "s x two", "t"),
            node("SequenceErase", "t two", "u"),
            node("SequenceAt", "u zero", "e"), node("SequenceLength", "u", "l"),
            node("SequenceConstruct", "e e", "p"),
            node("ConcatFromSequence", "p", "q", axis=1, new_axis=1), node("ConcatFromSequence", "u", "r", axis=1),
            node("SplitToSequence", "x", "w", axis=2, keepdims=0), node("ConcatFromSequence", "w", "v", axis=0),
            node("SequenceEmpty", "", "o"),
        ], x, {"pieces": np.array([1, 3]), "two": np.array(2), "zero": np.array(0)}, "q r v"),
        made_model([
            node("QuantizeLinear", "x scale zp", "q"), node("DequantizeLinear", "q scale zp", "d"),
            node("DequantizeLinear", "qw ws", "w", axis=0),
            node("Conv", "d w", "c"), node("QuantizeLinear", "c scale zp", "e"),
            node("DequantizeLinear", "e scale zp", "y"),
            node("DynamicQuantizeLinear", "x", "a b z"), node("MatMulInteger", "a qm", "i"),
            node("Cast", "i", "j", to=1),
        ], x, {
            "scale": np.float32(0.1), "zp": np.int8(0), "qw": TensorProto(dims=[4, 4, 1, 1], data_type=3), "ws": (4,),
            "qm": TensorProto(dims=[8, 8], data_type=3),
        }, "y j"),
        _functions(),
        made_model([
            node("MatMul", "x wq", "q"), node("MatMul", "x wk", "k"), node("Reshape", "q heads", "qh"),
            node("Reshape", "k heads", "kh"),
            node("Transpose", "qh", "qt", perm=[0, 2, 1, 3]), node("Transpose", "kh", "kt", perm=[0, 2, 3, 1]),
            node("MatMul", "qt kt", "s"),
            node("Mul", "s scale", "t"), node("Softmax", "t", "p", axis=-1), node("Trilu", "p", "u"),
            node("Einsum", "u qt", "o", equation="bhij,bhjd->bhid"),
            node("LayerNormalization", "x g g", "l", axis=-1), node("Gelu", "l", "e"),
            node("Attention", "x x x", "y", q_num_heads=2, kv_num_heads=2),
            node("GroupNormalization", "l g2 g2", "m", num_groups=2), node("RotaryEmbedding", "qt cos sin", "r"),
        ], {"x": ["batch", "length", 8]}, {
            "wq": (8, 8), "wk": (8, 8), "heads": np.array([0, -1, 2, 4]), "scale": np.float32(0.5), "g": (8,),
            "g2": (6,), "cos": (64, 2), "sin": (64, 2),
        }, "o e y r", opset=23),
        made_model([
            node("Gather", "table x", "e"), node("Transpose", "e", "t", perm=[1, 0, 2]),
            node("LSTM", "t w r b", "h h1 c1", hidden_size=4),
            node("Squeeze", "h axes", "s"), node("GRU", "s gw gr", "u u1", hidden_size=4),
            node("TopK", "s k", "v i", axis=-1), node("NonZero", "c", "nz"),
            node("ReduceMean", "s axes", "m"), node("CumSum", "m zero", "cs"), node("Pad", "cs pads", "p"),
            node("ScatterND", "p at add", "sc"),
            node("GatherElements", "s i", "ge", axis=2), node("Clip", "ge low", "y"), node("ArgMax", "s", "am"),
            node("OneHot", "am depth off", "oh"),
            node("LessOrEqual", "s m", "le"), node("GreaterOrEqual", "s m", "gq"), node("And", "le gq", "an"),
            node("Cast", "an", "z", to=1),
        ], {"x": ["batch", "length"]}, {
            "table": (100, 4), "w": (1, 16, 4), "r": (1, 16, 4), "b": (1, 32), "axes": np.array([1]),
            "gw": (1, 12, 4), "gr": (1, 12, 4), "k": np.array([2]),
            "c": np.array([0, 1, 1]), "zero": np.array(0), "pads": np.array([0, 0, 0, 0, 0, 1]),
            "at": numbers(6).reshape(2, 3) * 0, "add": np.float32([1, 2]),
            "low": np.float32(0), "depth": np.array(4), "off": np.float32([0, 1]),
        }, "y oh z sc u", types={"x": TensorProto.INT64}),
        made_model([
            node("RoiAlign", "x rois which", "r", output_height=2, output_width=2, sampling_ratio=2),
            node("GridSample", "x grid", "s"),
            node("LRN", "x", "l", size=3), node("InstanceNormalization", "l b b", "i"),
            node("DepthToSpace", "i", "d", blocksize=2),
            node("SpaceToDepth", "d", "e", blocksize=2), node("DeformConv", "e w o", "f", kernel_shape=[1, 1]),
            node("Concat", "f e", "y", axis=1),
            node("Dropout", "x", "dr"), node("Mish", "dr", "mi"), node("Sum", "mi dr x", "su"),
            node("Max", "su x", "ma"), node("Expand", "b to", "ex"),
            node("LpPool", "x", "lp", kernel_shape=[2, 2]), node("Col2Im", "cols size block", "ci"),
            node("Compress", "b keep", "co"), node("RandomNormalLike", "x", "ra"),
        ], x, {
            "rois": (3, 4), "which": np.array([0, 0, 0]), "grid": (1, 3, 3, 2), "b": (4,), "w": (4, 4, 1, 1),
            "o": (1, 2, 8, 8), "to": np.array([2, 4]),
            "cols": (1, 4, 9), "size": np.array([6, 6]), "block": np.array([2, 2]), "keep": np.array([True, False]),
        }, "r s y ma lp ra ex"),
    ]  # fmt: skip


def made_model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    constants: Mapping[str, Any],
    outputs: str = "y",
    types: Mapping[str, int] | None = None,
    opset: int = 20,
    **more: Any,
) -> ModelProto:
    """Return a model; a constant is given by its dims (a tuple), its contents, or as a TensorProto."""
    types = types or {}
    given = [helper.make_tensor_value_info(k, types.get(k, TensorProto.FLOAT), dims) for k, dims in inputs.items()]
    wanted = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split()]
    stored = [_constant(name, value) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "graph", given, wanted, initializer=stored)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **more)


def one_value(name: str) -> ValueInfoProto:
    """Return a graph's output of any shape."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _constant(name: str, value: Any) -> TensorProto:
    if isinstance(value, tuple):
        return TensorProto(name=name, dims=value, data_type=TensorProto.FLOAT)
    if isinstance(value, TensorProto):
        value.name = name
        return value
    return numpy_helper.from_array(np.asarray(value), name)


def _branch(op_type: str, read: str) -> GraphProto:
    return helper.make_graph([node(op_type, read, "i"), node("Identity", "i", "o")], "branch", [], [one_value("o")])


def _functions() -> ModelProto:
    """Return local functions that call each other, one with an attribute that refers to that of the call."""
    leaky = node("LeakyRelu", "a", "b")
    leaky.attribute.add(name="alpha", type=1, ref_attr_name="slope")
    inner = helper.make_function("own", "Inner", ["a"], ["b"], [leaky], IMPORTS, ["slope"])
    calls = [node("Inner", "a", "c", domain="own", slope=0.5), node("Inner", "c", "b", domain="own", slope=0.1)]
    outer = helper.make_function("own", "Outer", ["a"], ["b"], calls, IMPORTS)
    nodes = [node("Outer", "x", "h", domain="own"), node("Outer", "h", "y", domain="own")]
    return made_model(nodes, {"x": ["batch", 4]}, {}, functions=[inner, outer])
