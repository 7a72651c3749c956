"""Patterns: what a file writes out gives the Program of the one op, and what is nearly a pattern stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, helper

from memplace_env._lib.errors import WorkloadError
from memplace_env.backends.ort import Executor
from memplace_env.cli.model_flags import ModelFlags, registered_envs
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.program.program import Program
from tests.program.models import load, model, node
from tests.program.tflite import writer
from tests.program.tflite.writer import T
from tests.thorough import examples

SHAPE = [2, 3, 16]
VARIANCE = "ReduceMean x @-1 -> m; Sub x m -> d; Pow d 2 -> q; ReduceMean q @-1 -> v; Add v 1e-5 -> e; Sqrt e -> s; "
FORMULAS: Mapping[str, Sequence[str]] = {
    "Gelu x": (
        "Div x 1.4142135 -> a; Erf a -> e; Add e 1 -> f; Mul x f -> h; Mul h 0.5 -> y",
        "Mul x 0.70710677 -> a; Erf a -> e; Add e 1 -> f; Mul x 0.5 -> h; Mul h f -> y",
    ),
    "Gelu x approximate=tanh": (
        "Pow x 3 -> c; Mul c 0.044715 -> k; Add x k -> a; Mul a 0.7978846 -> l; Tanh l -> t; Add t 1 -> u;"
        "Mul x 0.5 -> h; Mul h u -> y",
        "Mul x x -> q; Mul q 0.044715 -> k; Add k 1 -> a; Mul a 0.7978846 -> l; Mul x l -> n; Tanh n -> t;"
        "Add 1 t -> u; Mul u x -> h; Mul 0.5 h -> y",
    ),
    "Swish x": ("Sigmoid x -> s; Mul s x -> y", "Neg x -> n; Exp n -> e; Add e 1 -> s; Div x s -> y"),
    "Mish x": (
        "Softplus x -> p; Tanh p -> t; Mul x t -> y",
        "Exp x -> e; Add e 1 -> f; Log f -> p; Tanh p -> t; Mul t x -> y",
    ),
    "HardSwish x": (
        "Add x 3 -> a; Clip a 0 6 -> c; Mul x c -> m; Div m 6 -> y",
        "Add x 3 -> a; Relu a -> r; Min r 6 -> c; Div c 6 -> d; Mul d x -> y",
        "HardSigmoid x alpha=0.16666667 -> s; Mul s x -> y",
    ),
    "HardSigmoid x alpha=0.16666667": ("Add x 3 -> a; Clip a 0 6 -> c; Div c 6 -> y",),
    "Sigmoid x": ("Neg x -> n; Exp n -> e; Add e 1 -> s; Reciprocal s -> y",),
    "Softplus x": ("Exp x -> e; Add 1 e -> f; Log f -> y",),
    "LayerNormalization x g b": (
        VARIANCE + "Div d s -> n; Mul n g -> k; Add k b -> y",
        VARIANCE + "Reciprocal s -> r; Mul r g -> k; Mul x k -> n; Mul m k -> l; Sub b l -> o; Add n o -> y",
    ),
    "LayerNormalization x g": (VARIANCE + "Div d s -> n; Mul g n -> y",),
    "RMSNormalization x g": (
        "Pow x 2 -> q; ReduceMean q @-1 -> v; Add v 1e-6 -> e; Sqrt e -> s; Reciprocal s -> r;"
        "Mul x r -> n; Mul g n -> y",
        "Mul x x -> q; ReduceMean q @-1 -> v; Add 1e-6 v -> e; Sqrt e -> s; Div x s -> n; Mul n g -> y",
    ),
    "Softmax x": ("ReduceMax x @-1 -> m; Sub x m -> d; Exp d -> e; ReduceSum e @-1 -> s; Div e s -> y",),
    "RotaryEmbedding x cos sin _ num_heads=1": (
        "Mul x c -> a; Slice x @8 @99 @2 -> h; Neg h -> n; Slice x @0 @8 @-1 -> l; Concat n l axis=-1 -> t;"
        "Mul t s -> p; Add a p -> y",
        "Split x axis=-1 num_outputs=2 -> l h; Neg h -> n; Concat n l axis=2 -> t; Mul t s -> p;"
        "Mul x c -> a; Add p a -> y",
    ),
}  # fmt: skip
"""The one op, and forms in which exporters write it out."""
PREPARED = {"RotaryEmbedding": ["Concat cos cos axis=-1 -> c", "Concat sin sin axis=-1 -> s"]}
OTHERS = {"QuickGelu x": "Mul x 1.702 -> a; Sigmoid a -> s; Mul x s -> y",
          "BiasSoftmax x mask axis=2 is_inner_broadcast=0": "Add mask x -> a; Softmax a -> y"}  # fmt: skip
"""The same of operators of ONNX Runtime."""


def parsed(text: str, spoilt: str = "", domain: str = "") -> tuple[list[NodeProto], dict[str, Any]]:
    """Nodes of a text, and its numbers as initialisers, of which one may be spoilt."""
    nodes, numbers = [], dict[str, Any]()
    for part in filter(None, text.split(";")):
        left, _, results = part.partition("->")
        op_type, *words = left.split()
        names, more = [], dict[str, Any]()
        for word in words:
            key, equals, value = word.partition("=")
            if equals:
                more[key] = value if value.isalpha() else float(value) if "." in value else int(value)
                continue
            names.append(word)
            if word[0] == "@":
                numbers[word] = np.array([int(word[1:])])
            elif word[0].isdigit():
                numbers[word] = np.array(float(word) * (1.01 if word == spoilt else 1), np.float32)
        nodes.append(node(op_type, " ".join(names), results.strip(), **more, domain=domain))
    return nodes, numbers


def net(nodes: list[NodeProto], numbers: Mapping[str, Any], outputs: str = "z", **settings: Any) -> Program:
    """Nodes from x to y between two products."""
    around = [node("MatMul", "i w", "x"), *nodes, node("MatMul", "y w", "z")]
    constants = {"w": (16, 16), "g": (16,), "b": (16,), **numbers}
    inputs = {"i": SHAPE, "cos": [2, 3, 8], "sin": [2, 3, 8], "mask": SHAPE}
    return load(around, inputs, outputs, constants=constants, opset=24, **settings)


def written(one: str, form: str, spoilt: str = "", **settings: Any) -> Program:
    prepared = ";".join([*PREPARED.get(one.split()[0], ()), form])
    return net(*parsed(prepared, spoilt), **settings)


CASES = [(one, form) for one, forms in FORMULAS.items() for form in forms]
NUMBERS = [(one, form, word) for one, form in [*CASES, *OTHERS.items()] for word in form.split()
           if word[0].isdigit() and word not in ("0", "1e-5", "1e-6")]  # fmt: skip


@pytest.mark.parametrize(("one", "form"), [*CASES, *OTHERS.items()])
def test_a_form_is_the_one_op(one: str, form: str) -> None:
    domain = "com.microsoft" if one in OTHERS else ""
    for fusion in ("none", "chain", "epilogue"):
        expected = net(*parsed(one + " -> y", domain=domain), fusion=fusion)
        found = written(one, form, fusion=fusion, patterns="on")
        if one.startswith("Rotary"):  # whose caches hold each angle twice here
            assert found.vector_ops[-2:].tolist() == expected.vector_ops[-2:].tolist()
            assert found.op_type[-2:] == expected.op_type[-2:]
        else:
            assert found.sha256 == expected.sha256
        assert Counter(sum(found.op_nodes, ())) == Counter(sum(written(one, form).op_nodes, ()))


@pytest.mark.parametrize(("one", "form", "number"), NUMBERS)
def test_another_number_is_no_pattern(one: str, form: str, number: str) -> None:
    kind = one.split()[0]
    assert kind not in written(one, form, number, patterns="on").op_type[1:-1]


@pytest.mark.parametrize(("one", "form"), [*CASES, *OTHERS.items()])
def test_an_inner_value_that_is_needed_stays(one: str, form: str) -> None:
    """A graph output inside, or a value that another op reads, is no pattern's."""
    for inner in form.split(";")[:-1]:
        name = inner.split("->")[1].split()[0]
        assert name in written(one, form, outputs=f"z {name}", patterns="on").tensor_value
        assert name in written(one, f"{form};Sin {name} -> more", outputs="z more", patterns="on").tensor_value


