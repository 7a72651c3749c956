"""Binding symbolic dims, and rebatching models that fix their batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.program import TensorKind
from tests.offenders import every
from tests.program.models import LIGHT, load, node, tensor

RELU = [node("Relu", "x", "y")]


def first_bytes(shape: list[Any], **settings: Any) -> int:
    return int(load(RELU, {"x": shape}, **settings).tensor_bytes[0])


@every("name", ["batch", "N", "batch_size", "Batch", "bs", "unk_batch"])
def test_batch_binds_the_dim_named_like_one(name: str) -> None:
    assert first_bytes(["sequence", name], batch=3, dims={"sequence": 5}) == 4 * 15


def test_batch_binds_the_leading_dim_if_none_is_named() -> None:
    assert first_bytes(["rows", 5], batch=3) == 4 * 15
    assert first_bytes([None, 5], batch=3) == 4 * 15
    assert first_bytes([1, 5], batch=3) == 4 * 15
    assert first_bytes([3, 5], batch=3) == 4 * 15


def test_numpy_sizes_and_zero_sized_static_dims_are_fine() -> None:
    assert first_bytes(["n", 5], batch=np.int64(3)) == 4 * 15


def test_dims_bind_by_name_also_where_the_file_has_none() -> None:
    for name in ("x.1", "x[1]", "x.*", "x[*]"):
        assert first_bytes([2, None], dims={name: 7}) == 4 * 14
        assert first_bytes([2, "?"], dims={name: 7}) == 4 * 14


@pytest.mark.parametrize("name", ["batch", "unk__7", None])
def test_a_lone_free_leading_dim_is_1(name: str | None) -> None:
    called = name or "x.0"
    with pytest.warns(UserWarning, match=rf"leading dim '{called}' .* taken as 1; pass dims=.* \(--dim {called}="):
        assert first_bytes([name, 5]) == 4 * 5
    with pytest.warns(UserWarning, match="taken as 1"):
        program = load([node("Add", "x z", "y")], {"x": [name or "r", "seq"], "z": [name or "r", 5]}, dims={"seq": 5})
    assert program.tensor_bytes.max() == 4 * 5
    with pytest.raises(WorkloadError, match="the dim 'batch' of the graph input 'z' have no size"):
        load([node("Add", "x z", "y")], {"x": ["rows", 5], "z": ["batch", 5]})


def test_unbound_dim_says_what_to_pass() -> None:
    with pytest.raises(WorkloadError, match=r"dim 'heads' of the graph input 'x' has no size; pass dims=\{'heads'"):
        first_bytes([2, "heads"])
    with pytest.raises(WorkloadError, match=r"dim 'seq' of the graph input 'x'.*dims=\{'seq'"):
        first_bytes(["batch", "seq"], batch=1)


def test_all_unbound_dims_are_named_at_once() -> None:
    with pytest.raises(WorkloadError) as raised:
        first_bytes(["batch", "seq", "heads"])
    assert str(raised.value) == (
        "model.onnx: The dims 'batch', 'seq' and 'heads' of the graph input 'x' have no size; pass batch=1, "
        "dims={'seq': ..., 'heads': ...} (--batch 1 --dim seq=... --dim heads=...)."
    )
    with pytest.raises(WorkloadError) as raised:
        load([node("Add", "x z", "y")], {"x": ["rows", "rows"], "z": ["rows", "more", "most"]})
    assert str(raised.value) == (
        "model.onnx: The dim 'rows' of the graph input 'x' and the dims 'more' and 'most' of the graph input 'z' have "
        "no size; pass dims={'rows': ..., 'more': ..., 'most': ...} (--dim rows=... --dim more=... --dim most=...)."
    )


def test_unused_input_needs_no_size() -> None:
    program = load(RELU, {"x": [4], "unused": ["whatever"]})
    assert program.tensor_name == ("x", "y")


def test_unknown_dim_lists_the_known_ones() -> None:
    with pytest.raises(WorkloadError, match=r"no symbolic dim 'sequence'; it has: batch, seq\."):
        first_bytes(["batch", "seq"], dims={"sequence": 4})
    with pytest.raises(WorkloadError, match="none, all its dims are fixed"):
        first_bytes([1, 4], dims={"sequence": 4})


@every("size", [0, -1, 2**31, 1.5, "4", True, None])
def test_impossible_sizes(size: Any) -> None:
    with pytest.raises(WorkloadError, match="a dim is a whole number from 1"):
        first_bytes(["batch", "seq"], dims={"seq": size})
    if size is not None:
        with pytest.raises(WorkloadError, match="batch is"):
            first_bytes(["batch", 4], batch=size)


def test_sizes_that_overflow_together() -> None:
    with pytest.raises(WorkloadError, match="absurd"):
        first_bytes(["batch", "seq", "more"], batch=2**30, dims={"seq": 2**30, "more": 2**30})


def test_batch_bound_twice() -> None:
    with pytest.raises(WorkloadError, match="bound twice"):
        first_bytes(["batch"], batch=2, dims={"batch": 2})


def test_batch_that_the_file_fixes_says_what_to_do() -> None:
    sentence = r"batch=4 cannot be bound: the model fixes it at 2; leave batch out, or export with a dynamic batch\.$"
    with pytest.raises(WorkloadError, match=sentence):
        first_bytes([2, 4], batch=4)
    assert first_bytes([2, 4]) == first_bytes([2, 4], batch=2) == 4 * 8


def test_batch_that_nothing_takes() -> None:
    message = "no input has a free leading dim; leave batch out"
    with pytest.raises(WorkloadError, match=message):
        load([node("Add", "x z", "y")], {"x": [5, 4], "z": [4]}, batch=2)
    with pytest.raises(WorkloadError, match=message):
        first_bytes(["rows", 4], batch=2, dims={"rows": 5})


def test_model_that_fixes_its_batch_in_a_reshape() -> None:
    nodes = [node("Reshape", "x t", "a"), node("MatMul", "a w", "y")]
    for target in ([1, 8], [8]):
        with pytest.raises(WorkloadError, match="The model fixes its batch at 1"):
            load(nodes, {"x": [1, 2, 4]}, constants={"t": np.array(target), "w": (8, 3)}, batch=2)


def test_reshape_that_swallows_the_batch_is_noticed() -> None:
    """[1, -1, 4] makes one sequence of two; only the attention scores give it away."""
    nodes = [node("Reshape", "x t", "a"), node("Transpose", "a", "b", perm=[0, 2, 1]), node("MatMul", "a b", "y")]
    constants = {"t": np.array([1, -1, 4])}
    assert load(nodes, {"x": [1, 3, 4]}, constants=constants).macs.sum() == 3 * 3 * 4
    with pytest.raises(WorkloadError, match="fixes its batch at 1"):
        load(nodes, {"x": [1, 3, 4]}, constants=constants, batch=2)


def test_shapes_computed_from_dynamic_dims_fold() -> None:
    nodes = [
        node("Shape", "x", "s", start=0, end=2),
        node("Concat", "s heads", "t", axis=0),
        node("Reshape", "x t", "a"),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3]),
        node("Size", "x", "n"),
        node("Cast", "n", "nf", to=1),
        node("Div", "b nf", "y"),
    ]
    program = load(nodes, {"x": ["batch", "seq", 8]}, constants={"heads": np.array([2, 4])}, batch=2, dims={"seq": 6})
    assert program.op_type == ("Transpose", "Div")
    assert program.tensor_name == ("x", "b", "y")


def test_static_model_rebatches() -> None:
    nodes = [
        node("Conv", "x w", "a"),
        node("GlobalAveragePool", "a", "b"),
        node("Flatten", "b", "c"),
        node("Gemm", "c v", "y", transB=1),
    ]
    settings = {"constants": {"w": (8, 3, 3, 3), "v": (10, 8)}}
    one, four = (load(nodes, {"x": [1, 3, 16, 16]}, batch=batch, **settings) for batch in (None, 4))
    assert four.macs.sum() == 4 * one.macs.sum()
    assert four.bytes_of(TensorKind.WEIGHT) == one.bytes_of(TensorKind.WEIGHT)
    assert four.tensor_bytes[tensor(four, "x")] == 4 * one.tensor_bytes[tensor(one, "x")]


def test_real_model_that_fixes_its_batch() -> None:
    with pytest.raises(WorkloadError, match=r"light_resnet50.onnx: The model fixes its batch at 1.*Reshape"):
        load_onnx(LIGHT / "light_resnet50.onnx", batch=4)
