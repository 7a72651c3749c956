"""The Program contract: what is derived from its arrays, what identifies it, what it refuses."""

import doctest
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from memplace_env._lib.errors import WorkloadError
from memplace_env.program import builder
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program, TensorKind
from tests.offenders import every
from tests.strategies import programs


def residual() -> Program:
    """x -> a -> b, b + x -> y; tensors x, w, a, b, y of 10, 40, 20, 30, 5 bytes."""
    builder = ProgramBuilder("residual", "int8")
    x, w = builder.tensor("x", 10, TensorKind.INPUT), builder.tensor("w", 40, TensorKind.WEIGHT)
    a, b, y = builder.tensor("a", 20), builder.tensor("b", 30), builder.tensor("y", 5, TensorKind.OUTPUT)
    builder.op("Gemm", [x, w, x], [a], gemm=(1, 2, 3, 4))
    builder.op("Relu", [a], [b], vector_ops=30)
    builder.op("Add", [b, a], [y], bytes_read={a: 7})
    return builder.build()


def test_derived_arrays_by_hand():
    program = residual()
    assert program.use_tensor.tolist() == [0, 1, 2, 2, 3, 3, 2, 4], "a repeated operand is one use"
    assert program.use_bytes.tolist() == [10, 40, 20, 20, 30, 30, 7, 5]
    assert program.use_op.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert program.live_start.tolist() == [0, 0, 0, 1, 2]
    assert program.live_end.tolist() == [0, 0, 2, 2, 2]
    assert program.live_bytes.tolist() == [20, 50, 55]
    assert program.macs.tolist() == [24, 0, 0]
    assert program.edges.tolist() == [[0, 0, 1], [1, 2, 2]]
    assert program.bytes_of(TensorKind.ACTIVATION) == 50


def test_op_graph():
    graph = residual().to_networkx()
    assert nx.is_directed_acyclic_graph(graph)
    assert dict(graph.edges) == {(0, 1): {"bytes": 20}, (0, 2): {"bytes": 20}, (1, 2): {"bytes": 30}}
    assert graph.nodes[0] == {"op_type": "Gemm", "name": "Gemm_0", "macs": 24}


@given(programs())
def test_op_graph_has_the_edges(program):
    graph = program.to_networkx()
    assert set(graph.edges) == set(zip(*program.edges.tolist(), strict=True))
    assert len(graph) == program.num_ops


def test_names_do_not_change_the_hash_and_everything_else_does():
    program = residual()
    assert replace(program, name="other", tensor_name=tuple("vwxyz")).sha256 == program.sha256
    assert replace(program, dtype="float16").sha256 != program.sha256
    assert replace(program, vector_ops=program.vector_ops + 1).sha256 != program.sha256
    assert replace(program, geometry=program.geometry + 1).sha256 != program.sha256
    assert replace(program, op_type=("Gemm", "Relu", "Sub")).sha256 != program.sha256


def test_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        residual().tensor_bytes[0] = 1


def changed(array: np.ndarray, index: int, value: int) -> np.ndarray:
    copy = array.copy()
    copy[index] = value
    return copy


@every(
    ("change", "sentence"),
    [
        (lambda p: {"op_name": p.op_name[:-1]}, "op_name has 2 entries, not 3"),
        (lambda p: {"dtype": "int7"}, "int7"),
        (lambda p: {"tensor_bytes": changed(p.tensor_bytes, 0, 0)}, "no bytes"),
        (lambda p: {"use_ptr": changed(p.use_ptr, 0, 1)}, "use_ptr"),
        (lambda p: {"use_tensor": changed(p.use_tensor, 0, 9)}, "does not exist"),
        (lambda p: {"use_tensor": changed(p.use_tensor, 0, 1)}, "twice"),
        (lambda p: {"use_bytes": changed(p.use_bytes, 0, 11)}, "more than its tensor"),
        (lambda p: {"producer": changed(p.producer, 2, 1)}, "disagree"),
        (lambda p: {"use_tensor": changed(p.use_tensor, 0, 3)}, "touched by no op"),
        (lambda p: {"tensor_kind": changed(p.tensor_kind, 2, TensorKind.INPUT)}, "no producer"),
    ],
)
def test_contradictions_are_named(change, sentence):
    program = residual()
    with pytest.raises(WorkloadError, match=sentence):
        replace(program, **change(program))


def test_reading_before_making_is_refused():
    builder = ProgramBuilder("backwards", "int8")
    x, a = builder.tensor("x", 10, TensorKind.INPUT), builder.tensor("a", 20)
    b, y = builder.tensor("b", 30), builder.tensor("y", 5, TensorKind.OUTPUT)
    builder.op("First", [x, a], [b])
    builder.op("Second", [b], [a, y])
    with pytest.raises(WorkloadError, match="before it is made"):
        builder.build()


def test_scratch_lives_while_its_op_runs():
    def built(scratch: int) -> Program:
        builder = ProgramBuilder("working", "int8")
        x, a = builder.tensor("x", 10, TensorKind.INPUT), builder.tensor("a", 20)
        builder.op("Conv", [x], [a], scratch=scratch)
        builder.op("Relu", [a], [builder.tensor("y", 5, TensorKind.OUTPUT)])
        return builder.build()

    plain, working = built(0), built(64)
    assert (working.live_bytes - plain.live_bytes).tolist() == [64, 0]
    assert working.tensor_bytes[working.tensor_name.index("Conv_0/scratch")] == 64
    with pytest.raises(WorkloadError, match="-1 bytes of scratch"):
        built(-1)


def test_empty_programs_are_refused():
    with pytest.raises(WorkloadError, match="nothing to place"):
        ProgramBuilder("empty", "int8").build()


def test_the_builders_example():
    assert doctest.testmod(builder).failed == 0
