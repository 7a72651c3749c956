"""Models that ONNX Runtime optimised: as much work as in the models that they came from, and the runtime's shapes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnxruntime.transformers.optimizer import optimize_model

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx import inferred_graph, load_onnx
from memplace_env.program.frontends.onnx.runtime_operators import RUNTIME_ATTRIBUTES
from memplace_env.program.lowering.node_graph import Site
from memplace_env.program.program import TensorKind
from tests.offenders import every
from tests.program.models import load_model, model, names, node
from tests.thorough import examples

MICROSOFT = helper.make_opsetid("com.microsoft", 1)
RNG = np.random.default_rng(0)
B, S, H, N = 2, 6, 8, 2
"""Batch, length, features and heads of the attention here; each head has 4 features."""


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int) -> Any:
    return RNG.integers(0, 200, shape).astype(np.uint8)


def own(op_type: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return node(op_type, inputs, outputs, domain="com.microsoft", **attributes)


def made(nodes: list[NodeProto], inputs: Mapping[str, Any], outputs: str, constants: Mapping[str, Any]) -> ModelProto:
    """A model of opset 17 whose inputs have the shapes and types of arrays."""
    shapes = {name: list(value.shape) for name, value in inputs.items()}
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in inputs.items()}
    types |= dict.fromkeys(outputs.split(), TensorProto.UNDEFINED)
    proto = model(nodes, shapes, outputs, constants, types, opset=17)
    proto.opset_import.append(MICROSOFT)
    for value in proto.graph.output:
        value.ClearField("type")
    return proto


def session(source: str | bytes, level: Any, written: Path | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 3
    options.intra_op_num_threads = 1
    if written is not None:
        options.optimized_model_filepath = str(written)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def computed(proto: ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """Compute a model in the runtime, without optimising it."""
    return session(proto.SerializeToString(), onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, inputs)


# A whole model, optimised.


def two_layers() -> ModelProto:
    """An embedding, two residual blocks with Gelu and normalisations, and a convolution of the result."""
    k = {"table": floats(20, H), "half": np.float32(0.5), "one": np.float32(1), "root": np.float32(2**0.5)}
    nodes, x = [node("Gather", "table ids", "x0")], "x0"
    for n in range(2):
        k |= {f"w{n}": floats(H, 4 * H), f"b{n}": floats(4 * H), f"v{n}": floats(4 * H, H), f"c{n}": floats(H)}
        k |= {f"g{n}": floats(H), f"h{n}": floats(H)}
        nodes += [
            node("MatMul", f"{x} w{n}", f"m{n}"), node("Add", f"m{n} b{n}", f"a{n}"),
            node("Div", f"a{n} root", f"d{n}"), node("Erf", f"d{n}", f"e{n}"), node("Add", f"e{n} one", f"f{n}"),
            node("Mul", f"a{n} f{n}", f"i{n}"), node("Mul", f"i{n} half", f"j{n}"),
            node("MatMul", f"j{n} v{n}", f"o{n}"), node("Add", f"o{n} c{n}", f"p{n}"),
            node("Add", f"p{n} {x}", f"q{n}"), node("LayerNormalization", f"q{n} g{n} h{n}", f"r{n}", axis=-1),
        ]  # fmt: skip
        x = f"r{n}"
    k |= {"axes": np.array([1]), "filters": floats(3, 1, 3, 3), "turned": floats(H, 4)}
    nodes += [node("Unsqueeze", f"{x} axes", "u"), node("Conv", "u filters", "s", pads=[1] * 4), node("Relu", "s", "t")]
    nodes += [node("Transpose", "t", "tt", perm=[0, 1, 3, 2]), node("MatMul", "t tt", "y")]
    return made(nodes, {"ids": np.zeros((B, S), np.int64)}, "y", k)


def by_session(path: Path) -> Path:
    written = path.with_name("session.onnx")
    session(str(path), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, written)
    return written


def by_script(path: Path) -> Path:
    written = path.with_name("script.onnx")
    optimize_model(str(path), "bert", num_heads=N, hidden_size=H, opt_level=0).save_model_to_file(str(written))
    return written


@pytest.mark.parametrize(
    ("optimised", "fused"),
    [(by_session, {"FusedConv", "FusedMatMul"}), (by_script, {"BiasGelu", "SkipLayerNormalization"})],
)
@pytest.mark.parametrize("fusion", ["none", "conv"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_optimised_model_does_the_same_work(
    tmp_path: Path, optimised: Callable[[Path], Path], fused: set[str], fusion: str
) -> None:
    """Fusing conserves products and element operations, and saves traffic alone."""
    path = tmp_path / "model.onnx"
    path.write_bytes(two_layers().SerializeToString())
    before, after = (load_onnx(file, fusion=fusion) for file in (path, optimised(path)))
    assert fused <= set(after.op_type)
    assert after.num_ops < before.num_ops
    assert after.macs.sum() == before.macs.sum()
    products = [op for op in range(after.num_ops) if after.op_type[op] == "Gemm"]
    biases = sum(int(after.tensor_bytes[after.results(op)].sum()) // 4 for op in products)
    assert after.vector_ops.sum() + biases == before.vector_ops.sum(), "an Add that became a Gemm's bias costs nothing"
    for kind in (TensorKind.WEIGHT, TensorKind.INPUT, TensorKind.OUTPUT):
        assert after.bytes_of(kind) == before.bytes_of(kind)
    assert after.bytes_of(TensorKind.ACTIVATION) < before.bytes_of(TensorKind.ACTIVATION)


# Single operators, against the ONNX operators that they stand for.

X, SKIP, BIAS, SCALE = floats(B, S, H), floats(B, S, H), floats(H), floats(H)
QKV, QKV_BIAS = floats(H, 3 * H), floats(3 * H)
HEADS = {"to_heads": np.array([B, S, N, H // N]), "flat": np.array([B, S, H]), "root": np.float32((H // N) ** -0.5)}


def heads(name: str) -> list[NodeProto]:
    return [
        node("Reshape", f"{name} to_heads", f"{name}h"),
        node("Transpose", f"{name}h", f"{name}t", perm=[0, 2, 1, 3]),
    ]


ATTENTION = [
    *heads("q"), *heads("k"), *heads("v"),
    node("Transpose", "kt", "kk", perm=[0, 1, 3, 2]), node("MatMul", "qt kk", "scores"),
    node("Mul", "scores root", "scaled"), node("Softmax", "scaled", "p"), node("MatMul", "p vt", "o"),
    node("Transpose", "o", "ot", perm=[0, 2, 1, 3]), node("Reshape", "ot flat", "y"),
]  # fmt: skip
PAIRS: dict[str, tuple[list[NodeProto], list[NodeProto], dict[str, Any], dict[str, Any]]] = {
    "Attention": (
        [own("Attention", "x qkv b", "y", num_heads=N)],
        [node("MatMul", "x qkv", "m"), node("Add", "m b", "a"), node("Split", "a", "q k v", axis=-1), *ATTENTION],
        {"x": X},
        {"qkv": QKV, "b": QKV_BIAS, **HEADS},
    ),
    "MultiHeadAttention": (
        [own("MultiHeadAttention", "q k v", "y", num_heads=N)],
        ATTENTION,
        {"q": X, "k": SKIP, "v": floats(B, S, H)},
        HEADS,
    ),
    "SkipLayerNormalization": (
        [own("SkipLayerNormalization", "x s g b c", "y")],
        [
            node("Add", "x s", "t"),
            node("Add", "t c", "u"),
            node("LayerNormalization", "u g b", "y", axis=-1, epsilon=1e-12),
        ],
        {"x": X, "s": SKIP},
        {"g": SCALE, "b": BIAS, "c": floats(H)},
    ),
    "EmbedLayerNormalization": (
        [own("EmbedLayerNormalization", "ids types words places kinds g b", "y _", epsilon=1e-5)],
        [
            node("Gather", "words ids", "a"),
            node("Gather", "kinds types", "c"),
            node("Slice", "places zero six", "d"),
            node("Add", "a d", "e"),
            node("Add", "e c", "f"),
            node("LayerNormalization", "f g b", "y", axis=-1),
        ],
        {"ids": np.full((B, S), 3, np.int32), "types": np.ones((B, S), np.int32)},
        {
            "words": floats(50, H),
            "places": floats(12, H),
            "kinds": floats(2, H),
            "g": SCALE,
            "b": BIAS,
            "zero": np.array([0]),
            "six": np.array([S]),
        },
    ),
    "FusedGemm": (
        [own("FusedGemm", "x w b", "y", activation="Relu", transB=1)],
        [node("Gemm", "x w b", "g", transB=1), node("Relu", "g", "y")],
        {"x": floats(5, H)},
        {"w": floats(7, H), "b": floats(7)},
    ),
    "FusedMatMul": (
        [own("FusedMatMul", "x z", "y", transA=1, alpha=0.5)],
        [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "t z", "m"), node("Mul", "m half", "y")],
        {"x": X, "z": floats(B, S, 3)},
        {"half": np.float32(0.5)},
    ),
    "FusedConv": (
        [own("FusedConv", "x w b z", "y", activation="Relu", strides=[2, 2])],
        [node("Conv", "x w b", "c", strides=[2, 2]), node("Add", "c z", "a"), node("Relu", "a", "y")],
        {"x": floats(1, 3, 9, 9), "z": floats(1, 5, 4, 4)},
        {"w": floats(5, 3, 3, 3), "b": floats(5)},
    ),
}
SAVED = {"Attention": 5, "MultiHeadAttention": 5, "EmbedLayerNormalization": 0}


@every("name", PAIRS)
def test_an_operator_counts_as_what_it_stands_for(name: str) -> None:
    """The runtime computes the same, and both have the same products; a mask of scores is always counted."""
    fused, apart, inputs, constants = PAIRS[name]
    protos = [made(nodes, inputs, "y", constants) for nodes in (fused, apart)]
    first, second = (computed(proto, inputs)[0] for proto in protos)
    np.testing.assert_allclose(first, second, atol=1e-4)
    one, many = (load_model(proto) for proto in protos)
    assert one.op_type == (name,)
    assert one.macs.sum() == many.macs.sum()
    masked = B * N * S * S if name in ("Attention", "MultiHeadAttention") else 0
    assert one.vector_ops.sum() - masked == many.vector_ops.sum()
    assert names(one, TensorKind.WEIGHT) <= set(constants)
    if name == "EmbedLayerNormalization":
        read = dict(zip(one.operands(0), one.use_bytes[: len(one.operands(0))].tolist(), strict=True))
        assert {one.tensor_name[t]: n for t, n in read.items()}["words"] == 4 * B * S * H, "rows, not the table"


def quantised(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> NodeProto:
    """A node whose inputs each stand with a scale and a zero point; "/" is the result's."""
    return own(
        op_type, " ".join("s p" if part == "/" else f"{part} s p" for part in inputs.split()), outputs, **attributes
    )


