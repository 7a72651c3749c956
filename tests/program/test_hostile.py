"""Files made to take for ever, to fill memory, to read other files or to write to a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program import model_file
from memplace_env.program.frontends.onnx import control_flow, load_onnx, topology
from memplace_env.program.program import TensorKind
from tests.offenders import every
from tests.program.models import load, load_model, model, names, node

RELU = [node("Relu", "x", "y")]
OWN = [helper.make_opsetid("", 20), helper.make_opsetid("my", 1)]


def nested_functions(levels: int, calls: int) -> ModelProto:
    functions = []
    for level in range(levels):
        called = {"op_type": f"f{level - 1}", "domain": "my"} if level else {"op_type": "Relu"}
        results = [f"t{index}" for index in range(calls - 1)] + ["y"]
        chain = zip(["x", *results], results, strict=False)
        nodes = [helper.make_node(inputs=[read], outputs=[name], **called) for read, name in chain]
        functions.append(helper.make_function("my", f"f{level}", ["x"], ["y"], nodes, OWN))
    proto = model([node(f"f{levels - 1}", "x", "y", domain="my")], {"x": [1, 4]}, functions=functions)
    proto.opset_import.append(OWN[1])
    return proto


def test_functions_are_counted_before_they_are_inlined() -> None:
    assert load_model(nested_functions(3, 5), fusion="none").num_ops == 125
    with pytest.raises(WorkloadError, match=r"over 100,000 nodes"):
        load_model(nested_functions(8, 10))
    with pytest.raises(WorkloadError, match=r"over 100 deep"):
        load_model(nested_functions(1000, 1))


def test_long_operands_of_functions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model_file.LIMITS, "bytes of local functions", 2**19)  # type: ignore[arg-type]
    proto = nested_functions(2, 8)
    load_model(proto)
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "x" * 10_000
    with pytest.raises(WorkloadError, match="bytes of local functions"):
        load_model(proto)


@pytest.mark.parametrize("what", ["nodes", "operands and results"])
def test_limits_of_what_stands_in_the_file(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    nodes = [node("Relu", "x" if index == 0 else f"v{index - 1}", f"v{index}") for index in range(40)]
    load(nodes, {"x": [4]}, "v39")
    monkeypatch.setitem(model_file.LIMITS, what, 39)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match=f"over 39 {what}"):
        load(nodes, {"x": [4]}, "v39")


def test_sequences_that_grow_are_counted() -> None:
    grown = [node("SequenceInsert", f"s{index} x", f"s{index + 1}") for index in range(2000)]
    ends = [node("SequenceConstruct", "x", "s0"), node("ConcatFromSequence", "s2000", "y", axis=0)]
    with pytest.raises(WorkloadError, match="operands and results"):
        load([*grown, *ends], {"x": [1, 4]})


def test_computed_constants_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("ConstantOfShape", "s", "k"), node("Add", "k k", "l"), node("Add", "l x", "y")]
    load(nodes, {"x": [1, 4]}, constants={"s": np.array([64, 4])})
    monkeypatch.setitem(model_file.LIMITS, "elements of computed constants", 1000)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="over 1,000 elements of computed constants"):
        load(nodes, {"x": [1, 4]}, constants={"s": np.array([64, 4])})


def test_gathering_at_an_absurd_place_is_not_tried() -> None:
    with pytest.raises(WorkloadError, match="depends on the data"):
        load([node("GatherElements", "a i", "k"), node("Reshape", "x k", "y")], {"x": [1, 4]},
             constants={"a": np.array([1, 2]), "i": np.array([2**62])})  # fmt: skip


def test_only_shape_arithmetic_is_computed() -> None:
    """A pooling with a window of two thousand millions has a small result."""
    window = {"kernel_shape": [2 * 10**9], "pads": [10**9, 10**9]}
    program = load([node("AveragePool", "k", "p", **window), node("Add", "p x", "y")], {"x": [1, 1, 1]},
                   constants={"k": np.ones((1, 1, 1), np.float32)})  # fmt: skip
    assert program.op_type == ("Add",)


def test_ranks() -> None:
    with pytest.raises(WorkloadError, match="the limit is 64"):
        load(RELU, {"x": [2**40] * 10_000})
    weight = TensorProto(name="w", dims=[2**62] * 10_000, data_type=1)
    with pytest.raises(WorkloadError, match="the limit is 64"):
        load([node("Add", "x w", "y")], {"x": [1]}, constants={"w": weight})


def test_names_of_a_branch_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def counted(graph: Any) -> set[str]:
        asked.append(graph)
        return topology.defined(graph)

    monkeypatch.setattr(control_flow, "defined", counted)
    branch = _branch([helper.make_node("If", ["c"], [f"v{n}"], then_branch=_leaf(n), else_branch=_leaf(n))
                      for n in range(30)], "v29")  # fmt: skip
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    assert load(nodes, {"x": [4]}, constants={"c": np.array(True)}).num_ops == 30
    assert len(asked) < 5 * 30


def _leaf(number: int) -> Any:
    return _branch([node("Relu", f"v{number - 1}" if number else "x", "o")], "o")


def _branch(nodes: list[NodeProto], output: str) -> Any:
    return helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info(output, 1, None)])


# Wrong in other ways.


def test_versions_beyond_int32() -> None:
    for version in (2**31, 2**62, -1):
        proto = model(RELU, {"x": [1]})
        proto.ir_version = version
        with pytest.raises(WorkloadError, match=f"IR version {version}"):
            load_model(proto)


def test_attributes_that_stand_for_others() -> None:
    leaky = node("LeakyRelu", "x", "y")
    leaky.attribute.add(name="alpha", type=1, ref_attr_name="slope")
    with pytest.raises(WorkloadError, match="refers to another attribute, 'slope'"):
        load([leaky], {"x": [4]})
    function = helper.make_function("my", "f", ["x"], ["y"], [leaky], OWN, ["slope"])
    for given in ({"slope": 0.5}, {}):
        proto = model([node("f", "x", "y", domain="my", **given)], {"x": [4]}, functions=[function])
        proto.opset_import.append(OWN[1])
        assert load_model(proto).op_type == ("LeakyRelu",)


def test_graphs_for_local_functions() -> None:
    call = node("f", "x", "y", domain="my", body=_leaf(0))
    function = helper.make_function("my", "f", ["x"], ["y"], RELU, OWN, ["body"])
    proto = model([call], {"x": [4]}, functions=[function])
    proto.opset_import.append(OWN[1])
    with pytest.raises(WorkloadError, match="passes a graph to a local function"):
        load_model(proto)


@every("operator", ["GreaterOrEqual", "LessOrEqual"])
@every("opset", [12, 16])
@every(("operands", "dims"), [("x z", [3, 5]), ("x _", [4]), ("_ _", [4])])
def test_comparisons_that_do_not_fit(operator: str, opset: int, operands: str, dims: list[int]) -> None:
    with pytest.raises(WorkloadError):
        load([node(operator, operands, "y")], {"x": [1, 4], "z": dims}, opset=opset)


@every("operator", ["Shape", "Size"])
def test_operands_that_are_absent(operator: str) -> None:
    with pytest.raises(WorkloadError):
        load([node(operator, "_", "n"), node("Cast", "n", "f", to=1), node("Add", "f x", "y")], {"x": [4]})


def test_sizes_of_pieces_that_are_no_list() -> None:
    nodes = [node("SplitToSequence", "x sizes", "s"), node("ConcatFromSequence", "s", "y", axis=0)]
    with pytest.raises(WorkloadError, match="'sizes' is neither a number nor a list"):
        load(nodes, {"x": [4]}, constants={"sizes": np.array([[1, 3]])})


def test_comparisons_that_are_too_large() -> None:
    with pytest.raises(WorkloadError, match="absurd shape"):
        load([node("LessOrEqual", "x z", "y")], {"x": [2**28, 1], "z": [1, 2**28]}, opset=12)


def test_values_made_twice() -> None:
    branch = _branch([node("Add", "x k", "o")], "o")
    branch.initializer.add(name="k", dims=[4], data_type=1)
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch), node("Relu", "x", "y/k")]
    with pytest.raises(WorkloadError, match=r"contains the value .*y/k' twice"):
        load([nodes[1], nodes[0], node("Add", "y y/k", "z")], {"x": [4]}, "z", constants={"c": np.array(True)})


# Files.


@pytest.fixture(params=[".onnx", ".tflite", ".program", ".mlir"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_never_ends_is_not_read(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    (tmp_path / f"folder{suffix}").mkdir()
    for name, kind in (("pipe", "is a pipe"), ("zero", "is a device"), ("folder", "is a directory")):
        with pytest.raises(WorkloadError, match=kind):
            resolve_workload(tmp_path / f"{name}{suffix}")
    for path in (tmp_path / f"none{suffix}", tmp_path / "no" / f"none{suffix}"):
        with pytest.raises(WorkloadError, match="There is no file"):
            resolve_workload(path)
    for path in (f"a\0b{suffix}", "n" * 5000 + suffix):
        with pytest.raises(WorkloadError, match="cannot be read"):
            resolve_workload(path)


def test_files_below_a_size(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "MAX_FILE_BYTES", 1000)
    path = tmp_path / f"large{suffix}"
    with path.open("wb") as file:
        file.truncate(1001)
    with pytest.raises(WorkloadError, match="1,001 bytes; the limit is 1,000"):
        resolve_workload(path)


# External data.

OPENED: list[str] = []
WATCHING = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if WATCHING and event == "open":
        OPENED.append(str(arguments[0]))


sys.addaudithook(_watch)  # for good: there is no way to take it off


@contextmanager
def watching() -> Iterator[None]:
    global WATCHING
    OPENED.clear()
    WATCHING = True
    try:
        yield
    finally:
        WATCHING = False


def external(name: str, location: str, dims: tuple[int, ...] = (4,), element_type: int = 1) -> TensorProto:
    tensor = TensorProto(name=name, dims=dims, data_type=element_type, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def in_initializer(location: str) -> ModelProto:
    return model([node("Add", "x w", "y")], {"x": [4]}, constants={"w": external("w", location)})


def in_constant(location: str) -> ModelProto:
    return model([node("Constant", "", "k", value=external("", location)), node("Add", "x k", "y")], {"x": [4]})


def in_fill(location: str) -> ModelProto:
    fill = node("ConstantOfShape", "s", "k", value=external("", location, (1,)))
    return model([fill, node("Add", "x k", "y")], {"x": [4]}, constants={"s": np.array([4])})


def in_target(location: str) -> ModelProto:
    target = external("t", location, (2,), TensorProto.INT64)
    return model([node("Reshape", "x t", "y")], {"x": [4]}, constants={"t": target})


def in_function(location: str) -> ModelProto:
    nodes = [node("Constant", "", "k", value=external("", location)), node("Add", "x k", "y")]
    proto = model([node("f", "x", "y", domain="my")], {"x": [4]},
                  functions=[helper.make_function("my", "f", ["x"], ["y"], nodes, OWN)])  # fmt: skip
    proto.opset_import.append(OWN[1])
    return proto


@pytest.mark.parametrize("build", [in_initializer, in_constant, in_fill, in_target, in_function])
@pytest.mark.parametrize("inside", [True, False])
def test_external_data_is_never_opened(tmp_path: Path, build: Callable[[str], ModelProto], inside: bool) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"\1" * 16)
    folder = tmp_path / "models"
    folder.mkdir()
    path = folder / "model.onnx"
    load_model(model(RELU, {"x": [4]}))  # whatever the first load imports
    for location in ("../secret.bin", str(secret)) if not inside else ("secret.bin",):
        path.write_bytes(build(location).SerializeToString())
        needs_contents = build in (in_fill, in_target)
        with watching(), pytest.raises(WorkloadError) if needs_contents else nullcontext():
            assert names(load_onnx(path), TensorKind.INPUT) == {"x"}
        assert str(path) in OPENED
        assert not any("secret" in opened for opened in OPENED)


def nested_branches(levels: int, nodes: int) -> ModelProto:
    """Branches within branches, the innermost with so many nodes."""
    chain = [node("Relu", "x" if index == 0 else f"r{index - 1}", f"r{index}") for index in range(nodes)]
    last = f"r{nodes - 1}"
    for level in range(levels):
        branch = helper.make_graph(chain, "b", [], [helper.make_tensor_value_info(last, TensorProto.FLOAT, [4])])
        last = f"o{level}"
        chain = [helper.make_node("If", ["c"], [last], then_branch=branch, else_branch=branch)]
    return model(chain, {"x": [4]}, last, constants={"c": np.array(True)})


def test_branches_within_branches_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_model(nested_branches(4, 10), fusion="none").num_ops == 10
    monkeypatch.setitem(model_file.LIMITS, "nodes in branches within branches", 40)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="over 40 nodes in branches within branches"):
        load_model(nested_branches(4, 10))


def test_names_of_a_branch_are_hidden_by_those_within() -> None:
    """A name that an inner branch makes itself is its own, whatever the outer one calls so."""
    value = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=[4])
    inner = helper.make_graph([node("Neg", "t", "u"), node("Abs", "u", "v")], "b", [], [value("v")])
    shadowed = helper.make_graph([node("Exp", "t", "u"), node("Abs", "u", "v")], "b", [], [value("v")])
    choice = helper.make_node("If", ["c"], ["w"], then_branch=inner, else_branch=shadowed)
    outer = helper.make_graph(
        [node("Relu", "x", "t"), node("Sqrt", "t", "u"), choice, node("Add", "u w", "z")], "b", [], [value("z")]
    )
    whole = helper.make_node("If", ["c"], ["y"], then_branch=outer, else_branch=outer)
    program = load_model(model([whole], {"x": [4]}, constants={"c": np.array(True)}), fusion="none")
    assert [program.op_type[op] for op in range(program.num_ops)] == ["Relu", "Sqrt", "Neg", "Abs", "Add"]


def test_imports_that_nothing_uses_cost_nothing() -> None:
    proto = model(RELU, {"x": [4]})
    proto.opset_import.extend(helper.make_opsetid(f"d{index}", 1) for index in range(1000))
    assert load_model(proto).num_ops == 1


def test_reading_ends_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "SECONDS", -1.0)
    with pytest.raises(WorkloadError, match="takes over -1 s"):
        load(RELU, {"x": [4]})


@every("letters", [1, 40, 3000])
def test_messages_stay_short(tmp_path: Path, letters: int) -> None:
    """The names of the file, of the node and of the operator are long; the remedy at the end stays."""
    name = "n" * letters
    nodes = [helper.make_node(f"Op{name}", ["x"], ["y"], name=" ".join([name] * 30), domain=name)]
    value = [helper.make_tensor_value_info(letter, TensorProto.FLOAT, [4]) for letter in "xy"]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(name, 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", value[:1], value[1:]), opset_imports=imports)
    path = tmp_path / f"{'f' * 200}.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(WorkloadError) as caught:
        load_onnx(path)
    message = str(caught.value)
    assert len(message) < 500
    assert message.endswith(".")
