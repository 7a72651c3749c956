"""Files of exporters that trace: sizes that were fixed on the way, and sizes that only the data decide."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from memplace_env._lib.errors import WorkloadError
from tests.offenders import every
from tests.program.models import load, load_model, model, node

HEADS = [
    node("MatMul", "x w", "a"),
    node("Reshape", "a target", "b"),
    node("Transpose", "b", "q", perm=[0, 2, 1, 3]),
    node("Transpose", "b", "k", perm=[0, 2, 3, 1]),
    node("MatMul", "q k", "c"),
    node("Add", "c mask", "y"),
]
"""Scores of two heads of four features; the file stores a target shape and a mask."""


@every(
    ("target", "mask", "at", "advised"),
    [
        ([1, 16, 2, 4], (1, 1), (4, 48), "batch=1, dims={'sequence': 16} (--batch 1 --dim sequence=16)"),
        ([2, -1, 2, 4], (1, 1), (3, 5), "batch=2 (--batch 2)"),
        ([0, -1, 2, 4], (16, 16), (3, 5), "dims={'sequence': 16} (--dim sequence=16)"),
        ([0, -1, 2, 4], (7, 2, 1, 1), (3, 5), "batch=7 (--batch 7)"),
        ([0, -1, 2, 4], (7, 2, 9, 9), (3, 5), "batch=7, dims={'sequence': 9} (--batch 7 --dim sequence=9)"),
    ],
)
def test_traced_sizes_say_which_sizes_fit(
    target: list[int], mask: tuple[int, ...], at: tuple[int, int], advised: str
) -> None:
    constants = {"target": np.array(target), "w": (8, 8), "mask": mask}
    with pytest.raises(WorkloadError, match=r"node 'n_[by]'") as caught:
        load(HEADS, {"x": ["batch", "sequence", 8]}, constants=constants, batch=at[0], dims={"sequence": at[1]})
    advice = f"The exporter has fixed sizes in the file, which fit {advised}; pass that, or export the model with these"
    assert advice in str(caught.value)
    sizes = {name: int(size) for name, size in re.findall(r"--(?:dim )?(batch|sequence)[ =](\d+)", advised)}
    batch, length = sizes.get("batch", at[0]), sizes.get("sequence", at[1])
    load(HEADS, {"x": ["batch", "sequence", 8]}, constants=constants, batch=batch, dims={"sequence": length})


def test_traced_rows_of_all_batches() -> None:
    nodes = [node("Reshape", "x target", "a"), node("MatMul", "a w", "y")]
    constants = {"target": np.array([16, 8]), "w": (8, 4)}
    advised = r"which fit batch=1, dims=\{'sequence': 16\} \(--batch 1 --dim sequence=16\)"
    with pytest.raises(WorkloadError, match=advised):
        load(nodes, {"x": ["batch", "sequence", 8]}, constants=constants, batch=3, dims={"sequence": 48})


def test_an_input_of_traced_size_beside_dynamic_ones() -> None:
    inputs: dict[str, Any] = {"x": ["batch", "length"], "mask": [1, 128]}
    with pytest.raises(WorkloadError, match=r"which fit dims=\{'length': 128\} \(--dim length=128\)"):
        load([node("Add", "x mask", "y")], inputs, batch=4, dims={"length": 384})


def test_sizes_that_fit_nowhere_are_not_made_up() -> None:
    constants = {"target": np.array([0, -1, 3, 5]), "w": (8, 8), "mask": (1, 1)}
    message = r"instead of batch=3, dims=\{'sequence': 5\} \(--batch 3 --dim sequence=5\), or export"
    with pytest.raises(WorkloadError, match=message):
        load(HEADS, {"x": ["batch", "sequence", 8]}, constants=constants, batch=3, dims={"sequence": 5})
    with pytest.raises(WorkloadError, match=r"Reshape.*") as caught:
        load(HEADS, {"x": [3, 5, 8]}, constants=constants)
    assert "exporter" not in str(caught.value)


RESHAPED = [node("Reshape", "x size", "r"), node("MatMul", "r w", "y")]
"""The target shape is an input, so that the file cannot say what comes out."""


def untraced(dims: list[Any] | None, nodes: list[NodeProto] = RESHAPED) -> ModelProto:
    """A model of a reshape of which the file declares these dims."""
    proto = model(nodes, {"x": ["batch", "sequence", 8], "size": [2]}, constants={"w": (8, 4)},
                  types={"size": TensorProto.INT64})  # fmt: skip
    if dims is not None:
        proto.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, dims))
    return proto


SIZES: dict[str, Any] = {"batch": 2, "fusion": "none"}


def test_a_size_that_the_data_decide_can_be_given_by_its_name_in_the_file() -> None:
    proto = untraced(["Reshape_12_dim_0", 8])
    advised = r"'r', an input of node 'n_y'.*depends on the data; pass dims=\{'Reshape_12_dim_0': \.\.\.\} "
    with pytest.raises(WorkloadError, match=advised + r"\(--dim Reshape_12_dim_0=\.\.\.\)\.$"):
        load_model(proto, dims={"sequence": 6}, **SIZES)
    program = load_model(proto, dims={"sequence": 6, "Reshape_12_dim_0": 12}, **SIZES)
    assert program.gemm[0].tolist() == [1, 12, 8, 4]
    with pytest.raises(WorkloadError, match=r"cannot turn shape \[2, 6, 8\] into \[13, 8\]"):
        load_model(proto, dims={"sequence": 6, "Reshape_12_dim_0": 13}, **SIZES)


def test_sizes_that_the_file_names_like_an_input_s_are_known() -> None:
    nodes = [node("Slice", "x size size", "r"), node("MatMul", "r w", "y")]
    program = load_model(untraced(["batch", "sequence", 8], nodes), dims={"sequence": 6}, **SIZES)
    assert program.gemm[0].tolist() == [1, 12, 8, 4]


def test_a_size_without_a_name_is_called_by_its_place() -> None:
    proto = untraced(None, [node("Slice", "x size size", "r"), node("MatMul", "r w", "y")])
    with pytest.raises(WorkloadError, match=r"pass dims=\{'r\.0': \.\.\., 'r\.1': \.\.\., .*\(--dim r\.0="):
        load_model(proto, dims={"sequence": 6}, **SIZES)
    program = load_model(proto, dims={"sequence": 6, "r.0": 1, "r.1": 3, "r.2": 8}, **SIZES)
    assert program.gemm[-1].tolist() == [1, 3, 8, 4]


def test_a_size_that_nothing_needs_is_refused() -> None:
    proto = untraced(["Reshape_12_dim_0", 8])
    for name in ("y.0", "nothing.3"):
        dims = {"sequence": 6, "Reshape_12_dim_0": 12, name: 3}
        with pytest.raises(
            WorkloadError, match=re.escape(f"needs no size for the dim {name!r}, as others determine it")
        ):
            load_model(proto, dims=dims, **SIZES)
    with pytest.raises(WorkloadError, match="no symbolic dim 'Reshape_13_dim_0'; it has: batch, sequence"):
        load_model(proto, dims={"sequence": 6, "Reshape_13_dim_0": 12}, **SIZES)