CASES: dict[str, tuple[NodeProto, dict[str, Any]]] = {
    "gelu": (own("Gelu", "x", "y"), {"x": X}),
    "fast": (own("FastGelu", "x b", "y"), {"x": X, "b": BIAS}),
    "quick": (own("QuickGelu", "x", "y"), {"x": X}),
    "bias": (own("BiasGelu", "x b", "y"), {"x": X, "b": BIAS}),
    "simple": (own("SkipSimplifiedLayerNormalization", "x b g", "y _ _ z"), {"x": X, "b": SKIP, "g": SCALE}),
    "rotary": (
        own("RotaryEmbedding", "x i c d", "y"),
        {"x": floats(B, N, S, 4), "i": np.zeros(1, np.int64), "c": floats(9, 2), "d": floats(9, 2)},
    ),
    "past": (
        own("Attention", "x w b _ c", "y z", num_heads=N, unidirectional=1),
        {"x": X, "w": QKV, "b": QKV_BIAS, "c": floats(2, B, N, 3, 4)},
    ),
    "cross": (
        own("MultiHeadAttention", "q k v", "y", num_heads=N),
        {"q": X, "k": floats(B, 9, H), "v": floats(B, 9, H)},
    ),
    "cached": (
        own("MultiHeadAttention", "q k v _ _ _ c d", "y z1 z2", num_heads=N),
        {"q": X, "k": X, "v": X, "c": floats(B, N, 3, 4), "d": floats(B, N, 3, 4)},
    ),
    "encoder": (
        own("MultiHeadAttention", "q k v", "y", num_heads=N),
        {"q": X, "k": floats(B, N, 9, 4), "v": floats(B, N, 9, 4)},
    ),
    "grouped": (
        own("GroupQueryAttention", "q k v c d l t", "y z1 z2", num_heads=4, kv_num_heads=2),
        {
            "q": floats(1, 1, 32),
            "k": floats(1, 1, 16),
            "v": floats(1, 1, 16),
            "c": floats(1, 2, 5, 8),
            "d": floats(1, 2, 5, 8),
            "l": np.array([5], np.int32),
            "t": np.array(6, np.int32),
        },
    ),
    "turned": (own("FusedMatMul", "a b", "y", transB=1, transBatchB=1), {"a": floats(3, 2, 5), "b": floats(4, 3, 5)}),
    "integers": (own("MatMulIntegerToFloat", "a b s s", "y"), {"a": bytes_(3, 5), "b": bytes_(5, 2)}),
    "dynamic": (own("DynamicQuantizeMatMul", "a b s", "y"), {"a": floats(2, 3, 5), "b": bytes_(5, 2)}),
    "attention": (
        own("QAttention", "a b c s s _ p p", "y", num_heads=N),
        {"a": bytes_(B, S, H), "b": bytes_(H, 3 * H), "c": QKV_BIAS},
    ),
    "gemm": (own("QGemm", "a s p b s p", "y"), {"a": bytes_(3, 5), "b": bytes_(5, 2)}),
    "small gemm": (own("QGemm", "a s p b s p _ s p", "y"), {"a": bytes_(3, 5), "b": bytes_(5, 2)}),
    "sum": (quantised("QLinearAdd", "a b /"), {"a": bytes_(3, 5), "b": bytes_(5)}),
    "gate": (quantised("QLinearMul", "a b /"), {"a": bytes_(3, 5), "b": bytes_(3, 1)}),
    "leaky": (quantised("QLinearLeakyRelu", "a /", alpha=0.1), {"a": bytes_(3, 5)}),
    "sigmoid": (quantised("QLinearSigmoid", "a /"), {"a": bytes_(3, 5)}),
    "softmax": (quantised("QLinearSoftmax", "a /", opset=13, axis=-1), {"a": bytes_(3, 5)}),
    "where": (
        own("QLinearWhere", "c a s p b s p s p", "y"),
        {"c": np.ones((3, 1), bool), "a": bytes_(3, 5), "b": bytes_(5)},
    ),
    "joined": (own("QLinearConcat", "s p a s p b s p", "y", axis=1), {"a": bytes_(3, 5), "b": bytes_(3, 2)}),
    "pooled": (quantised("QLinearAveragePool", "a /", kernel_shape=[2, 2], strides=[2, 2]), {"a": bytes_(1, 3, 8, 8)}),
    "pooled wholly": (quantised("QLinearGlobalAveragePool", "a /"), {"a": bytes_(1, 3, 8, 8)}),
    "convolved": (
        quantised("QLinearConv", "a w /", pads=[1, 1, 1, 1]),
        {"a": bytes_(1, 3, 8, 8), "w": bytes_(4, 3, 3, 3)},
    ),
    "to bytes": (own("QuantizeLinear", "x s p", "y"), {"x": X}),
    "from bytes": (own("DequantizeLinear", "a s p", "y"), {"a": bytes_(3, 5)}),
    "recurrent": (
        own("DynamicQuantizeLSTM", "x w r _ _ _ _ _ t q t q", "y z1 z2", hidden_size=3, direction=b"bidirectional"),
        {"x": floats(S, B, 5), "w": bytes_(2, 5, 12), "r": bytes_(2, 3, 12), "t": floats(2), "q": bytes_(2)},
    ),
    "embedded": (
        own("QEmbedLayerNormalization", "i i a a a c c _ s s s s s p p p p p", "y z"),
        {"i": np.zeros((B, S), np.int32), "a": bytes_(9, H), "c": bytes_(H)},
    ),
    "gathered": (
        own("GatherBlockQuantized", "a i t", "y", block_size=16, gather_axis=0, quantize_axis=1, bits=4),
        {"a": bytes_(9, 16), "i": np.array([[3, 1]]), "t": floats(9, 2)},
    ),
    "floats of 4 bits": (
        own("MatMulBnb4", "x w t", "y", K=32, N=4, block_size=16, quant_type=1),
        {"x": floats(3, 32), "w": bytes_(64), "t": floats(8)},
    ),
    "older": (own("TransposeMatMul", "a b", "y", transB=1, alpha=0.5), {"a": floats(3, 5), "b": floats(2, 5)}),
    "split": (
        own("MatMulNBits", "x w t", "y", K=32, N=4, bits=4, block_size=16),
        {"x": floats(3, 32), "w": bytes_(4, 2, 8), "t": floats(8)},
    ),
}
UNTRIED = {
    "BiasSoftmax",
    "BiasSplitGelu",
    "GemmFastGelu",
    "QLinearReduceMean",
    "LayerNormalization",
    "SimplifiedLayerNormalization",
}
"""Operators that the runtime has no kernel for on processors; ONNX's own names, see below."""


