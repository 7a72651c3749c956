"""Density-greedy: its maps fit by bytes, it never asks for what saves nothing, and it reaches what it is known to."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings

from memplace_env.compiler import all_backing_report, native_report, place_mapping
from memplace_env.compiler.density import VARIANTS, _lives, density_greedy, density_mappings
from memplace_env.plan import violations
from memplace_env.simulator import judge_plan
from memplace_env.testing.strategies import tasks


@settings(max_examples=60)
@given(tasks())
def test_maps_fit_by_bytes_and_only_move_what_may_move(task):
    first, last = _lives(task)
    for mapping in density_mappings(task):
        assert (mapping[~task.program.is_placeable] == task.backing).all()
        for fast in range(task.backing):
            here = mapping == fast
            for op in range(task.program.num_ops):
                held = task.program.tensor_bytes[here & (first <= op) & (last >= op)].sum()
                room = task.accelerator.levels[fast].capacity_bytes - task.costs.reserved_bytes[op, fast]
                assert held <= max(room, 0)
    assert violations(task, density_greedy(task)) == []


def test_variants_differ_and_the_first_is_the_default():
    assert len(VARIANTS) == len(set(VARIANTS)) == 10
    task = gym.make("MemPlace-Swin-tiny-v0").unwrapped.task
    mappings = density_mappings(task)
    assert len(np.unique(mappings, axis=0)) >= 5
    assert density_greedy(task) == place_mapping(task, mappings[0]).plan


@pytest.mark.parametrize(
    ("program", "least"), [("ResNet50", 1.2), ("BERT-Large", 1.0), ("GPT2", 1.1), ("T5-small", 1.0)]
)
def test_it_beats_native_where_there_is_something_to_gain(program, least):
    task = gym.make(f"MemPlace-{program}-v0", costs="roofline").unwrapped.task
    assert native_report(task).latency_ps / judge_plan(task, density_greedy(task)).latency_ps >= least
    assert judge_plan(task, density_greedy(task)).latency_ps < all_backing_report(task).latency_ps