@examples(60, deadline=None)
@given(st.data())
def test_order_constants_and_casts_do_not_matter(data: st.DataObject) -> None:
    one, form = data.draw(st.sampled_from([case for case in CASES if not case[0].startswith("Rotary")]))
    nodes, numbers = parsed(form)
    made: list[NodeProto] = []
    for proto in nodes:
        if proto.op_type in ("Add", "Mul") and data.draw(st.booleans()):
            proto.input[:] = proto.input[::-1]
        for at, name in enumerate(proto.input):
            if name in numbers and proto.op_type in ("Add", "Mul", "Div") and data.draw(st.booleans()):
                value = helper.make_tensor("", TensorProto.FLOAT, [1], [float(numbers[name])])
                made.append(helper.make_node("Constant", [], [f"{name}{len(made)}"], value=value))
                proto.input[at] = made[-1].output[0]
        made.append(proto)
        if proto.output[0] != "y" and len(made) < 2 * len(nodes) and data.draw(st.booleans()):
            name = proto.output[0]
            made.append(node("Cast", f"{name}_", f"{name}d", to=TensorProto.DOUBLE))
            made.append(node("Cast", f"{name}d", name, to=TensorProto.FLOAT))
            proto.output[0] = f"{name}_"
    found = net(made, numbers, patterns="on", dtype="float16")
    assert found.sha256 == net(*parsed(one + " -> y"), dtype="float16").sha256


