"""Work of single ops, MACs of whole models against independent counts, and geometry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, shape_inference

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.model_file import read_bytes
from memplace_env.program.program import GEOMETRY
from memplace_env.program.zoo import zoo_path
from tests.program.models import LIGHT, load, node, weight

REFERENCE_GMACS = {
    "bvlc_alexnet": 0.6546,
    "densenet121": 2.8342,
    "inception_v1": 1.4316,
    "inception_v2": 2.0189,
    "resnet50": 4.0892,
    "shufflenet": 0.1247,
    "squeezenet": 0.3492,
    "vgg19": 19.6321,
    "zfnet512": 1.4817,
}


@pytest.mark.parametrize("name", REFERENCE_GMACS)
def test_macs_of_the_light_models(name: str) -> None:
    path = LIGHT / f"light_{name}.onnx"
    programs = [load_onnx(path, fusion=fusion) for fusion in ("none", "conv", "epilogue")]
    for program in programs:
        assert round(program.macs.sum() / 1e9, 4) == REFERENCE_GMACS[name]
        assert program.vector_ops.sum() == programs[0].vector_ops.sum()


def count_naively(proto: ModelProto) -> dict[str, int]:
    """MACs of each Conv, Gemm and MatMul by its first output: result elements x what each sums over."""
    graph = shape_inference.infer_shapes(proto, data_prop=True).graph
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
              for v in (*graph.input, *graph.output, *graph.value_info)}  # fmt: skip
    shapes |= {t.name: list(t.dims) for t in graph.initializer}
    macs = {}
    for n in graph.node:
        flags = {a.name: a.i for a in n.attribute}
        elements = math.prod(shapes.get(n.output[0], [0]))
        if n.op_type == "Conv":
            macs[n.output[0]] = elements * math.prod(shapes[n.input[1]][1:])
        elif n.op_type == "Gemm":
            macs[n.output[0]] = elements * shapes[n.input[0]][0 if flags.get("transA") else 1]
        elif n.op_type == "MatMul":
            macs[n.output[0]] = elements * shapes[n.input[0]][-1]
    return macs


def bound(path: Any, sizes: dict[str, int]) -> ModelProto:
    proto = onnx.load_model_from_string(read_bytes(path, ".onnx"))
    for value in proto.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = sizes[dim.dim_param]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    return proto


@pytest.mark.parametrize("name", ["densenet121", "resnet50", "shufflenet", "BERT", "GPT2", "ViT"])
def test_macs_agree_op_by_op_with_whole_model_inference(name: str) -> None:
    light = LIGHT / f"light_{name}.onnx"
    if light.exists():
        sizes: dict[str, int] = {}
        proto, program = onnx.load(light), load_onnx(light, fusion="none")
    else:
        sizes = {"batch": 2, "sequence": 48}
        proto = bound(zoo_path(name), sizes)
        dims = {"sequence": 48} if name != "ViT" else None
        program = load_onnx(zoo_path(name), batch=2, dims=dims, fusion="none")
    counted = count_naively(proto)
    by_result = {program.tensor_name[program.results(t)[0]]: int(m) for t, m in enumerate(program.macs) if m}
    assert by_result == {name: macs for name, macs in counted.items() if name in by_result}
    assert sum(by_result.values()) == sum(counted.values())


GEMMS: list[tuple[str, str, dict[str, list[int]], dict[str, tuple[int, ...]], dict[str, Any], list[int]]] = [
    ("Conv", "x w", {"x": [2, 6, 9, 7]}, {"w": (4, 3, 3, 3)}, {"group": 2, "strides": [2, 1], "pads": [1, 1, 1, 1]},
     [2, 2 * 5 * 7, 27, 2]),
    ("Conv", "x w", {"x": [2, 6, 9]}, {"w": (4, 6, 3)}, {}, [1, 14, 18, 4]),
    ("ConvTranspose", "x w", {"x": [2, 6, 4, 4]}, {"w": (6, 5, 2, 2)}, {"group": 2, "strides": [2, 2]},
     [2, 32, 3, 20]),
    ("Gemm", "x w", {"x": [3, 4]}, {"w": (4, 5)}, {}, [1, 3, 4, 5]),
    ("Gemm", "x w", {"x": [4, 3]}, {"w": (5, 4)}, {"transA": 1, "transB": 1}, [1, 3, 4, 5]),
    ("MatMul", "x w", {"x": [2, 7, 3, 4]}, {"w": (4, 5)}, {}, [1, 42, 4, 5]),
    ("MatMul", "x w", {"x": [2, 1, 3, 4]}, {"w": (7, 4, 5)}, {}, [14, 3, 4, 5]),
    ("MatMul", "x w", {"x": [4]}, {"w": (4, 5)}, {}, [1, 1, 4, 5]),
    ("MatMul", "x w", {"x": [2, 3, 4]}, {"w": (4,)}, {}, [1, 6, 4, 1]),
    ("Einsum", "x w", {"x": [2, 3, 4]}, {"w": (2, 4, 5)}, {"equation": "bij,bjk->bik"}, [2, 3, 4, 5]),
    ("Einsum", "x w", {"x": [2, 7, 3, 4]}, {"w": (2, 7, 5, 4)}, {"equation": "...ij, ...kj -> ...ik"}, [14, 3, 4, 5]),
    ("Einsum", "x w", {"x": [3, 4]}, {"w": (4, 5)}, {"equation": "ij,jk"}, [1, 3, 4, 5]),
    ("Einsum", "x w", {"x": [3]}, {"w": (5,)}, {"equation": "i,j->ij"}, [1, 3, 1, 5]),
    ("Einsum", "x w", {"x": [3, 4]}, {"w": (3, 4)}, {"equation": "ij,ij->ij"}, [0, 0, 0, 0]),
    ("LSTM", "x w r", {"x": [7, 2, 5]}, {"w": (1, 12, 5), "r": (1, 12, 3)}, {"hidden_size": 3}, [7, 2, 8, 12]),
    ("GRU", "x w r", {"x": [7, 2, 5]}, {"w": (2, 9, 5), "r": (2, 9, 3)},
     {"hidden_size": 3, "direction": "bidirectional"}, [14, 2, 8, 9]),
    ("RNN", "x w r", {"x": [2, 7, 5]}, {"w": (1, 3, 5), "r": (1, 3, 3)}, {"hidden_size": 3, "layout": 1},
     [7, 2, 8, 3]),
    ("Attention", "x w v", {"x": [2, 8, 5, 16], "w": [2, 8, 6, 16], "v": [2, 8, 6, 16]}, {}, {}, [32, 5, 16, 6]),
    ("Attention", "x w v", {"x": [2, 8, 5, 16], "w": [2, 4, 6, 16], "v": [2, 4, 6, 8]}, {}, {}, [16, 5, 24, 6]),
    ("Attention", "x w v", {"x": [2, 5, 64], "w": [2, 6, 32], "v": [2, 6, 32]}, {},
     {"q_num_heads": 4, "kv_num_heads": 2}, [16, 5, 16, 6]),
]  # fmt: skip


@pytest.mark.parametrize("case", GEMMS, ids=[f"{case[0]}{index}" for index, case in enumerate(GEMMS)])
def test_matrix_products(case: Any) -> None:
    op_type, operands, inputs, constants, attributes, expected = case
    result = "_ y" if op_type in ("LSTM", "GRU", "RNN") else "y"
    program = load([node(op_type, operands, result, **attributes)], inputs, constants=constants, opset=23)
    assert list(program.gemm[0]) == expected


def test_integer_products() -> None:
    types = {"x": TensorProto.UINT8, "y": TensorProto.INT32}
    constants = {"w": weight("w", (4, 5), TensorProto.INT8)}
    program = load([node("MatMulInteger", "x w", "y")], {"x": [3, 4]}, constants=constants, types=types)
    assert list(program.gemm[0]) == [1, 3, 4, 5]
    assert program.dtype == "int8"
    scalars = {"s": np.float32(1), "z": np.uint8(0)}
    filters = {"w": weight("w", (4, 3, 1, 1), TensorProto.UINT8)}
    program = load([node("QLinearConv", "x s z w s z s z", "y")], {"x": [1, 3, 8, 8]}, constants=scalars | filters,
                   types={"x": TensorProto.UINT8, "y": TensorProto.UINT8})  # fmt: skip
    assert list(program.gemm[0]) == [1, 64, 3, 4]
    assert list(program.tensor_bytes) == [192, 12, 256]


@pytest.mark.parametrize(
    ("op_type", "attributes", "expected"),
    [
        ("Relu", {}, 96),
        ("Gelu", {}, 8 * 96),
        ("Erf", {}, 4 * 96),
        ("Softmax", {}, 5 * 96),
        ("ReduceMean", {}, 96),
        ("GlobalAveragePool", {}, 96),
        ("MaxPool", {"kernel_shape": [2, 3]}, 6 * 2 * 3 * 3 * 2),
        ("LRN", {"size": 5}, 8 * 96),
        ("Transpose", {}, 0),
        ("DepthToSpace", {"blocksize": 1}, 0),
    ],
)
def test_element_operations(op_type: str, attributes: dict[str, Any], expected: int) -> None:
    program = load([node(op_type, "x", "y", **attributes)], {"x": [2, 3, 4, 4]})
    assert program.vector_ops[0] == expected
    assert program.macs[0] == 0


def test_variadic_resize_and_normalisations() -> None:
    assert load([node("Sum", "x a b", "y")], {"x": [4], "a": [4], "b": [4]}).vector_ops[0] == 8
    scales = {"s": np.array([1, 1, 2, 2], np.float32)}
    for mode, points in (("nearest", 0), ("linear", 4), ("cubic", 16)):
        program = load([node("Resize", "x _ s", "y", mode=mode)], {"x": [1, 1, 3, 3]}, constants=scales)
        assert program.vector_ops[0] == points * 36
    constants = {"g": (6,)}
    program = load([node("LayerNormalization", "x g g", "y")], {"x": [2, 6]}, constants=constants)
    assert program.vector_ops[0] == 8 * 12
    program = load([node("GroupNormalization", "x g g", "y", num_groups=2)], {"x": [2, 6, 3]}, constants=constants,
                   opset=21)  # fmt: skip
    assert program.vector_ops[0] == 8 * 36


@pytest.mark.parametrize(("reduction", "expected"), [("none", 0), ("add", 6), ("max", 6)])
def test_scatters_that_combine_work(reduction: str, expected: int) -> None:
    inputs, types = {"x": [5, 3], "i": [2, 1], "u": [2, 3]}, {"i": TensorProto.INT64}
    program = load([node("ScatterND", "x i u", "y", reduction=reduction)], inputs, types=types)
    assert program.vector_ops[0] == expected


def test_einsum_that_is_not_supported() -> None:
    with pytest.raises(WorkloadError, match="at most two"):
        load([node("Einsum", "x x x", "y", equation="i,i,i->i")], {"x": [4]})
    with pytest.raises(WorkloadError, match="repeats a label"):
        load([node("Einsum", "x w", "y", equation="ii,i->i")], {"x": [4, 4]}, constants={"w": (4,)})


def test_every_rule_is_about_an_operator_of_onnx() -> None:
    unknown = {name for name in OPERATORS if not onnx.defs.has(name)}
    assert unknown <= {"Swish", "RMSNormalization", "RotaryEmbedding", "Attention", "TensorScatter", "SwiGLU",
                       "CumProd"}  # fmt: skip


def columns(program: Any, op: int = 0) -> dict[str, int]:
    return dict(zip(GEOMETRY, map(int, program.geometry[op]), strict=True))


def test_geometry_of_a_convolution() -> None:
    conv = node("Conv", "x w", "y", group=2, strides=[2, 3], pads=[1, 2, 1, 2], dilations=[1, 2])
    program = load([conv], {"x": [5, 6, 20, 30]}, constants={"w": (4, 3, 3, 5)})
    assert columns(program) == {
        "batch": 5, "ifm_x": 30, "ifm_y": 20, "ifm_z": 6, "ofm_x": 9, "ofm_y": 10, "ofm_z": 4,
        "groups": 2, "kernel_x": 5, "kernel_y": 3, "stride": 3, "pad": 2, "dilation": 2, "stride_y": 2,
    }  # fmt: skip


def test_geometry_of_other_shapes() -> None:
    text = columns(load([node("Relu", "x", "y")], {"x": [2, 128, 768]}))
    assert [text[key] for key in ("batch", "ifm_x", "ifm_y", "ifm_z")] == [2, 128, 1, 768]
    flat = columns(load([node("Relu", "x", "y")], {"x": [2, 10]}))
    assert [flat[key] for key in ("batch", "ofm_x", "ofm_y", "ofm_z", "kernel_x", "stride")] == [2, 1, 1, 10, 0, 1]
    wave = columns(
        load([node("Conv", "x w", "y", auto_pad="SAME_UPPER")], {"x": [2, 3, 50]}, constants={"w": (4, 3, 5)})
    )
    assert [wave[key] for key in ("ifm_x", "ifm_z", "ofm_x", "kernel_x", "kernel_y", "pad")] == [50, 3, 50, 5, 1, 2]
    assert wave["stride_y"] == 1
