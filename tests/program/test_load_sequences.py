"""Sequences of known length fold away: what is left is the data movement of the tensors in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper, numpy_helper

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.model_file import read_bytes
from memplace_env.program.zoo import zoo_path
from tests.program.models import load, names, node, operand_names, result_names

NUMBERS = {f"i{number}".replace("-", "m"): np.array(number) for number in (-2, -1, 0, 1, 2, 3, 7)}


def as_sequence(split: NodeProto, size: int) -> tuple[list[NodeProto], list[Any]]:
    """The scripting exporter's nodes for an even split: a sequence, and an access to each of its elements."""
    sequence = f"{split.output[0]}/sequence"
    sizes = numpy_helper.from_array(np.array([size] * len(split.output)), f"{sequence}/sizes")
    (axis,) = (attribute.i for attribute in split.attribute if attribute.name == "axis")
    nodes = [helper.make_node("SplitToSequence", [split.input[0], sizes.name], [sequence], axis=axis)]
    places = [numpy_helper.from_array(np.array(i), f"{sequence}/{i}/place") for i in range(len(split.output))]
    for place, name in zip(places, split.output, strict=True):
        nodes.append(helper.make_node("SequenceAt", [sequence, place.name], [name]))
    return nodes, [sizes, *places]


def test_gpt2_with_sequences_is_the_program_of_gpt2(tmp_path: Path) -> None:
    proto = onnx.load_model_from_string(read_bytes(zoo_path("GPT2"), ".onnx"))
    nodes: list[NodeProto] = []
    for original in proto.graph.node:
        if original.op_type == "Split":
            written, constants = as_sequence(original, 768)
            nodes += written
            proto.graph.initializer.extend(constants)
        else:
            nodes.append(original)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    kinds = [n.op_type for n in nodes]
    assert (kinds.count("SplitToSequence"), kinds.count("SequenceAt"), kinds.count("Split")) == (12, 36, 0)
    path = tmp_path / "gpt2.onnx"
    path.write_bytes(proto.SerializeToString())
    sizes: dict[str, Any] = {"batch": 2, "dims": {"sequence": 16}}
    assert load_onnx(path, **sizes).sha256 == load_onnx(zoo_path("GPT2"), **sizes).sha256


@pytest.mark.parametrize("opset", [11, 12, 13, 17, 20])
@pytest.mark.parametrize(
    ("sizes", "pieces"),
    [(np.array([1, 4, 1]), [1, 4, 1]), (np.array(4), [4, 2]), (np.array([6]), [6]), (np.array(1), [1] * 6)],
)
def test_split_by_sizes_and_by_one_size(opset: int, sizes: Any, pieces: list[int]) -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("SplitToSequence", "a n", "s", axis=-1),
        node("ConcatFromSequence", "s", "b", axis=-1),
        node("Abs", "b", "y"),
    ]
    program = load(nodes, {"x": [2, 6]}, constants={"n": sizes}, opset=opset)
    if len(pieces) == 1:
        assert program.op_type == ("Relu", "Abs")
        return
    assert program.op_type == ("Relu", "Split", "Concat", "Abs")
    assert [int(program.tensor_bytes[piece]) for piece in program.results(1)] == [8 * size for size in pieces]
    assert list(program.operands(2)) == list(program.results(1))


@pytest.mark.parametrize("opset", [11, 20])
@pytest.mark.parametrize(("keepdims", "rank"), [(0, 2), (1, 3), (None, 3)])
def test_slices_of_one_keep_their_axis_unless_told_otherwise(opset: int, keepdims: int | None, rank: int) -> None:
    more = {} if keepdims is None else {"keepdims": keepdims}
    target = {2: [2, 5], 3: [2, 1, 5]}[rank]
    nodes = [
        node("SplitToSequence", "x", "s", axis=1, **more),
        node("SequenceAt", "s i2", "a"),
        node("MatMul", "a w", "y"),
    ]
    program = load(nodes, {"x": [2, 3, 5]}, constants={**NUMBERS, "w": (5, 4)}, opset=opset)
    assert program.op_type == ("Split", "MatMul")
    assert program.geometry[1][[0, 1, 3]].tolist() == [2, target[1] if rank == 3 else 1, 5]


