"""Slices that lie alike become one: as fast, valid, and replayed by its settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memplace_env._lib.errors import PlanError, WorkloadError
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs import Costs
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.merging import in_common_slices, merged
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from memplace_env.program.program import Program
from memplace_env.program.slicing import cut_before, cuts_of
from memplace_env.testing.instances import plans_of
from tests.offenders import every
from tests.strategies import accelerators, cost_models, programs, programs_with_pairs, two_level_accelerators
from tests.subjects import SRAM, layers_of_rows, sliced_layers


@st.composite
def programs_of_rows(draw: st.DrawFn) -> Program:
    """Random programs whose tensors have up to nine rows, some with halos."""
    program = draw(programs(8) | programs_with_pairs(programs(8)))
    rows = st.lists(st.integers(1, 9), min_size=program.num_tensors, max_size=program.num_tensors)
    # A row has a byte at least.
    bounded = np.minimum(draw(rows), program.tensor_bytes)
    halo = draw(st.sampled_from([0, 0, 1, 3])) * ~program.use_is_result
    return replace(
        program,
        tensor_rows=np.stack([np.ones_like(bounded), bounded], axis=1),
        use_halo=halo * np.ones(program.num_uses, dtype=np.int64),
    )


@st.composite
def sliced_plans(draw: st.DrawFn, chips: st.SearchStrategy[Accelerator]) -> tuple[Task, MemoryPlan]:
    """Random slices, and a plan in which those of a tensor often ask for the same level."""
    share = draw(st.sampled_from([0.02, 0.1, 0.4]))
    task = resolve_task(draw(programs_of_rows()), draw(chips), costs=draw(cost_models()), slices=share)
    seed = draw(st.integers(0, 2**16))
    if draw(st.booleans()):
        return task, list(plans_of(task, 2, seed))[draw(st.sampled_from([0, -1, -2]))]
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, task.accelerator.num_levels, task.program.whole.num_tensors)
    levels = whole[task.program.whole_tensor]
    other = rng.random(task.program.num_tensors) < 0.1
    levels[other] = rng.integers(0, task.accelerator.num_levels, other.sum())
    return task, place_levels(task, levels).plan


@given(sliced_plans(accelerators() | two_level_accelerators()))
def test_a_merged_plan_is_valid_and_as_fast(drawn: tuple[Task, MemoryPlan]) -> None:
    task, plan = drawn
    fewer, smaller = merged(task, plan)
    assert violations(fewer, smaller) == []
    assert fewer.program.whole is task.program.whole
    assert fewer.program.num_tensors <= task.program.num_tensors
    assert len(smaller.allocations) <= len(plan.allocations)
    before, after = evaluate_plan(task, plan), evaluate_plan(fewer, smaller)
    assert after.latency_ps <= before.latency_ps
    slices = task.program.slices
    if slices is None or (not task.program.whole.use_halo.any() and slices.of_uses(_whole(task).use_ps).all()):
        assert after.latency_ps == before.latency_ps
        np.testing.assert_array_equal(after.op_time_ps, before.op_time_ps)
        np.testing.assert_array_equal(after.stall_ps, before.stall_ps)
        np.testing.assert_array_equal(after.bytes_moved, before.bytes_moved)
        assert after.energy_j == before.energy_j
    assert merged(fewer, smaller)[1] == smaller, "nothing is left to merge"


@given(sliced_plans(accelerators() | two_level_accelerators()))
def test_plans_in_different_slices_are_plans_in_the_cuts_of_both(drawn: tuple[Task, MemoryPlan]) -> None:
    task, plan = drawn
    fewer, smaller = merged(task, plan)
    whole_costs = task.costs if task.program.slices is None else task.whole_costs
    assume(whole_costs is not None)
    whole = resolve_task(task.program.whole, task.accelerator, costs=whole_costs)
    backing = place_levels(whole, np.full(whole.program.num_tensors, whole.backing)).plan
    common, (first, second, third) = in_common_slices([fewer, task, whole], [smaller, plan, backing])
    assert common.program.sha256 == task.program.sha256
    for own in (first, second, third):
        assert violations(common, own) == []
    np.testing.assert_array_equal(first.use_level, plan.use_level)
    np.testing.assert_array_equal(second.use_level, plan.use_level)
    np.testing.assert_array_equal(second.allocations, plan.allocations)
    np.testing.assert_array_equal(second.transfers, plan.transfers)
    assert evaluate_plan(common, first).latency_ps == evaluate_plan(task, plan).latency_ps
    assert (third.use_level == common.backing).all()


def test_plans_of_different_tasks_have_no_common_slices() -> None:
    task, evaluated = sliced_layers()
    other = resolve_task(layers_of_rows(), "tpu-v4i", slices=0.1)
    with pytest.raises(PlanError, match="differ in more than their slices"):
        in_common_slices([task, other], [evaluated.plan, evaluated.plan])


def _whole(task: Task) -> Costs:
    assert task.whole_costs is not None
    return task.whole_costs


def test_it_is_replayed_by_its_settings() -> None:
    task, evaluated = sliced_layers()
    fewer, smaller = merged(task, evaluated.plan)
    assert (task.program.num_tensors, fewer.program.num_tensors) == (50, 12)
    assert (len(evaluated.plan.allocations), len(smaller.allocations)) == (12, 3)
    assert smaller.settings["slices"] == {"1": [8], "2": [6], "6": [3]}
    read = MemoryPlan.from_json(smaller.to_json())
    assert read == smaller
    again = resolve_task(layers_of_rows(), "nnp-i", slices=read.settings["slices"])
    assert again.program.sha256 == fewer.program.sha256
    assert again.settings == fewer.settings
    assert evaluate_plan(again, read).latency_ps == evaluated.report.latency_ps


def test_blocks_in_descending_order_are_turned_around() -> None:
    """The weight's slices are packed downwards from the end of SRAM."""
    task, evaluated = sliced_layers()
    blocks = evaluated.plan.allocations
    weight = blocks[np.isin(blocks[:, 0], (1, 2, 3)) & (blocks[:, 1] == SRAM)]
    assert (np.diff(weight[:, 2]) < 0).all()
    block = merged(task, evaluated.plan)[1].allocations[0]
    assert block.tolist() == [1, SRAM, weight[:, 2].min(), 0, 3]


