"""Results in an operand's place: what each pair of a loaded program says is tried on the nodes of its op."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, shape_inference
from onnx.utils import Extractor

from memplace_env import from_jax
from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.frontends.onnx.runtime_operators import RUNTIME_OPERATORS
from memplace_env.program.frontends.stablehlo import load_stablehlo
from memplace_env.program.lowering.fusion import FUSIONS
from memplace_env.program.lowering.independence import NamedView, aligned, row_major
from memplace_env.program.program import Program, TensorKind
from tests.offenders import every
from tests.program.models import load_model, model, node
from tests.program.stablehlo.networks import shaped
from tests.program.tflite.writer import T, load, op
from tests.thorough import examples

RNG = np.random.default_rng(0)
IMAGE = [1, 2, 3, 3]
CONSTANTS: dict[str, Any] = {
    "w": RNG.uniform(0.1, 1, (2, 2, 1, 1)).astype(np.float32),
    "wide": RNG.uniform(0.1, 1, (2, 2, 3, 3)).astype(np.float32),
    "m": RNG.uniform(0.1, 1, (3, 3)).astype(np.float32),
    "k": RNG.uniform(0.1, 1, (2, 1, 1)).astype(np.float32),
    "g": RNG.uniform(0.1, 1, 2).astype(np.float32),
    "one": RNG.uniform(0.1, 1, 3).astype(np.float32),
    "flat": np.array([1, 18]), "square": np.array(IMAGE), "axis": np.array(2), "zero": np.array([0]),
}  # fmt: skip
ONE = {
    "Relu": "Relu {a}", "Sigmoid": "Sigmoid {a}", "Softmax": "Softmax {a}", "Normal": "LayerNormalization {a} one",
    "Instance": "InstanceNormalization {a} g g", "Batch": "BatchNormalization {a} g g g g", "Conv": "Conv {a} w",
    "Conv3": "Conv {a} wide", "MatMul": "MatMul {a} m", "Square": "MatMul {a} {a}", "Turn": "Transpose {a}",
    "Sum": "CumSum {a} axis", "Pool": "MaxPool {a}", "Local": "LRN {a}",
}  # fmt: skip
TWO = {
    "Add": "Add {a} {b}",
    "Mul": "Mul {b} {a}",
    "MatMul2": "MatMul {a} {b}",
    "Scale": "Mul {a} k",
    "Max": "Max {a} {b} k",
}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Turn": {"perm": [0, 1, 3, 2]}, "Conv3": {"pads": [1, 1, 1, 1]}, "Local": {"size": 3},
    "Pool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
}  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> ModelProto:
    """Nodes of all kinds over images of one shape, some of them seen as rows in between."""
    values, nodes = ["x"], list[NodeProto]()
    for index in range(draw(st.integers(2, 10))):
        kind = draw(st.sampled_from([*ONE, *TWO, *TWO, "Rows", "Mean"]))
        a, b = (draw(st.sampled_from(values[-3:])) for _ in range(2))
        result = f"v{index}"
        if kind == "Rows":
            nodes += [node("Reshape", f"{a} flat", f"{result}f"), node("Softmax", f"{result}f", f"{result}s")]
            nodes.append(node("Reshape", f"{result}s square", result))
        elif kind == "Mean":
            nodes += [node("ReduceMean", a, f"{result}m"), node("Sub", f"{b} {result}m", result)]
        else:
            op_type, *inputs = (ONE | TWO)[kind].format(a=a, b=b).split()
            more = ATTRIBUTES.get(kind, {})
            if kind == "Softmax":
                more = {"axis": draw(st.integers(1, 3))}
            nodes.append(node(op_type, " ".join(inputs), result, **more))
        values.append(result)
    return model(nodes, {"x": IMAGE}, values[-1], constants=CONSTANTS)


def changed(run: Any, feeds: dict[str, Any], name: str) -> list[set[int]]:
    """The elements of a result that are others once an element of an operand is, by that element."""
    before, found = run(None, feeds)[0].reshape(-1), []
    for element in range(feeds[name].size):
        other = feeds[name].copy()
        other.reshape(-1)[element] += 0.5
        found.append(set(np.flatnonzero(run(None, {**feeds, name: other})[0].reshape(-1) != before).tolist()))
    return found


def require_sound(proto: ModelProto, program: Program) -> None:
    """Require that an element of a pair's result needs the operand's element there, and no other but of its row."""
    whole = shape_inference.infer_shapes(proto)
    for use, result in program.inplace.tolist():
        number = int(program.use_op[use])
        operand, made = (program.tensor_value[program.use_tensor[at]] for at in (use, result))
        given = [t for t in program.operands(number) if program.tensor_kind[t] != TensorKind.WEIGHT]
        names = [program.tensor_value[tensor] for tensor in given]
        run = onnxruntime.InferenceSession(
            Extractor(whole).extract_model(names, [made]).SerializeToString(), providers=["CPUExecutionProvider"]
        ).run
        shapes = {info.name: [d.dim_value for d in info.type.tensor_type.shape.dim] for info in whole.graph.value_info}
        feeds = {name: RNG.uniform(0.1, 1, shapes.get(name, IMAGE)).astype(np.float32) for name in names}
        found = changed(run, feeds, operand)
        if OPERATORS[program.op_type[number]].rowwise:
            assert all(found[other] == found[element] for element in range(len(found)) for other in found[element])
        else:
            assert all(found[element] <= {element} for element in range(len(found)))


@examples(400, deadline=None)
@given(networks(), st.sampled_from(FUSIONS))
def test_pairs_of_random_networks(proto: ModelProto, fusion: str) -> None:
    programs = [load_model(proto, fusion=fusion, in_place=which) for which in ("none", "elementwise", "rows")]
    none, elementwise, rows = ({tuple(pair) for pair in program.inplace.tolist()} for program in programs)
    assert none == set()
    assert elementwise <= rows
    rowwise = {programs[2].op_type[programs[2].use_op[use]] for use, _ in rows - elementwise}
    assert all(OPERATORS[op_type].rowwise for op_type in rowwise)
    require_sound(proto, programs[2])


def pairs(nodes: list[NodeProto], fusion: str = "none", in_place: str = "rows", **more: Any) -> set[tuple[str, str]]:
    """The pairs of a program, by name of the values."""
    program = load_model(model(nodes, {"x": IMAGE}, constants=CONSTANTS, **more), fusion=fusion, in_place=in_place)
    return {tuple(program.tensor_value[tensor] for tensor in program.use_tensor[pair]) for pair in program.inplace}


def between(*nodes: NodeProto) -> list[NodeProto]:
    """Nodes from `a` to `b`, neither of which is an input or an output."""
    return [node("Hardmax", "x", "a"), *nodes, node("Hardmax", "b", "y")]


AB = {("a", "b")}
BACK = node("Cast", "i", "b", to=TensorProto.FLOAT)


@pytest.mark.parametrize(
    ("nodes", "fusion", "expected"),
    [
        ([node("Relu", "a", "b")], "none", AB),
        ([node("Add", "a a", "b")], "none", AB),
        ([node("Add", "a k", "b")], "none", AB),
        ([node("Reshape", "a flat", "f"), node("Neg", "f", "b")], "none", AB),
        ([node("Transpose", "a", "t", perm=[0, 1, 3, 2]), node("Add", "a t", "b")], "none", AB | {("t", "b")}),
        ([node("GlobalAveragePool", "a", "p"), node("Mul", "a p", "b")], "none", AB),
        ([node("Softmax", "a", "b", axis=1)], "none", AB),
        ([node("Cast", "a", "i", to=TensorProto.INT64), BACK], "none", set()),
        ([node("Cast", "a", "i", to=TensorProto.INT32), BACK], "none", {("a", "i")}),
        ([node("Conv", "a w", "c"), node("Add", "a c", "b")], "conv", set()),  # a factor, too
        ([node("Tanh", "x", "s"), node("Conv", "a w", "c"), node("Add", "s c", "b")], "conv", {("s", "b")}),
        ([node("Hardmax", "x", "s"), node("MatMul", "a m", "c"), node("Add", "s c", "b")], "epilogue", {("s", "b")}),
        ([node("MatMul", "a m", "c"), node("Mul", "a c", "b")], "epilogue", set()),
        *(([made], "none", set()) for made in (
            node("Transpose", "a", "b", perm=[0, 1, 3, 2]), node("CumSum", "a axis", "b"),
            node("LRN", "a", "b", size=3),
            node("MaxPool", "a", "b", kernel_shape=[1, 1]), node("MatMul", "a m", "b"), node("Gather", "a zero", "b"),
            node("ReduceMax", "a", "b"), node("Concat", "a a", "b", axis=0), node("MatMul", "a a", "b"),
        )),
    ],
)  # fmt: skip
def test_pairs_by_hand(nodes: list[NodeProto], fusion: str, expected: set[tuple[str, str]]) -> None:
    assert pairs(between(*nodes), fusion) - {("i", "b")} == expected


def test_the_setting_says_which() -> None:
    rows = between(node("Softmax", "a", "s"), node("Relu", "s", "b"))
    assert [pairs(rows, in_place=which) for which in ("none", "elementwise", "rows")] == [
        set(), {("s", "b")}, {("a", "s"), ("s", "b")}
    ]  # fmt: skip
    with pytest.raises(WorkloadError, match="in_place is 'all'"):
        pairs(rows, in_place="all")


@given(st.permutations(range(3)), st.lists(st.sampled_from([None, "p", "q"]), min_size=3, max_size=3), st.booleans())
def test_a_turned_operand_lies_elsewhere(order: list[int], names: list[Any], rowwise: bool) -> None:
    shape = (2, 2, 2)
    result, turned = NamedView(shape, row_major(shape), names), tuple(row_major(shape)[axis] for axis in order)
    fits = order == sorted(order) and (rowwise or None not in names)
    assert aligned([NamedView(shape, turned, names)], [result], rowwise) == fits
    assert not aligned([result, NamedView(shape, None, names)], [result], rowwise)


def test_every_operator_says_one_thing() -> None:
    """Row-wise operators are not element-wise, which would let them read any operand, nor random or products."""
    for row in (*OPERATORS.values(), *RUNTIME_OPERATORS.values()):
        assert not (row.rowwise and (row.elementwise or row.random or row.product or row.order))
        assert not (row.elementwise and (row.random or row.product or row.order or row.gathers))


def test_tflite() -> None:
    tensors = {name: T((1, 4, 4, 8)) for name in "xabcdey"} | {"w": T((8, 1, 1, 8)), "f": T((1, 8), "INT8")}
    ops = [op("LOGISTIC", "x", "a"), op("SOFTMAX", "a", "b"), op("ADD", "b a", "c"), op("CONV_2D", "c w _", "d"),
           op("ADD", "d c", "e"), op("ABS", "e", "y")]  # fmt: skip
    for fusion, expected in (("none", {"ab", "bc", "ac", "de", "ce"}), ("conv", {"ab", "bc", "ac"})):
        program = load(ops, tensors, fusion=fusion, in_place="rows")
        assert {
            "".join(program.tensor_value[t] for t in program.use_tensor[pair]) for pair in program.inplace
        } == expected


@every(
    ("function", "unfused", "fused"),
    [
        (lambda a: (a + 1) * a, 1, 1),
        (lambda a: jnp.tanh(a * 2) + a.sum(0), 0, 1),
        (lambda a: (a.reshape(-1) * 2).reshape(32, 32), 1, 1),
        (lambda a: a.T + a, 0, 0),
        (lambda a: a.T + 1, 0, 0),
        (lambda a: (a + 1) + a.T, 0, 0),
        (lambda a: (a + 1).T + a, 1, 0),
        (lambda a: a + a[0], 1, 0),
        (lambda a: a + jnp.tanh(a[0]), 1, 0),
        (lambda a: a + jnp.tanh(a.sum(0) * 2), 1, 1),
        (lambda a: a[::-1] * a, 0, 0),
        (lambda a: a.at[2:4].set(a[4:6]), 0, 0),
    ],
)
def test_stablehlo(function: Any, unfused: int, fused: int) -> None:
    """The function's argument gives its place to the function's own result, or does not."""
    for fusion, count in (("none", unfused), ("epilogue", fused)):
        program = from_jax(
            lambda x: jnp.sort(function(jnp.sort(x, 0)), 0), shaped(32, 32), fusion=fusion, in_place="elementwise"
        )
        ends = program.results(0)[0], program.operands(program.num_ops - 1)[0]
        assert program.use_tensor[program.inplace].tolist().count([*map(int, ends)]) == count, fusion


def test_a_broadcast_may_turn(tmp_path: Path) -> None:
    line = "stablehlo.broadcast_in_dim %a, dims = [{}] : (tensor<8x8xf32>) -> tensor<8x8xf32>"
    for dims, expected in (("0, 1", 1), ("1, 0", 0)):
        (tmp_path / "turned.mlir").write_text(f"""
            func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {{
              %a = stablehlo.exponential %x : tensor<8x8xf32>
              %t = {line.format(dims)}
              %b = stablehlo.tanh %t : tensor<8x8xf32>
              %y = stablehlo.sine %b : tensor<8x8xf32>
              return %y : tensor<8x8xf32>
            }}""")
        program = load_stablehlo(tmp_path / "turned.mlir", fusion="none", in_place="rows")
        assert (len(program.inplace), program.num_ops) == (expected, 3)


IDS = json.loads(files("memplace_env.envs").joinpath("ids.json").read_text("utf-8"))["one-shot"]


@cache
def of_id(name: str, in_place: str) -> Program:
    settings = {key: value for key, value in IDS[name].items() if key in ("batch", "dims", "dtype")}
    return resolve_workload(IDS[name].get("workload", name), **settings, in_place=in_place)


@every(("name", "elementwise", "rows"), [("BERT", 210, 247), ("DistilBERT-edge-tpu", 83, 102), ("ResNet50", 16, 16)])
def test_pairs_of_networks(name: str, elementwise: int, rows: int) -> None:
    """BERT: 25 normalisations, 12 softmaxes; each residual of ResNet50; the counts of the first measurement."""
    assert [len(of_id(name, which).handovers) for which in ("elementwise", "rows")] == [elementwise, rows]
    assert of_id(name, "none").sha256 == resolve_workload(of_id(name, "rows"), in_place="none").sha256
