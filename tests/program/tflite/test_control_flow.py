"""Branches, loops and variables of .tflite files, and files that are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.program import Program, TensorKind
from tests.program.models import names, operand_names
from tests.program.tflite.writer import Graph, T, load, op
from tests.thorough import examples

ROW, STATE = T([1, 8]), T([1, 4])
TENSORS = dict.fromkeys(("x", "a", "y", "tx", "ty", "ex", "eh", "ey", "bx", "by", "cx"), ROW)
TENSORS |= {"c": T([1], "BOOL"), "w": T([8, 8]), "cc": T([1], "BOOL"), "limit": ROW}
THEN = Graph([op("TANH", "tx", "ty")], "tx", "ty")
ELSE = Graph([op("FULLY_CONNECTED", "ex w _", "eh"), op("TANH", "eh", "ey")], "ex", "ey")
CHOICE = op("IF", "c a", "y", ThenSubgraphIndex=1, ElseSubgraphIndex=2)


def branches() -> Program:
    tensors = {name: TENSORS[name] for name in ("x", "a", "y", "tx", "ty", "ex", "eh", "ey", "c", "w")}
    return load([op("EXP", "x", "a"), CHOICE], tensors, "x c", "y", [THEN, ELSE])


def test_the_branch_with_most_work_is_taken() -> None:
    with pytest.warns(UserWarning, match=r"else_branch of operator 1 \(IF\).*then_branch \(0 MACs.*\)"):
        program = branches()
    assert program.op_type == ("Exp", "If", "Gemm", "Tanh")
    assert (operand_names(program, 1), int(program.macs.sum())) == (["c"], 64)
    assert names(program, TensorKind.INPUT) == {"x", "c"}


@examples(5)
@given(trips=st.integers(0, 4))
def test_a_loop_is_unrolled(trips: int) -> None:
    """Its condition is computed once more than its body, and its weight is one tensor."""
    body = Graph([op("FULLY_CONNECTED", "bx w _", "by")], "bx", "by")
    condition = Graph([op("LESS", "cx limit", "cc")], "cx", "cc")
    tensors = {name: TENSORS[name] for name in ("x", "a", "y", "bx", "by", "w", "cx", "limit", "cc")}
    ops = [op("WHILE", "x", "a", CondSubgraphIndex=1, BodySubgraphIndex=2), op("TANH", "a", "y")]
    program = load(ops, tensors, graphs=[condition, body], trips=trips)
    assert program.op_type == (*["Less", "Loop", "Gemm"] * trips, "Less", "Loop", "Tanh")
    assert names(program, TensorKind.WEIGHT) == {"w", "limit"} if trips else {"limit"}
    with pytest.raises(WorkloadError, match=r"how often operator 0 \(WHILE\) runs; pass .*--trips"):
        load(ops, tensors, graphs=[condition, body])
    with pytest.raises(WorkloadError, match="trips cannot apply"):
        load([op("TANH", "x", "y")], {"x": ROW, "y": ROW}, trips=2)
    itself = Graph([op("WHILE", "bx", "by", CondSubgraphIndex=1, BodySubgraphIndex=2)], "bx", "by")
    if trips:
        with pytest.raises(WorkloadError, match="graph 2 of the file calls itself"):
            load(ops, tensors, graphs=[condition, itself], trips=trips)


def test_variables_are_state() -> None:
    """The first read is of an input, the last assignment an output; CALL_ONCE runs before the first inference."""
    tensors = {"x": STATE, "h": T([], "RESOURCE"), "old": STATE, "new": STATE, "y": STATE, "again": STATE}
    tensors |= {"ih": T([], "RESOURCE"), "zero": STATE}
    start = Graph([op("VAR_HANDLE", "", "ih", SharedName="s"), op("ASSIGN_VARIABLE", "ih zero", "")])
    ops = [op("CALL_ONCE", "", "", InitSubgraphIndex=1), op("VAR_HANDLE", "", "h", SharedName="s"),
           op("READ_VARIABLE", "h", "old"), op("ADD", "x old", "new"), op("ASSIGN_VARIABLE", "h new", ""),
           op("READ_VARIABLE", "h", "again"), op("TANH", "again", "y")]  # fmt: skip
    program = load(ops, tensors, graphs=[start])
    assert program.op_type == ("Add", "Tanh")
    assert [operand_names(program, 0), operand_names(program, 1)] == [["x", "variable s"], ["new"]]
    assert names(program, TensorKind.INPUT) == {"x", "variable s"}
    assert names(program, TensorKind.OUTPUT) == {"new", "y"}


def test_a_model_is_loaded_up_to_a_tensor() -> None:
    tensors = dict.fromkeys(("x", "a", "b", "y"), ROW)
    ops = [op("EXP", "x", "a"), op("TANH", "a", "b"), op("What", "b", "y")]
    program = load(ops, tensors, cut="b")
    assert (program.op_type, names(program, TensorKind.OUTPUT)) == (("Exp", "Tanh"), {"b"})
    with pytest.raises(WorkloadError, match="makes no tensor 'x' to cut at"):
        load(ops, tensors, cut="x")
