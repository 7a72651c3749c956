"""Programs of thousands of ops: what they get in place of branch and bound, tried on small ones."""

import numpy as np
import pytest

from memplace_agents import Auto, Exact
from memplace_agents.exact.static import level_moves, static_model
from memplace_env.envs.one_shot.env import OneShotEnv
from memplace_env.machine.costs.tiled import ethos_u
from memplace_env.placement.resolve_task import resolve_task


@pytest.mark.parametrize("chip", ["nnp-i", "ethos-u85-512"])
def test_a_bound_by_weak_duality_and_few_plans(monkeypatch, chip):
    env = OneShotEnv("AlexNet", chip)
    exact = Exact().solve(env)
    monkeypatch.setattr(static_model, "MOST_ENTRIES", 0)
    monkeypatch.setattr(level_moves, "LARGE_USES", 0)
    monkeypatch.setattr(level_moves, "LARGE_S", 0.0)
    solution = Auto().solve(env)
    assert 0 < solution.bound_s <= exact.latency_s * (1 + 1e-9)
    assert solution.bound_s <= solution.latency_s
    assert solution.evaluations < 500


@pytest.mark.parametrize("chip", ["ethos-u65-512", "ethos-u85-512"])
def test_ops_that_are_alike_are_tiled_once(monkeypatch, chip):
    costs = resolve_task("BERT", chip).costs
    monkeypatch.setattr(ethos_u, "_like", lambda program, nest: list(range(program.num_ops)))
    for one, other in zip(costs, resolve_task("BERT", chip).costs, strict=True):
        assert np.array_equal(one, other)
