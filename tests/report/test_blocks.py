"""Kinds of blocks."""

from __future__ import annotations

import numpy as np

from memplace_env.placement.compiler import place_levels
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.report.inspection import inspect_task
from memplace_env.report.plans.block_kinds import BlockKind, arrivals, block_kinds, bytes_in_blocks
from tests.by_hand import A, X, Y, machine, three_ops
from tests.subjects import SRAM, Subject


def test_kinds_and_bytes_of_blocks(copies: Subject) -> None:
    task, plan = copies.task, copies.evaluated.plan
    arrived = arrivals(task, plan)
    assert arrived.tolist() == [-1, 4, 1, 2, -1]
    assert block_kinds(task.program, plan.allocations[:, 0], arrived) == [
        BlockKind.ACTIVATION,
        BlockKind.COPIED_ACTIVATION,
        BlockKind.COPIED_WEIGHT,
        BlockKind.COPIED_WEIGHT,
        BlockKind.OUTPUT,
    ]
    used = bytes_in_blocks(task.program, plan, SRAM)
    assert used.tolist() == [70_000, 250_000, 250_000, 160_000, 70_000, 120_000, 50_000]


def test_the_caller_fills_inputs_and_takes_outputs() -> None:
    task = resolve_task(three_ops(), machine(), io_level="any")
    plan = place_levels(task, np.zeros(task.program.num_tensors, dtype=np.int64)).plan
    tensors = plan.allocations[:, 0]
    kinds = dict(zip(tensors.tolist(), block_kinds(task.program, tensors, arrivals(task, plan)), strict=True))
    assert (kinds[X], kinds[A], kinds[Y]) == (BlockKind.FILLED, BlockKind.ACTIVATION, BlockKind.TAKEN)
    said = inspect_task(task).to_json()
    assert (said["ops"], said["input_bytes"], said["output_bytes"]) == (3, 10, 10)
    assert {row["type"] for row in said["op_types"]} == {"A", "B", "C"}