def test_elements_that_are_not_used_are_made_too() -> None:
    nodes = [node("SplitToSequence", "x", "s"), node("SequenceAt", "s im1", "a"), node("Relu", "a", "y")]
    program = load(nodes, {"x": [3, 5]}, constants=NUMBERS)
    assert [result_names(program, op) for op in range(2)] == [["s/0", "s/1", "s/2"], ["y"]]


def test_a_sequence_of_made_tensors_costs_nothing_but_its_concatenation() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Abs", "x", "b"),
        node("SequenceConstruct", "a b", "s"),
        node("SequenceAt", "s i1", "c"),
        node("Exp", "c", "d"),
        node("ConcatFromSequence", "s", "e", axis=-1, new_axis=1),
        node("MatMul", "e w", "f"),
        node("MatMul", "d v", "g"),
        node("Add", "f g", "y"),
    ]
    program = load(nodes, {"x": [5, 5]}, constants={**NUMBERS, "w": (2, 4), "v": (5, 4)})
    assert program.op_type == ("Relu", "Abs", "Exp", "Concat", "MatMul", "MatMul", "Add")
    assert operand_names(program, 2) == ["b"]
    assert operand_names(program, 3) == ["a", "b"]
    assert program.gemm[4].tolist() == [1, 25, 2, 4]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], "ab"),
        ([("Insert", "")], "abc"),
        ([("Insert", "i0")], "cab"),
        ([("Insert", "i2")], "abc"),
        ([("Insert", "im1")], "acb"),
        ([("Insert", "im2")], "cab"),
        ([("Erase", "")], "a"),
        ([("Erase", "i0")], "b"),
        ([("Erase", "im1"), ("Insert", "i1")], "ac"),
    ],
)
def test_sequences_grow_and_shrink_like_lists(changes: list[tuple[str, str]], expected: str) -> None:
    nodes = [node(kind, "x", name) for kind, name in (("Relu", "a"), ("Abs", "b"), ("Exp", "c"))]
    nodes += [node("SequenceConstruct", "a b", "s0")]
    for index, (change, place) in enumerate(changes):
        operands = f"s{index} c {place}" if change == "Insert" else f"s{index} {place}"
        nodes.append(node(f"Sequence{change}", operands.strip(), f"s{index + 1}"))
    last = f"s{len(changes)}"
    nodes += [node("ConcatFromSequence", last, "d", axis=0), node("Neg", "d", "y")]
    program = load(nodes, {"x": [3, 5]}, constants=NUMBERS)
    read = operand_names(program, program.num_ops - 1 if len(expected) == 1 else program.num_ops - 2)
    assert "".join(read) == expected


def test_an_empty_sequence_and_the_length_of_one() -> None:
    nodes = [
        node("SequenceEmpty", "_", "s0"),
        node("SequenceInsert", "s0 x", "s1"),
        node("SequenceInsert", "s1 x", "s2"),
        node("SequenceLength", "s0", "none"),
        node("SequenceLength", "s2", "two"),
        node("Unsqueeze", "two zero", "twos"),
        node("Concat", "twos rest", "target", axis=0),
        node("Reshape", "x target", "a"),
        node("MatMul", "a w", "b"),
        node("Add", "b none_f", "y"),
        node("Cast", "none", "none_f", to=1),
    ]
    nodes[0].ClearField("input")
    constants = {"zero": np.array([0]), "rest": np.array([-1]), "w": (6, 4)}
    program = load(nodes, {"x": [4, 3]}, constants=constants)
    assert program.op_type == ("MatMul", "Add")
    assert program.gemm[0].tolist() == [1, 2, 6, 4]
    assert names(program, 0) == {"w"}


