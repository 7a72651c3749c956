"""The validator on outputs that take another tensor's place: they may share its block, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.validation import violations
from memplace_env.program.program import TensorKind
from tests.by_hand import machine
from tests.program.test_alias import NEW, A, W, update

TASK = make_task(update(), machine())
OFFSET = 2
BLOCKS = np.array([[W, 0, 0, 0, 1], [NEW, 0, 0, 1, 3], [A, 0, 60, 0, 2]])
COPIES = np.array([[W, 1, 0, 0, 0], [NEW, 0, 1, 2, 3]])
LEVELS = np.where(np.isin(TASK.program.use_tensor, (W, NEW, A)), 0, 1)
LEVELS[np.flatnonzero(TASK.program.use_tensor == W)[0]] = 1
GOOD = TASK.make_plan(LEVELS, BLOCKS, COPIES)
"""The weight is fetched during op 0, read and updated in its place by op 1, and goes back."""


def rules(plan: MemoryPlan, task=TASK) -> list[str]:
    return [violation.rule for violation in violations(task, plan)]


def with_block(row: int, **changes: int) -> MemoryPlan:
    blocks = BLOCKS.copy()
    for column, value in changes.items():
        blocks[row, ("tensor", "level", "offset", "start", "end").index(column)] = value
    return replace(GOOD, allocations=blocks)


def test_one_block_for_both():
    assert rules(GOOD) == []
    assert rules(with_block(0, end=3)) == [], "what is left in the old block is never read"


def test_without_the_alias_it_is_an_overlap():
    task = make_task(update(alias_of=-1), machine())
    assert rules(replace(GOOD, program_sha256=task.program.sha256), task) == ["overlap"]


@pytest.mark.parametrize(
    ("plan", "broken"),
    [
        (with_block(1, offset=1), ["overlap"]),
        (with_block(0, offset=8), ["overlap"]),
        (with_block(2, offset=0), ["overlap", "overlap"]),
        (with_block(2, offset=39), ["overlap", "overlap"]),
        (with_block(1, start=2), ["write-back", "result", "output"]),
    ],
)
def test_nothing_else_is_shared(plan, broken):
    assert rules(plan) == broken


@pytest.mark.parametrize(("start", "end", "broken"), [(0, 0, False), (0, 1, True), (2, 2, True)])
def test_no_copy_of_what_was_replaced(start, end, broken):
    """One that ended with op 1 or later would overwrite the new weight, or read it for the old one."""
    plan = with_block(0, end=3)
    copies = np.vstack([COPIES, [W, 1, 0, start, end]])
    assert rules(replace(plan, transfers=copies)) == ["alias"] * broken


def test_the_old_one_is_not_written_back_over_the_new_one():
    copies = np.vstack([COPIES, [W, 0, 1, 2, 3]])
    (violation,) = violations(TASK, replace(with_block(0, end=3), transfers=copies))
    assert violation.rule == "alias"
    assert "transfer 2 of tensor 1 (w) ends at op 3, but tensor 3 (new) takes its place at op 1" in violation.message


def test_a_resident_weight_may_be_updated_in_its_place():
    task = replace(TASK, accelerator=machine(weights="resident"))
    assert task.program.tensor_kind[W] == TensorKind.WEIGHT
    blocks = BLOCKS.copy()
    blocks[0, 4] = 2
    levels = np.where(np.isin(task.program.use_tensor, (W, NEW, A)), 0, 1)
    assert rules(task.make_plan(levels, blocks, COPIES[1:]), task) == []