def test_everything_may_merge() -> None:
    task = sliced_layers().task
    plan = place_levels(task, np.full(task.program.num_tensors, task.backing)).plan
    fewer, whole = merged(task, plan)
    assert fewer.program is task.program.whole
    assert "slices" not in whole.settings
    assert merged(fewer, whole) == (fewer, whole)


def test_costs_of_the_slices_themselves_stay() -> None:
    task, evaluated = sliced_layers()
    known = resolve_task(task.program, task.accelerator, costs=task.costs)
    assert merged(known, evaluated.plan) == (known, evaluated.plan)


def test_cuts_are_those_of_the_program() -> None:
    program = sliced_layers().task.program
    cuts = cuts_of(program)
    assert cuts["2"] == [1, 2, 3, 4, 5, 6, 7]
    assert cut_before(program, cuts).sha256 == program.sha256
    assert cut_before(program, {}) is program.whole


@every(
    ("cuts", "why"),
    [
        ({"0": [1]}, "tensor '0', which 'layers' has not or keeps whole"),  # an input
        ({"99": [1]}, "tensor '99'"),
        ({"-1": [1]}, "tensor '-1'"),
        ({1: [1]}, "tensor 1,"),
        ({"1": 3}, "before one of its rows, 1 to 15"),
        ({"1": [0]}, "before one of its rows"),
        ({"1": [16]}, "before one of its rows"),
        ({"1": [True]}, "before one of its rows"),
        ({"1": [2.0]}, "before one of its rows"),
        ({"1": [3, 3]}, "do not ascend"),
        ({"1": [3, 2]}, "do not ascend"),
    ],
)
def test_strange_cuts_are_refused(cuts: dict[str, list[int]], why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        resolve_task(layers_of_rows(), "nnp-i", slices=cuts)