def test_shape_arithmetic_by_sequences_folds() -> None:
    """The scripting exporter's nodes for `batch, length, _ = x.shape`."""
    nodes = [
        node("Shape", "x", "dims"),
        node("SplitToSequence", "dims ones", "s"),
        node("SequenceAt", "s i0", "batch"),
        node("SequenceAt", "s i1", "length"),
        node("Concat", "batch length heads", "target", axis=0),
        node("Reshape", "x target", "a"),
        node("Transpose", "a", "y", perm=[0, 2, 1, 3]),
    ]
    constants = {**NUMBERS, "ones": np.array(1), "heads": np.array([2, 4])}
    program = load(nodes, {"x": ["batch", "sequence", 8]}, constants=constants, batch=3, dims={"sequence": 6})
    assert program.op_type == ("Transpose",)
    assert program.tensor_bytes.tolist() == [4 * 3 * 6 * 8] * 2


def test_a_sequence_out_of_a_branch_that_shapes_decide() -> None:
    inner = [node("SplitToSequence", "x", "t"), node("SequenceAt", "t i1", "u")]
    branch = helper.make_graph(inner, "b", [], [helper.make_tensor_value_info("u", 1, [1, 4])])
    nodes = [node("If", "c", "a", then_branch=branch, else_branch=branch), node("Relu", "a", "y")]
    program = load(nodes, {"x": [3, 4]}, constants={**NUMBERS, "c": np.array(True)})
    assert program.op_type == ("Split", "Relu")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("SplitToSequence", "x n", "s"), node("SequenceAt", "s i0", "y")],
         r"sequence at node 'n_s' \(SplitToSequence\) depends on the data through 'n'.*known length.*fixed sizes"),
        ([node("SplitToSequence", "x", "s"), node("SequenceAt", "s n", "y")], r"node 'n_y'.*depends on the data.*'n'"),
        ([node("SplitToSequence", "x", "s"), node("SequenceAt", "s i7", "y")], "'n_y'.*index 7 in a sequence of 3"),
        ([node("SplitToSequence", "x", "s"), node("SequenceAt", "s two", "y")], "'n_y'.*index 0, 1 in a sequence"),
        ([node("SplitToSequence", "x i0", "s"), node("SequenceAt", "s i0", "y")], "3 rows into pieces of 0"),
        ([node("SplitToSequence", "x two", "s"), node("SequenceAt", "s i0", "y")], "n_s"),
        ([node("SplitToSequence", "x", "s", axis=5), node("SequenceAt", "s i0", "y")], "axis=5 of node 'n_s'"),
        ([node("SplitToSequence", "wide", "s"), node("SequenceAt", "s i0", "y")], "pieces of 1; from 1 to 4096 pieces"),
        ([node("SequenceAt", "x i0", "y")], "'n_y'.*a tensor where a sequence is required"),
        ([node("SequenceConstruct", "x", "s"), node("SequenceConstruct", "s", "t"), node("SequenceAt", "t i0", "y")],
         "'n_t'.*a sequence where a tensor is required"),
        ([node("SequenceConstruct", "x x", "s"), node("Relu", "s", "y")], "'s', an input of node 'n_y'.*is a sequence"),
        ([node("SequenceConstruct", "x x", "y")], "'y', a graph output, is a sequence"),
        ([node("SequenceErase", "s", "t"), node("SequenceEmpty", "_", "s"), node("SequenceAt", "t i0", "y")],
         "'n_t'.*index -1 in a sequence of 0"),
    ],
)  # fmt: skip
def test_what_no_sequence_of_known_length_can_be(nodes: list[NodeProto], message: str) -> None:
    for made in nodes:
        if made.op_type == "SequenceEmpty":
            made.ClearField("input")
    constants = {**NUMBERS, "two": np.array([0, 1]), "wide": (5000, 2)}
    with pytest.raises(WorkloadError, match=message):
        load(nodes, {"x": [3, 4], "n": [1]}, types={"n": onnx.TensorProto.INT64}, constants=constants)
