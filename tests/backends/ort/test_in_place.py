"""Results written over operands: chunk by chunk in the plan's arena, so that a pair that does not hold shows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from memplace_env.backends.ort import CopyMoment, Executor
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from memplace_env.program.lowering import lower_graph
from tests.backends.ort.models import FLOAT, MODELS, chip, normal, written

SQUARE = [4, 16, 16]


def model(path: Path) -> Path:
    """Element-wise and row-wise ops, a view, a residual, and ops that need all of an operand of equal bytes."""
    rng, node = np.random.default_rng(9), helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "product"),
        node("Erf", ["a"], ["b"], "erf"),
        node("Add", ["b", "bias"], ["c"], "shift"),
        node("Reshape", ["c", "flat"], ["d"], "view"),
        node("Softmax", ["d"], ["e"], "softmax", axis=-1),
        node("Reshape", ["e", "square"], ["f"], "view_back"),
        node("Transpose", ["f"], ["g"], "turn", perm=[0, 2, 1]),
        node("Mul", ["g", "bias"], ["h"], "scale"),
        node("MatMul", ["h", "h"], ["i"], "power"),
        node("LayerNormalization", ["i", "gain"], ["j"], "norm"),
        node("Sub", ["j", "x"], ["k"], "residual"),
        node("CumSum", ["k", "axis"], ["l"], "sum"),
        node("Neg", ["l"], ["y"], "negative"),
    ]
    constants = {
        "w": normal(rng, 16, 16), "bias": normal(rng, 16), "gain": normal(rng, 16), "axis": np.array(0),
        "flat": np.array([64, 16]), "square": np.array(SQUARE),
    }  # fmt: skip
    return written(path, nodes, {"x": (FLOAT, SQUARE)}, {"y": (FLOAT, SQUARE)}, constants)


def crowded(task: Task) -> MemoryPlan:
    """A plan with every inner result in fast memory, over an operand where the program has such a pair."""
    program, place, taken = task.program, {}, set()
    inner = np.flatnonzero(program.producer >= 0)
    inner = inner[program.is_placeable[inner]]
    top = np.cumsum(program.tensor_bytes[inner]) - program.tensor_bytes[inner]
    place = dict(zip(inner.tolist(), top.tolist(), strict=True))
    for operand, result, _ in program.handovers.tolist():
        if not {operand, ~result} & taken:
            taken |= {operand, ~result}
            place[result] = place[operand]
    rows = [[tensor, 0, at, program.live_start[tensor], program.live_end[tensor]] for tensor, at in place.items()]
    level = np.where(np.isin(program.use_tensor, inner), 0, task.backing)
    return task.make_plan(level, np.array(rows, dtype=np.int64), np.zeros((0, 5), dtype=np.int64))


def run(path: Path, slices: float | None = None, **options):
    task = resolve_task(path, chip(64), fusion="none", in_place="rows", slices=slices, **options)
    plan = crowded(task)
    assert violations(task, plan) == []
    return plan.handed_over(task.program), Executor(task).run(plan, inferences=2, copies=CopyMoment.EARLIEST)


@pytest.mark.parametrize("slices", [None, 0.01])
def test_in_place_is_right(folder, slices):
    pairs, execution = run(model(folder / "in-place.onnx"), slices)
    assert len(pairs) >= 5
    assert execution.right, execution


@pytest.mark.parametrize("slices", [None, 0.001])
def test_elements_that_are_wider_in_the_file_than_in_the_plan_are_right(folder, slices):
    """A mask of a byte for each element gives its place to results that are float32 when they run."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "product"),
        node("Greater", ["a", "zero"], ["mask"], "compare"),
        node("Where", ["mask", "one", "zero"], ["b"], "choose"),
        node("Neg", ["b"], ["y"], "negative"),
    ]
    constants = {"w": normal(np.random.default_rng(9), 16, 16), "zero": np.zeros(1, "f4"), "one": np.ones(1, "f4")}
    path = written(folder / "wider.onnx", nodes, {"x": (FLOAT, SQUARE)}, {"y": (FLOAT, SQUARE)}, constants)
    pairs, execution = run(path, slices, dtype="int8")
    assert pairs
    assert execution.right, execution


@pytest.mark.parametrize("name", MODELS)
def test_other_models_are_right(folder, name):
    assert run(MODELS[name](folder / f"in-place-{name}.onnx"))[1].right


@pytest.mark.parametrize("wrong", ["Transpose", "MatMul", "CumSum"])
def test_a_wrong_pair_fails(folder, monkeypatch, wrong):
    """Every row of the table that is wrong is found by running it."""
    path, lowered = model(folder / f"wrong-{wrong}.onnx"), lower_graph._Lowering._op

    def operation(self, site):
        op = lowered(self, site)
        if op.operator.name != wrong:
            return op
        return replace(op, aligned=frozenset((name, result) for name in op.reads for result in op.outputs))

    assert run(path)[1].right
    monkeypatch.setattr(lower_graph._Lowering, "_op", operation)
    assert not run(path)[1].right
