"""Every op of a network makes on PyTorch what it makes on ONNX Runtime, without a look at numbers."""

import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.cuda.operators import OPERATORS
from memplace_env.backends.cuda.torch_dtypes import tensor_of, torch_dtype
from memplace_env.backends.cuda.torch_lowering import lower
from memplace_env.backends.ort.network import network_of
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.program import zoo
from memplace_env.program.model_file import read_bytes
from tests.backends.cuda.single import Known, part_of, same, shapes_alone, single
from tests.backends.ort.models import MODELS, task_of

QUICK = [
    "GCN-Cora", "PatchTST", "ShuffleNetV2", "GAT-Cora", "EfficientFormer-L1", "NeRF", "LSTM-LM-medium",
    "PoolFormer-S12", "SSDLite", "TwoTowers",
]  # fmt: skip
SLOW = ["CLIP", "DeepSpeech2", "DiT-S-2", "HiFi-GAN", "RT-DETR"]
"""Networks with nearly all other operators of the zoo; the rest are those of `test_operators` and its like."""


def nothing() -> None:
    pass


def check_ops(task) -> None:
    network = network_of(task, 0, None, nothing)
    parts = [*network.ops, *([network.tail] if network.tail else [])]
    names = {port.tensor: port.name for part in network.ops for port in part.results}
    contents = {tensor: network.expected[name] for tensor, name in names.items()}
    contents |= {**network.weights, **network.inputs}
    for part in parts:
        run = lower(part, "cpu")
        given = [tensor_of(contents[port.tensor]).reshape(port.shape) for port in part.operands]
        for made, port in zip(run(given), part.results, strict=True):
            same(made, network.expected[port.name])
        shapes_alone(part)


@pytest.mark.parametrize("name", QUICK)
def test_networks(name):
    check_ops(resolve_task(name, "nnp-i"))


@pytest.mark.thorough
@pytest.mark.parametrize("name", SLOW)
def test_larger_networks(name):
    check_ops(resolve_task(name, "nnp-i"))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weights", ["streamed", "resident"])
def test_small_models(tmp_path, name, weights):
    check_ops(task_of(MODELS[name](tmp_path / "m.onnx"), weights=weights))


def test_every_operator_of_the_zoo_has_a_counterpart():
    files = Path(zoo.__file__).parent.glob("*.onnx.xz")
    models = [onnx.load_model_from_string(read_bytes(file, ".onnx")) for file in files]
    assert len(models) > 90
    assert {node.op_type for model in models for node in model.graph.node} <= OPERATORS.keys()


X = np.arange(6, dtype=np.float32).reshape(2, 3)
node = helper.make_node


def test_an_operator_without_counterpart():
    part, _, _ = part_of([node("Relu", ["x"], ["r"]), node("Hardmax", ["r"], ["y"], "top")], {"x": X}, ["y"])
    with pytest.raises(ExecutionError, match=r"^Node 'top' \(Hardmax\) cannot run on a device: .*no counterpart.*\.$"):
        lower(part, "cpu")


def test_a_shape_that_arises_at_run_time():
    part, _, _ = single("Reshape", [X, np.array([3, 2])])
    with pytest.raises(ExecutionError, match=r"'it' \(Reshape\).*input 1 .*only when the network runs"):
        lower(part, "cpu")


def test_what_torch_refuses():
    part, _, _ = single("ReduceMean", [X.astype(np.int32)])
    with pytest.raises(ExecutionError, match=r"'it' \(ReduceMean\) cannot run on a device: PyTorch refuses it"):
        lower(part, "cpu")


def test_a_result_of_another_shape_than_the_model_says():
    part, _, _ = single("Relu", [X])
    wrong = replace(part, results=(replace(part.results[0], shape=(3, 2)),))
    with pytest.raises(ExecutionError, match=r"'out0' .*\[2, 3\] there and is .*\[3, 2\]"):
        lower(wrong, "cpu")


def ran(monkeypatch) -> list[str]:
    """The operators that run from now on, by name."""
    kinds = []

    def noted(kind, build):
        def built(given):
            kernel = build(given)

            def run(*inputs):
                if not any(each is not None and each.is_meta for each in inputs):
                    kinds.append(kind)
                return kernel(*inputs)

            return run

        return built

    for kind, build in list(OPERATORS.items()):
        monkeypatch.setitem(OPERATORS, kind, noted(kind, build))
    return kinds


def test_what_rests_on_shapes_and_constants_is_computed_beforehand(monkeypatch):
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Shape", ["e"], ["sizes"]),
        node("Gather", ["sizes", "turned"], ["shape"]),
        node("Neg", ["c"], ["less"]),
        node("Add", ["x", "less"], ["sum"]),
        node("Reshape", ["sum", "shape"], ["y"]),
    ]
    inputs = {"x": X, "turned": Known(1, 0), "c": Known(1, 2, 3, dtype=np.float32)}
    part, operands, expected = part_of(nodes, inputs, ["y"])
    kinds = ran(monkeypatch)
    run = lower(part, "cpu")
    assert kinds == ["Gather", "Neg"]
    kinds.clear()
    for _ in range(2):
        same(run([tensor_of(each) for each in operands])[0], expected[0])
    assert kinds == ["Add", "Reshape"] * 2


def test_a_result_may_be_constant_or_an_operand():
    nodes = [node("Shape", ["x"], ["sizes"]), node("Identity", ["x"], ["same"])]
    part, operands, expected = part_of(nodes, {"x": X}, ["sizes", "same"])
    for made, right in zip(lower(part, "cpu")([tensor_of(each) for each in operands]), expected, strict=True):
        same(made, right)
    shapes_alone(part)


def test_values_end_with_their_last_reader(monkeypatch):
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("LayerNormalization", ["b", "scale"], ["c", "unread"]),
        node("Exp", ["c"], ["y"]),
    ]
    part, operands, expected = part_of(nodes, {"x": X, "scale": X[0]}, ["y"])
    made, alive = [], []

    def relu(x):
        made.append(weakref.ref(result := torch.relu(x)))
        return result

    def exp(x):
        alive.append([each() is not None for each in made])
        return torch.exp(x)

    monkeypatch.setitem(OPERATORS, "Relu", lambda _: relu)
    monkeypatch.setitem(OPERATORS, "Exp", lambda _: exp)
    run = lower(part, "cpu")
    made.clear()
    same(run([tensor_of(each) for each in operands])[0], expected[0])
    assert alive[-1] == [False, False]


def test_small_types():
    numbers = np.array([1.5, -2.0, 3.25])
    for element_type in (TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT8E4M3FN):
        dtype = helper.tensor_dtype_to_np_dtype(element_type)
        tensor = tensor_of(numbers.astype(dtype))
        assert tensor.dtype == torch_dtype(element_type)
        assert tensor.double().tolist() == numbers.tolist()