@every("case", CASES)
def test_shapes_are_the_runtime_s(case: str, tmp_path: Path) -> None:
    """Also the types; the file does not declare them."""
    own_node, inputs = CASES[case]
    constants = {"s": np.float32(0.1), "p": np.uint8(3)}
    used = {name: value for name, value in constants.items() if name in own_node.input}
    outputs = [name for name in own_node.output if name]
    proto = made([own_node], inputs, " ".join(outputs), used)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    graph = inferred_graph(path)
    for name, result in zip(outputs, computed(proto, inputs), strict=True):
        value = graph.values[name]
        assert (value.shape, helper.tensor_dtype_to_np_dtype(value.element_type)) == (result.shape, result.dtype), name
    assert load_onnx(path).num_ops == 1


def test_every_operator_is_tried() -> None:
    from memplace_env.program.frontends.onnx.runtime_operators import RUNTIME_OPERATORS

    tried = {own_node.op_type for own_node, _ in CASES.values()} | PAIRS.keys()
    assert tried | UNTRIED == RUNTIME_OPERATORS.keys()


@pytest.mark.parametrize(("name", "work"), [("LayerNormalization", 8), ("SimplifiedLayerNormalization", 5)])
def test_operators_that_stand_in_onnx_s_domain(name: str, work: int) -> None:
    """The runtime writes them for files of every opset."""
    proto = made([node(name, "x g", "y", axis=-1)], {"x": X}, "y", {"g": SCALE})
    proto.opset_import[0].version = 13
    assert computed(proto, {"x": X})[0].shape == X.shape
    program = load_model(proto)
    assert (program.op_type, program.vector_ops.tolist()) == ((name,), [work * X.size])


