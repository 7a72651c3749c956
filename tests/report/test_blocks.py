"""Kinds of blocks."""

from __future__ import annotations

from memplace_env.report.plans.block_kinds import BlockKind, arrivals, block_kinds, bytes_in_blocks
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
