"""Numbers drawn where neither file nor user gives any: numbers that let faults be seen."""

import numpy as np
import pytest
from onnx import helper

from memplace_env.backends.ort import Executor
from tests.backends.ort.models import FLOAT, INT8, INT64, UINT8, stereo, task_of, written

ABSENT = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}


def network_of(path):
    return Executor(task_of(path))._network


def named(network, contents):
    return {network.source.program.tensor_value[tensor]: array for tensor, array in contents.items()}


def test_inputs(tmp_path):
    network = network_of(stereo(tmp_path / "m.onnx"))
    left, right, counts = (named(network, network.inputs)[name] for name in ("left", "right", "counts"))
    assert (left.dtype, right.dtype, counts.dtype) == (np.uint8, np.int8, np.int64)
    for bits in (left, right):
        assert set(np.unique(bits)) == {0, 1}
        assert (bits[..., 0] == 1).all()
        assert 0.3 < bits.mean() < 0.7
    assert not np.array_equal(left, right)
    assert set(np.unique(counts)) == {0, 1}
    assert (np.diff(counts) <= 0).all(), "zeros at the end"


def test_inputs_of_any_rank(tmp_path):
    nodes = [helper.make_node("Cast", [name], [f"{name}_f"], f"cast_{name}", to=FLOAT) for name in ("a", "b", "c", "d")]
    nodes.append(helper.make_node("Sum", [f"{name}_f" for name in "abcd"], ["y"], "sum"))
    inputs = {"a": (UINT8, []), "b": (INT64, []), "c": (INT8, [3, 1]), "d": (INT64, [3, 1])}
    network = network_of(written(tmp_path / "m.onnx", nodes, inputs, {"y": (FLOAT, [3, 1])}, {}))
    assert all((array == 1).all() for array in network.inputs.values())


def test_single_numbers_ascend(tmp_path):
    """The end of a range that a file names first is the lower one, whatever the seed."""
    nodes = [
        helper.make_node("Sub", ["most", "least"], ["room"], "room"),
        helper.make_node("Sqrt", ["room"], ["root"], "root"),
        helper.make_node("Mul", ["x", "root"], ["y"], "product"),
    ]
    inputs = {"x": (FLOAT, [4]), "least": (FLOAT, []), "most": (FLOAT, [1])}
    path = written(tmp_path / "m.onnx", nodes, inputs, {"y": (FLOAT, [4])}, {})
    for seed in range(8):
        network = Executor(task_of(path), seed=seed)._network
        given = named(network, network.inputs)
        assert float(given["least"]) < float(given["most"][0])


def test_zeros_that_numbers_are_scattered_into(tmp_path):
    """Such zeros are no place of a lost weight, so the root of their sum with positive numbers is finite."""
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"], "zeros"),
        helper.make_node("ScatterElements", ["zeros", "rows", "ones"], ["w"], "scatter"),
        helper.make_node("Sqrt", ["w"], ["root"], "root"),
        helper.make_node("Mul", ["x", "root"], ["y"], "product"),
    ]
    constants = {"shape": np.array([99]), "rows": np.array([1, 5]), "ones": np.ones(2, np.float32)}
    path = written(tmp_path / "m.onnx", nodes, {"x": (FLOAT, [99])}, {"y": (FLOAT, [99])}, constants)
    network = network_of(path)
    assert network.drawn == 0


@pytest.fixture
def drawn(tmp_path):
    """Constants of a quantised model, whose weights are lost."""
    node = helper.make_node
    nodes = [
        *(node("DequantizeLinear", [name, "s"], [f"{name}_d"], f"{name}_decode") for name in ("w", "b", "v")),
        node("Gather", ["x", "rows"], ["e"], "embed"),
        node("Gemm", ["e", "w_d", "b_d"], ["h"], "gemm"),
        node("Add", ["h", "v_d"], ["y"], "add"),
    ]
    constants = {
        "w": np.zeros((64, 64), np.int8), "b": np.zeros(64, np.int32), "v": np.zeros(64, np.uint8),
        "rows": np.zeros(50, np.int64), "s": np.float32(0.01),
    }  # fmt: skip
    path = written(tmp_path / "m.onnx", nodes, {"x": (FLOAT, [100, 64])}, {"y": (FLOAT, [50, 64])}, constants, **ABSENT)
    (tmp_path / "weights.bin").unlink()
    network = network_of(path)
    return named(network, network.weights)


def test_quantised_weights(drawn):
    assert (drawn["w"].dtype, drawn["b"].dtype, drawn["v"].dtype) == (np.int8, np.int32, np.uint8)
    assert (drawn["w"].min(), drawn["w"].max()) == (-7, 7)
    assert drawn["b"].min() < -50
    assert drawn["b"].max() > 50
    assert drawn["v"].max() == 7


def test_indices(drawn):
    assert drawn["rows"].min() < 15
    assert 85 < drawn["rows"].max() < 100
