"""Savings of moving a tensor equal the simulator's differences where nothing is in the way."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.placement.compiler import place_levels
from memplace_env.placement.compiler.placing_order import latency_ps, move_costs, saved_per_byte
from memplace_env.placement.simulator import evaluate_plan
from tests.strategies import accelerators, programs, tasks
from tests.thorough import examples


def without_limits(task):
    """The same task with endless levels of which ops reserve nothing."""
    levels = tuple(replace(level, capacity_bytes=2**40 + at) for at, level in enumerate(task.accelerator.levels))
    costs = task.costs._replace(reserved_bytes=np.zeros_like(task.costs.reserved_bytes))
    return replace(task, accelerator=replace(task.accelerator, levels=levels), costs=costs)


@examples(60)
@given(tasks(programs(max_ops=6), accelerators(weights="resident")), st.integers(0, 10**6))
def test_move_costs_are_what_the_simulator_says(task, seed):
    task, rng = without_limits(task), np.random.default_rng(seed)
    placeable = task.program.is_placeable
    level = np.where(placeable, rng.integers(0, task.accelerator.num_levels, len(placeable)), task.backing)
    costs = move_costs(task, level)

    def latency(levels):
        plan, moved = place_levels(task, levels)
        assert moved == 0
        assert latency_ps(task, levels) == evaluate_plan(task, plan).latency_ps
        return evaluate_plan(task, plan).latency_ps

    before = latency(level)
    for tensor in np.flatnonzero(placeable):
        for to in range(task.accelerator.num_levels):
            moved = level.copy()
            moved[tensor] = to
            assert costs[tensor, to] == latency(moved) - before


@examples(30)
@given(tasks(programs(max_ops=6)))
def test_what_a_byte_saves_lies_between_both_ways_to_ask(task):
    tensors = task.program.num_tensors
    alone = -move_costs(task, np.full(tensors, task.backing))[:, 0]
    missing = move_costs(task, np.zeros(tensors, dtype=int))[:, task.backing]
    saved = saved_per_byte(task) * task.program.tensor_bytes
    assert (saved <= np.maximum(alone, missing) + 1e-6 * abs(saved)).all()
    assert (saved >= np.minimum(alone, missing) - 1e-6 * abs(saved)).all()
