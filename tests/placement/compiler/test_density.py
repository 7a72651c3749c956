"""Density-greedy: its levels fit by bytes, nothing that saves no time is moved, and known gains are reached."""

import gymnasium as gym
import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from memplace_env.placement.compiler import all_backing_report, native_report, place_levels
from memplace_env.placement.compiler.density import VARIANTS, all_density_levels, block_lives, density_greedy
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.validation import violations
from tests.strategies import programs, programs_with_pairs, tasks
from tests.thorough import examples


@examples(60)
@given(tasks(programs() | programs_with_pairs()))
def test_maps_fit_by_bytes_and_only_move_what_may_move(task):
    program, (first, last) = task.program, block_lives(task)
    for level in all_density_levels(task):
        assert (level[~task.program.is_placeable] == task.backing).all()
        for fast in range(task.backing):
            here = level == fast
            for op in range(task.program.num_ops):
                held = program.tensor_bytes[here & (first <= op) & (last >= op)].sum()
                pairs = program.handovers[(program.handovers[:, 2] == op) & here[program.handovers[:, :2]].all(axis=1)]
                held -= shared_bytes(program, pairs)
                room = task.accelerator.levels[fast].capacity_bytes - task.costs.reserved_bytes[op, fast]
                assert held <= max(room, 0)
    assert violations(task, density_greedy(task)) == []


def shared_bytes(program, pairs):
    """Bytes of the most operands that give and results that take, each once."""
    joined = nx.Graph([(operand, ~result) for operand, result, _ in pairs.tolist()])
    match = nx.algorithms.bipartite.hopcroft_karp_matching(joined, [node for node in joined if node >= 0])
    return sum(int(program.tensor_bytes[node]) for node in match if node >= 0)


def test_variants_differ_and_the_first_is_the_default():
    assert len(VARIANTS) == len(set(VARIANTS)) == 10
    task = gym.make("MemPlace-Swin-tiny-v0").unwrapped.task
    variants = all_density_levels(task)
    assert len(np.unique(variants, axis=0)) >= 5
    assert density_greedy(task) == place_levels(task, variants[0]).plan


@pytest.mark.parametrize(
    ("program", "least"), [("ResNet50", 1.2), ("BERT-Large", 1.0), ("GPT2", 1.1), ("T5-small", 1.0)]
)
def test_it_beats_native_where_there_is_something_to_gain(program, least):
    task = gym.make(f"MemPlace-{program}-v0", costs="roofline").unwrapped.task
    assert native_report(task).latency_ps / evaluate_plan(task, density_greedy(task)).latency_ps >= least
    assert evaluate_plan(task, density_greedy(task)).latency_ps < all_backing_report(task).latency_ps