def test_other_operators_of_the_runtime() -> None:
    for domain, reason in (
        ("com.microsoft", "is unknown"),
        ("com.microsoft.nchwc", "save .* with ORT_ENABLE_EXTENDED"),
    ):
        proto = made([node("ReorderInput", "x", "y", domain=domain)], {"x": X}, "y", {})
        with pytest.raises(WorkloadError, match=rf"'ReorderInput' of domain '{domain}' .*{reason}"):
            load_model(proto)


@every(
    "damaged",
    [
        own("FusedMatMul", "x z", "y"),
        own("FusedMatMul", "x", "y"),
        own("Attention", "x z", "y", num_heads=0),
        own("Attention", "x w", "y", num_heads=2, qkv_hidden_sizes=[1, 2]),
        own("MultiHeadAttention", "x", "y", num_heads=0),
        own("MultiHeadAttention", "x", "y", num_heads=10**6),
        own("MultiHeadAttention", "w w w", "y", num_heads=2),
        own("FusedConv", "x w", "y"),
        own("QLinearConcat", "x w", "y"),
        own("BiasSplitGelu", "", "y"),
        own("EmbedLayerNormalization", "x", "y"),
        own("MatMulNBits", "x w", "y", K=-1, N=2**62),
        own("FastGelu", "x w", "y", _to="x"),
    ],
)
def test_damaged_operators(damaged: NodeProto) -> None:
    """One sentence, or a Program: never another exception."""
    try:
        load_model(made([damaged, node("Relu", "y", "r")], {"x": X, "z": floats(3, 3)}, "r", {"w": QKV}))
    except WorkloadError as error:
        assert "n_y" in str(error)  # noqa: PT017


