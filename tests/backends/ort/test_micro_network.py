""".tflite files are executed op by op in TensorFlow Lite Micro, on the bytes at the plan's addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.ort import Executor
from memplace_env.backends.ort.plan_steps import CopyMoment
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.compiler.density import density_greedy
from memplace_env.placement.task import Task
from tests.backends.export.test_smallest_file import numbers
from tests.backends.ort.models import task_of
from tests.program.tflite.writer import T, op, write

pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")

ROW = T([1, 64], "FLOAT32")
TENSORS = {"x": ROW, "w": numbers(64, 64), "b": numbers(64)} | dict.fromkeys("arcdey", ROW)
OPS = [
    op("FULLY_CONNECTED", "x w b", "a"),
    op("RESHAPE", "a", "r"),
    op("LOGISTIC", "r", "c"),
    op("FULLY_CONNECTED", "c w b", "d"),
    op("ADD", "d a", "e"),
    op("LOGISTIC", "e", "y"),
]


def of_bytes(folder: Path, data: bytes, **settings: Any) -> Task:
    """The task of a file's bytes on a chip with 2 KiB, enough for some of the tensors."""
    (folder / "net.tflite").write_bytes(data)
    return task_of(folder / "net.tflite", kibibytes=2, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"fusion": "none"},
        {"fusion": "epilogue", "in_place": "elementwise"},
        {"fusion": "none", "io_level": "any", "alignment": 16},
    ],
)
def test_plans_give_the_plain_results(tmp_path: Path, settings: dict[str, Any]) -> None:
    task = of_bytes(tmp_path, write(OPS, TENSORS), **settings)
    executor = Executor(task)
    every = place_levels(task, np.zeros(task.program.num_tensors, dtype=np.int64)).plan
    for plan in (density_greedy(task), every):
        run = executor.run(plan, inferences=2, copies=CopyMoment.RANDOM)
        assert run.right
        assert run.bit_equal == run.ops == 2 * task.program.num_ops


def test_a_plan_that_loses_a_tensor_is_noticed(tmp_path: Path) -> None:
    task = of_bytes(tmp_path, write(OPS, TENSORS), fusion="none")
    plan = place_levels(task, np.zeros(task.program.num_tensors, dtype=np.int64)).plan
    rows = np.array(plan.allocations)
    inner = [
        row for row, (tensor, level, *_) in enumerate(rows.tolist()) if level == 0 and tensor in task.program.producer
    ]
    rows[inner, 2] = 0
    wrong = task.make_plan(plan.use_level, rows, plan.transfers)
    assert not Executor(task).run(wrong, inferences=1, even_if_invalid=True).right


def test_given_inputs(tmp_path: Path) -> None:
    task = of_bytes(tmp_path, write(OPS, TENSORS), fusion="none")
    with pytest.raises(ExecutionError, match="the model takes float32"):
        Executor(task, inputs={"x": np.zeros((1, 64), np.int8)})
    assert Executor(task, inputs={"x": np.zeros((1, 64), np.float32)}).run(density_greedy(task)).right


@pytest.mark.parametrize(
    ("ops", "tensors", "said"),
    [
        ([op("LOGISTIC", "v", "y")], {"v": T([1, 4], "FLOAT32", variable=True)}, "several graphs or variables"),
        ([op("FULLY_CONNECTED", "x w b", "y")], {"w": T([64, 64], "FLOAT32"), "b": numbers(64)}, "contents of 'w'"),
        ([op("GELU", "x", "y")], {}, "GELU"),
    ],
)
def test_refusals(tmp_path: Path, ops: list[Any], tensors: dict[str, T], said: str) -> None:
    task = of_bytes(tmp_path, write(ops, {"x": ROW, "y": ROW, **tensors}))
    with pytest.raises(ExecutionError, match=said):
        Executor(task)
