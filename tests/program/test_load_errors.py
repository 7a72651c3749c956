"""Models that cannot become a Program raise one WorkloadError that names the reason and the place."""

from __future__ import annotations

import lzma
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program import model_file
from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.model_file import read_bytes
from memplace_env.program.zoo import zoo_path
from tests.offenders import every
from tests.program.models import load, load_model, model, node

RELU = [node("Relu", "x", "y")]


@every(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xff" * 100, "is not an ONNX model"),
        (b"\x08\x07", "has no nodes"),
        (b"hello, this is plain text", "is not an ONNX model|has no nodes"),
    ],
)
def test_damaged_file(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(WorkloadError, match=message):
        load_onnx(path)


def test_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model(RELU, {"x": [1, 4]}).SerializeToString()[:-3])
    with pytest.raises(WorkloadError, match="cut short"):
        load_onnx(path)


def test_compressed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may be compressed; what is damaged, cut short or a bomb is one error, of bounded memory."""
    whole = read_bytes(zoo_path("AlexNet"), ".onnx")
    packed = lzma.compress(whole)
    file, plain = tmp_path / "net.ONNX.xz", tmp_path / "net.onnx"
    file.write_bytes(packed)
    plain.write_bytes(whole)
    assert load_onnx(file, batch=1).sha256 == load_onnx(plain, batch=1).sha256
    assert load_onnx(file, batch=1).name == "net"
    for content, message in (
        (whole, "Input format not supported"),
        (packed[:-9], "it is cut short"),
        (packed[:-9] + whole, "Corrupt"),
        (packed + packed, "other data at its end"),
    ):
        file.write_bytes(content)
        with pytest.raises(WorkloadError, match=message):
            resolve_workload(file, batch=1)
    file.write_bytes(packed)
    monkeypatch.setattr(model_file, "MAX_FILE_BYTES", len(whole) - 1)
    with pytest.raises(WorkloadError, match="it holds more than"):
        resolve_workload(file, batch=1)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="There is no file"):
        load_onnx(tmp_path / "absent.onnx")
    with pytest.raises(WorkloadError, match="is a directory"):
        load_onnx(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"x")
    path.chmod(0)
    with pytest.raises(WorkloadError, match="cannot be read"):
        load_onnx(path)


def test_too_old_and_too_new() -> None:
    old = model(RELU, {"x": [1]})
    old.ir_version = 2
    with pytest.raises(WorkloadError, match="IR version 2"):
        load_model(old)
    with pytest.raises(WorkloadError, match="opset 999"):
        load(RELU, {"x": [1]}, opset=999)
    foreign = model(RELU, {"x": [1]})
    foreign.opset_import[0].domain = "ai.onnx.ml"
    with pytest.raises(WorkloadError, match="no version of the standard ONNX operators"):
        load_model(foreign)


def test_names_that_are_not_text() -> None:
    data = model([node("Relu", "input", "y")], {"input": [1]}).SerializeToString().replace(b"input", b"inp\xfft")
    proto = onnx.load_model_from_string(data)
    with pytest.raises(WorkloadError, match="UTF-8"):
        load_model(proto)


def test_unknown_operator_and_domain() -> None:
    with pytest.raises(WorkloadError, match=r"'Foo'.*'ai.onnx'.*n_y"):
        load([node("Foo", "x", "y")], {"x": [1]})
    with pytest.raises(WorkloadError, match=r"'FusedGelu' of domain 'com.microsoft'.*n_y"):
        load([node("FusedGelu", "x", "y", domain="com.microsoft")], {"x": [1]})
    with pytest.raises(WorkloadError, match=r"No cost.*'Det'.*n_y"):
        load([node("Det", "x", "y")], {"x": [3, 3]})


def test_dead_unsupported_operator_does_no_harm() -> None:
    program = load([node("Foo", "x", "unused"), *RELU], {"x": [4]})
    assert program.op_type == ("Relu",)


def test_cycle_names_a_node_on_it() -> None:
    nodes = [node("Relu", "c", "y"), node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "a", "c")]
    with pytest.raises(WorkloadError, match=r"cycle through node '(n_a|n_b)'"):
        load(nodes, {"x": [1]})


def test_undefined_and_doubly_defined_values() -> None:
    with pytest.raises(WorkloadError, match=r"n_y.*reads 'ghost'"):
        load([node("Add", "x ghost", "y")], {"x": [1]})
    with pytest.raises(WorkloadError, match="'y' is made twice"):
        load([*RELU, node("Abs", "x", "y")], {"x": [1]})
    with pytest.raises(WorkloadError, match="output 'z' is made by no node"):
        load(RELU, {"x": [1]}, "z")


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(WorkloadError, match="Shapes do not fit together at node 'n_y'"):
        load([node("MatMul", "x w", "y")], {"x": [2, 3]}, constants={"w": (4, 5)})
    with pytest.raises(WorkloadError, match="Shapes do not fit together at node 'n_y'"):
        load([node("GreaterOrEqual", "x w", "y")], {"x": [2, 3]}, constants={"w": (2, 4)}, types={"y": 9}, opset=12)
    with pytest.raises(WorkloadError, match="n_y"):
        load([node("Reshape", "x t", "y")], {"x": [2, 3]}, constants={"t": np.array([7])})
    with pytest.raises(WorkloadError, match="n_y"):
        load([node("Conv", "x w", "y", group=0)], {"x": [1, 2, 4, 4]}, constants={"w": (2, 2, 1, 1)})


@every(
    ("bad", "outputs"),
    [
        (node("LayerNormalization", "x w", "y m", axis=2**60), "y m"),
        (node("Split", "x", "y m", num_outputs=2**31), "y"),
        (node("Split", "x", "y m", num_outputs=1), "y m"),
        (node("GatherND", "x i", "y", batch_dims=-2), "y"),
    ],
)
def test_attributes_that_crash_shape_inference_are_refused(bad: NodeProto, outputs: str) -> None:
    with pytest.raises(WorkloadError, match=r"of node 'n_y' .* is out of range"):
        load([bad], {"x": [2, 3]}, outputs, constants={"w": (3,), "i": np.array([[0], [1]])})


def test_negative_work() -> None:
    with pytest.raises(WorkloadError, match="absurd"):
        load([node("LRN", "x", "y", size=-(2**62))], {"x": [1, 2, 4, 4]})


def test_onnx_rejects_wrong_attribute() -> None:
    with pytest.raises(WorkloadError, match="ONNX rejects node 'n_y'"):
        load([node("Conv", "x w", "y", kernel_shape="wide")], {"x": [1, 2, 4, 4]}, constants={"w": (2, 2, 1, 1)})


def test_optionals_strings_and_sparse() -> None:
    with pytest.raises(WorkloadError, match="STRING"):
        load([node("Identity", "x", "y")], {"x": [1]}, types={"x": TensorProto.STRING})
    optional = model(RELU, {"x": [1]})
    optional.graph.input[0].type.CopyFrom(helper.make_optional_type_proto(optional.graph.input[0].type))
    with pytest.raises(WorkloadError, match="declared as optional"):
        load_model(optional)
    sparse = model(RELU, {"x": [1]})
    sparse.graph.sparse_initializer.add().values.name = "w"
    with pytest.raises(WorkloadError, match="'w' is sparse"):
        load_model(sparse)


def test_sizes_that_depend_on_the_data() -> None:
    with pytest.raises(WorkloadError, match=r"size of 'i', a.*n_i.*depends on the data"):
        load([node("NonZero", "x", "i"), node("Cast", "i", "y", to=TensorProto.FLOAT)], {"x": [4]})


@every("op_type", ["Shape", "Size", "Relu", "SequenceAt"])
@every("inputs", ["", "x"])
def test_subgraph_where_none_belongs(op_type: str, inputs: str) -> None:
    damaged = helper.make_node(op_type, inputs.split(), ["a"], name="n_a", body=helper.make_graph([], "body", [], []))
    with pytest.raises(WorkloadError, match="Control flow as in node 'n_a'"):
        load([damaged, node("Cast", "a", "y", to=TensorProto.FLOAT)], {"x": [4]})


def test_damaged_control_flow_and_constants() -> None:
    branch = helper.make_graph([node("Relu", "x", "t")], "b", [], [helper.make_tensor_value_info("t", 1, [4])])
    constants = {"c": np.array(True)}
    for choice in (
        node("If", "c", "y", else_branch=branch),
        node("If", "c", "y z", then_branch=branch, else_branch=branch),
        node("If", "_", "y", then_branch=branch, else_branch=branch),
    ):
        with pytest.raises(WorkloadError, match="n_y"):
            load([choice], {"x": [4]}, constants=constants)
    for constant in (
        helper.make_node("Constant", [], ["k"]),
        helper.make_node("Constant", [], ["k"], value_string="s"),
    ):
        with pytest.raises(WorkloadError, match="'k'"):
            load([constant, node("Add", "x k", "y")], {"x": [4]})


def test_nothing_to_do() -> None:
    with pytest.raises(WorkloadError, match="does no work"):
        load([node("Reshape", "x t", "y")], {"x": [2, 3]}, constants={"t": np.array([6])})
    with pytest.raises(WorkloadError, match="does no work"):
        load([node("Relu", "w", "y")], {}, constants={"w": (4,)})


def test_settings_that_do_not_exist() -> None:
    for settings, message in (({"dtype": "float8"}, "dtype is 'float8'"), ({"fusion": "all"}, "fusion is 'all'")):
        with pytest.raises(WorkloadError, match=message):
            load(RELU, {"x": [1]}, **settings)


def test_absurd_sizes() -> None:
    with pytest.raises(WorkloadError, match="absurd"):
        load([node("Expand", "x t", "y")], {"x": [1]}, constants={"t": np.array([2**40, 2**20])})
    with pytest.raises(WorkloadError, match="absurd"):
        load([node("Add", "x w", "y")], {"x": [1]}, constants={"w": (2**40, 2**40)})
    with pytest.raises(WorkloadError, match="negative"):
        load([node("Add", "x w", "y")], {"x": [1]}, constants={"w": (-4, 2)})
    with pytest.raises(WorkloadError, match="absurd"):
        load([node("MatMul", "x w", "y")], {"x": [2**21, 2**21]}, constants={"w": (2**21, 2**21)})


def test_recursive_function_is_an_error() -> None:
    call = helper.make_node("f", ["x"], ["y"], domain="my")
    function = helper.make_function("my", "f", ["x"], ["y"], [call], [helper.make_opsetid("my", 1)])
    proto = model([call], {"x": [2]}, functions=[function])
    proto.opset_import.append(helper.make_opsetid("my", 1))
    with pytest.raises(WorkloadError, match="calls itself"):
        load_model(proto)