ATTRIBUTES = (*RUNTIME_ATTRIBUTES, "to", "perm", "unknown")
VALUES = (
    "x", "", b"\xff", math.nan, math.inf, -math.inf, 0.5, 1e300, 0, 1, 3, -1, -(2**63), 2**63 - 1, [1], [0, 0],
    [-1] * 4, [2**62] * 2, [1] * 50, [0.5, math.nan], ["a"], helper.make_tensor("t", 1, [1], [1.0]),
    helper.make_graph([], "g", [], []),
)  # fmt: skip
SEEDS: list[tuple[list[NodeProto], dict[str, Any], dict[str, Any]]] = [
    *(([case], inputs, {"s": np.float32(0.1), "p": np.uint8(3)}) for case, inputs in CASES.values()),
    *((fused, inputs, constants) for fused, _, inputs, constants in PAIRS.values()),
    *((apart, inputs, constants) for _, apart, inputs, constants in PAIRS.values()),
]


@examples(600)
@given(st.data())
def test_attributes_of_any_type_and_size(data: st.DataObject) -> None:
    """One sentence, or a Program, for standard operators and those of the runtime: never another exception."""
    nodes, inputs, constants = data.draw(st.sampled_from(SEEDS))
    nodes = [NodeProto.FromString(one.SerializeToString()) for one in nodes]
    spoiled = data.draw(st.sampled_from(nodes))
    given_ = [attribute.name for attribute in spoiled.attribute]
    for name in data.draw(st.lists(st.sampled_from((*given_ * 3, *ATTRIBUTES)), min_size=1, max_size=3, unique=True)):
        for old in [attribute for attribute in spoiled.attribute if attribute.name == name]:
            spoiled.attribute.remove(old)
        spoiled.attribute.append(helper.make_attribute(name, data.draw(st.sampled_from(VALUES))))
        if data.draw(st.integers(0, 9)) == 0:
            spoiled.attribute[-1].type = data.draw(st.integers(0, 14))
    used = {name: value for name, value in constants.items() if any(name in one.input for one in nodes)}
    proto = made(nodes, inputs, "y", used)
    with suppress(WorkloadError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load_model(proto, fusion=data.draw(st.sampled_from(["none", "conv", "epilogue"])))


@every("value", ["x", math.nan, math.inf, [1, 1], 0.5])
def test_an_attribute_of_another_type_is_named(value: Any) -> None:
    proto = made([own("QuickGelu", "x", "y", group=value)], {"x": X}, "y", {})
    with pytest.raises(WorkloadError, match=r"'group' of node 'n_y' \(QuickGelu\) is of type .*, not INT; exp"):
        load_model(proto)


def test_all_attributes_that_rules_read_have_types(monkeypatch: pytest.MonkeyPatch) -> None:
    read, attribute = set(), Site.attribute

    def noting(site: Site, name: str, default: Any) -> Any:
        read.add(name)
        return attribute(site, name, default)

    monkeypatch.setattr(Site, "attribute", noting)
    for nodes, inputs, constants in SEEDS:
        if all(one.domain for one in nodes):
            used = {name: value for name, value in constants.items() if any(name in one.input for one in nodes)}
            load_model(made(nodes, inputs, "y", used))
    assert read - RUNTIME_ATTRIBUTES.keys() == set()
