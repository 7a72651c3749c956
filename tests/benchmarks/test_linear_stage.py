"""Benchmarks that bound games by the linear program alone."""

from benchmarks.scale_stages import STAGES
from benchmarks.suite import _measure_game
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_env.envs.malloc_game import MallocGameEnv

GAME = {"workload": "synthetic:random?ops=12&seed=0", "accelerator": "edge-tpu"}


def test_bounds_under_a_time_limit_are_those_without():
    stage = next(stage for name, stage in STAGES.items() if "linear" in name)
    task = MallocGameEnv(**GAME).task
    assert stage(task) == linear_bound(MallocGameEnv(**GAME).task).bound_ps > 0


def test_a_setting_without_headroom_has_the_linear_bound():
    record = _measure_game(GAME, 10.0)
    assert record["bound_s"] == linear_bound(MallocGameEnv(**GAME).task).bound_ps / 1e12