def test_softmax_takes_scale_and_mask() -> None:
    scores = 2 * 3 * 16
    for form, kind, work in (
        ("Mul x 0.125 -> a; Softmax a -> y", "Softmax", 6),
        ("Div x 8 -> a; Add a mask -> o; Softmax o -> y", "BiasSoftmax", 7),
        ("Add x mask -> o; Mul 0.5 o -> a; Softmax a -> y", "BiasSoftmax", 7),
        ("Reshape x @8 -> q; Reshape q @4 -> r; Add r mask -> o; Softmax o -> y", "BiasSoftmax", 6),
    ):
        nodes, numbers = parsed(form)
        shapes = {"@8": np.array([6, 16]), "@4": np.array(SHAPE)}
        program = net(nodes, {**numbers, **{k: v for k, v in shapes.items() if k in numbers}}, patterns="on")
        assert program.op_type == ("MatMul", kind, "MatMul")
        assert program.vector_ops.tolist() == [0, work * scores, 0]
    for form in ("Div 8 x -> a; Softmax a -> y", "Mul x mask -> a; Softmax a -> y", "Add x 1 -> a; Softmax a -> y"):
        assert net(*parsed(form), patterns="on").num_ops == 4


@pytest.mark.parametrize(
    ("rest", "outputs", "left"),
    [
        ("Relu x -> r; T r -> t; MatMul x t -> k; MatMul k r -> y", "z", 0),
        ("Relu x -> r; T r -> t; Reshape t @2,16,3 -> u; MatMul x u -> k; MatMul k r -> y", "z", 0),
        ("Relu x -> r; T r -> t; MatMul x t -> k; MatMul k r -> y", "z t", 1),
        ("Relu x -> r; T r -> t; MatMul x t -> k; Abs t -> more; MatMul k r -> y", "z more", 1),
        ("T x -> t; Abs t -> u; T u -> v; Abs v -> y", "z", 1),
        ("T x -> t; Abs t -> u; T u -> v; Add v x -> y", "z", 2),
        ("T x -> t; Abs t -> u; T u -> v; Abs v -> y", "z x", 2),
    ],
)
def test_transpositions_beside_products_are_layouts(rest: str, outputs: str, left: int) -> None:
    nodes, _ = parsed(rest.replace("@2,16,3", "shape"))
    for proto in nodes:
        if proto.op_type == "T":
            proto.op_type = "Transpose"
            proto.attribute.append(helper.make_attribute("perm", [0, 2, 1]))
    constants = {"shape": np.array([2, 16, 3])}
    on, off = (net(nodes, constants, outputs, patterns=which) for which in ("on", "off"))
    assert Counter(on.op_type)["Transpose"] == left
    assert on.macs.sum() == off.macs.sum()
    assert Counter(off.op_type)["Transpose"] > left or left


INTEGERS = {
    "MatMulInteger": ("MatMulIntegerToFloat", [2, 16], (16, 16), (16,)),
    "ConvInteger": ("ConvIntegerToFloat", [1, 4, 5, 5], (8, 4, 1, 1), (1, 8, 1, 1)),
}


def quantised(product: str, after: str, outputs: str = "y", **settings: Any) -> Program:
    _, shape, filters, channel = INTEGERS[product]
    nodes, numbers = parsed(f"DynamicQuantizeLinear x -> q s p; {product} q k p -> i; Cast i to=1 -> f; {after}")
    stored = helper.make_tensor("k", TensorProto.UINT8, filters, bytes(int(np.prod(filters))), True)
    constants = {**numbers, "k": stored,
                 "ks": np.array(0.5, np.float32), "kc": channel, "bias": channel}  # fmt: skip
    return load(nodes, {"x": shape}, outputs, constants=constants, **settings)


@pytest.mark.parametrize("product", INTEGERS)
def test_dequantisation_is_in_its_product(product: str) -> None:
    kind = INTEGERS[product][0]
    for after, count, work in (
        ("Mul s ks -> c; Mul f c -> y", 2, 2),
        ("Mul ks s -> c; Mul c f -> h; Add bias h -> y", 2, 3),
        ("Mul s kc -> c; Mul f c -> h; Add h bias -> j; Relu j -> y", 3, 3),
        ("Mul f s -> h; Mul kc h -> y", 2, 2),
        ("Mul f f -> h; Mul h s -> y", 5, 0),
        ("Add f bias -> y", 4, 0),
    ):
        program = quantised(product, after, patterns="on")
        assert program.num_ops == count
        assert (kind in program.op_type) == (work > 0)
        results = int(np.prod(INTEGERS[product][1])) * (2 if product == "ConvInteger" else 1)
        assert not work or program.vector_ops[1] == work * results
        assert program.macs.sum() == quantised(product, after).macs.sum()
        assert quantised(product, f"{after}; Neg i -> n", "y n", patterns="on").op_type[1] == product
    fused = quantised(
        product, "Mul s kc -> c; Mul f c -> h; Add h bias -> j; Relu j -> y", patterns="on", fusion="conv"
    )
    assert fused.num_ops == (2 if product == "ConvInteger" else 3)


