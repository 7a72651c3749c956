"""Numbers of `memplace explain`: levels, contiguity and times against loops that count one by one."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.placement.compiler import all_backing, native_plan, place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.program.program import Program, TensorKind
from memplace_env.report.explanation.explanation import Explanation, contiguity, decided_levels, explain_plan
from memplace_env.report.explanation.routes import why_it_differs
from tests.strategies import accelerators, programs, tensor_levels
from tests.subjects import Subject, relu_task, subject_of
from tests.thorough import examples

KINDS = {"weights": TensorKind.WEIGHT, "activations": TensorKind.ACTIVATION}


@st.composite
def explanations(draw: st.DrawFn) -> Explanation:
    """Native against a random mapping, on machines with 2 to 4 levels."""
    program, chip = draw(programs()), draw(accelerators())
    task = make_task(program, chip)
    return explain_plan(*subject_of(task, place_levels(task, draw(tensor_levels(task))).plan))


@st.composite
def served(draw: st.DrawFn) -> tuple[Program, MemoryPlan, int]:
    """A program, any levels for its uses, and how many levels there are; such a plan need not be able to run."""
    program, levels = draw(programs()), draw(st.integers(2, 4))
    use_level = draw(st.lists(st.integers(0, levels - 1), min_size=program.num_uses, max_size=program.num_uses))
    none = np.empty((0, 5), dtype=np.int64)
    task = make_task(program, load_accelerator("nnp-i"))
    return program, task.make_plan(np.array(use_level, dtype=int), none), levels


@given(served())
def test_a_tensor_is_where_most_of_its_bytes_are_served(case: tuple[Program, MemoryPlan, int]) -> None:
    program, plan, levels = case
    found = plan.tensor_levels(program)
    assert found.shape == (program.num_tensors,)
    for tensor in range(program.num_tensors):
        moved = [0] * levels
        for use in np.flatnonzero(program.use_tensor == tensor):
            moved[plan.use_level[use]] += int(program.use_bytes[use])
        assert found[tensor] == moved.index(max(moved))


@given(served(), st.sampled_from(list(KINDS.values())))
def test_ops_decide_about_what_they_read_first_or_make(case: tuple[Program, MemoryPlan, int], kind: TensorKind) -> None:
    program, plan, levels = case
    level = plan.tensor_levels(program)
    seen: set[int] = set()
    expected = []
    for op in range(program.num_ops):
        new = {int(k) for k in (*program.operands(op), *program.results(op)) if program.tensor_kind[k] == kind} - seen
        seen |= new
        if new:
            placed = [sum(int(program.tensor_bytes[k]) for k in new if level[k] == index) for index in range(levels)]
            expected.append((op, placed.index(max(placed))))
    ops, levels_of_ops = decided_levels(program, kind, level)
    assert list(zip(ops.tolist(), levels_of_ops.tolist(), strict=True)) == expected


@given(st.lists(st.integers(0, 3), max_size=12))
def test_contiguity_counts_pairs(levels: list[int]) -> None:
    share = contiguity(np.array(levels, dtype=np.int64))
    pairs = list(pairwise(levels))
    if not pairs:
        assert share is None
        return
    assert share == pytest.approx(sum(one == other for one, other in pairs) / len(pairs))
    assert 0 <= share <= 1


@examples(40)
@given(explanations())
def test_matrices_add_up(found: Explanation) -> None:
    """Rows add up to native's bytes by level, columns to the plan's, and all to the bytes of that kind."""
    program = found.task.program
    for shift in (found.weights, found.activations):
        assert shift.total_bytes == program.bytes_of(KINDS[shift.name])
        for axis, plan in ((1, found.native.plan), (0, found.evaluated.plan)):
            level, of_kind = plan.tensor_levels(program), program.tensor_kind == KINDS[shift.name]
            masks = [of_kind & (level == index) for index in range(len(shift.moved_bytes))]
            by_level = [int(program.tensor_bytes[mask].sum()) for mask in masks]
            assert shift.moved_bytes.sum(axis=axis).tolist() == by_level
        assert 0 <= shift.changed_share <= 1


@examples(40)
@given(explanations())
def test_times_add_up(found: Explanation) -> None:
    difference = found.native.report.latency_ps - found.evaluated.report.latency_ps
    assert found.saved_ps.sum() + found.tail_saved_ps == difference
    assert sum(item.saved_ps for item in found.by_type()) + found.tail_saved_ps == difference
    assert sum(item.ops for item in found.by_type()) == found.task.program.num_ops
    gains, losses = (list_of(found.task.program.num_ops) for list_of in (found.gains, found.losses))
    assert sum(item.saved_ps for item in (*gains, *losses)) == found.saved_ps.sum()
    assert [item.saved_ps for item in gains] == sorted((item.saved_ps for item in gains), reverse=True)
    assert [item.saved_ps for item in losses] == sorted(item.saved_ps for item in losses)
    assert all(why_it_differs(item) for item in (*gains, *losses))
    json.dumps(found.to_json(8), allow_nan=False)


@examples(40)
@given(programs(), accelerators())
def test_native_against_itself(program: Program, chip: Accelerator) -> None:
    task = make_task(program, chip)
    found = explain_plan(*subject_of(task, native_plan(task)))
    for shift in (found.weights, found.activations):
        assert np.count_nonzero(shift.moved_bytes - np.diag(np.diag(shift.moved_bytes))) == 0
        assert shift.changed_share == 0
        assert len(set(shift.contiguities)) == 1
    assert not found.saved_ps.any()
    assert found.speedup == 1


def test_bytes_by_level(copies: Subject) -> None:
    """Native keeps four weights and all activations on the chip; the plan two weights and h0."""
    found = explain_plan(*copies)
    assert found.weights.moved_bytes.tolist() == [[180_000, 180_000], [0, 180_000]]
    assert found.activations.moved_bytes.tolist() == [[70_000, 280_000], [0, 0]]
    assert found.activations.changed_share == 0.8


def test_no_weights() -> None:
    task = relu_task()
    found = explain_plan(*subject_of(task, all_backing(task)))
    assert found.weights.total_bytes == 0
    assert found.weights.contiguities == (None, None)