def test_dequantised_product_is_that_of_onnx_runtime() -> None:
    found = quantised("MatMulInteger", "Mul s ks -> c; Mul f c -> h; Add h bias -> y", patterns="on")
    one, _ = parsed("MatMulIntegerToFloat q k s kc p _ bias -> y", domain="com.microsoft")
    nodes, _ = parsed("DynamicQuantizeLinear x -> q s p")
    weights = helper.make_tensor("k", TensorProto.UINT8, [16, 16], bytes(256), True)
    constants = {"k": weights, "kc": np.array(0.5, np.float32), "bias": (16,)}
    assert found.sha256 == load([*nodes, *one], {"x": [2, 16]}, constants=constants).sha256


def test_quantising_and_dequantising_is_one_op() -> None:
    """The dequantised tensor is a view of the quantised one, with and without patterns."""
    nodes, numbers = parsed("QuantizeLinear x scale zero -> q; DequantizeLinear q scale zero -> y")
    constants = {**numbers, "scale": np.array(0.5, np.float32), "zero": np.array(0, np.int8)}
    for which in ("on", "off"):
        assert net(nodes, constants, patterns=which).op_type == ("MatMul", "QuantizeLinear", "MatMul")


def test_tflite() -> None:
    def program(second: str, options: Mapping[str, int], **settings: Any) -> Program:
        ops = [writer.op("LOGISTIC", "x", "s"), writer.op(second, "x s", "y", **options)]
        return writer.load(ops, {name: T([1, 4, 4, 8], "FLOAT32") for name in "xsy"}, fusion="none", **settings)

    assert program("MUL", {}, patterns="on").op_type == ("Swish",)
    assert program("MUL", {}).num_ops == 2
    assert program("MUL", {"FusedActivationFunction": 1}, patterns="on").num_ops == 2
    assert program("ADD", {}, patterns="on").num_ops == 2
    ops = [writer.op("ADD", "x three", "a"), writer.op("RELU6", "a", "c"), writer.op("MUL", "x c", "y")]
    tensors = {**{name: T([1, 4, 4, 8], "INT8") for name in "xacy"}, "three": T([1], "INT8", [3])}
    assert writer.load(ops, tensors, fusion="none", patterns="on").num_ops == 3


@pytest.fixture
def written_out(tmp_path: Path) -> str:
    nodes, numbers = parsed(FORMULAS["Gelu x"][0] + "; MatMul y w -> z")
    path = tmp_path / "net.onnx"
    proto = model(nodes, {"x": [16, 16]}, "z", constants={**numbers, "w": np.ones((16, 16), np.float32)})
    path.write_bytes(proto.SerializeToString())
    return str(path)


def test_the_setting_travels(written_out: str) -> None:
    """A plan that says nothing, as all did before, has the file's own ops."""
    for value, ops, said in ((None, 2, "on"), ("on", 2, "on"), ("off", 6, None)):
        task = resolve_task(written_out, patterns=value, fusion="conv")
        assert (task.program.num_ops, task.settings.get("patterns")) == (ops, said)
        plan = native_plan(task)
        again = ModelFlags().with_defaults_of(plan).task(written_out)
        assert (again.settings, again.program.sha256) == (task.settings, task.program.sha256)
        assert resolve_task(task.program, patterns="off").program.sha256 == task.program.sha256
        assert Executor(task).run(plan).right
    for wrong in ("all", 1):
        with pytest.raises(WorkloadError, match="patterns is"):
            resolve_task(written_out, patterns=wrong)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="patterns cannot apply"):
        resolve_task(task, patterns="off")


def test_ids_have_the_files_ops() -> None:
    specs = [spec for name, spec in registered_envs().items() if "workload" in spec.kwargs and "-Compiled-" not in name]
    assert {spec.kwargs["patterns"] for spec in specs if "optimum" not in spec.kwargs} == {"off"}
    env: Any = gym.make("MemPlace-BERT-v0").unwrapped
    assert "patterns" not in env.task.settings
    assert ModelFlags(patterns="on").of_id("MemPlace-BERT-v0")[1].patterns == "on"
    assert ModelFlags().registered("BERT")[1].patterns is None
