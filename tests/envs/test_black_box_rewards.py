"""A black box counts in both formulations: rewards, returns, info and reports are of its latencies."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameVectorEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.compiler import all_backing_report
from memplace_env.placement.simulator import BuiltinSimulator, evaluate_plan
from memplace_env.testing import RandomCosts
from tests.strategies import game_tasks, programs, tasks
from tests.thorough import examples

SEEDS = st.integers(0, 2**32)
GAME = "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"


class Contrary(BuiltinSimulator):
    """Fast memory costs, whatever the cost arrays say."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def run(self, program, accelerator, plan):
        self.asked += 1
        report = super().run(program, accelerator, plan)
        return replace(report, latency_ps=report.latency_ps + 10**9 * len(plan.allocations))


def play(env, seed, total=0.0):
    """The return of a random game, and the last info."""
    rng, over, info = np.random.default_rng(seed), False, {}
    while not over:
        _, reward, over, _, info = env.step(int(rng.choice(env.unwrapped.legal_actions())))
        total += reward
    return total, info


@examples(40)
@given(game_tasks(programs()), SEEDS, SEEDS)
def test_the_return_of_a_game_is_the_black_boxs(task, costs, seed):
    """Played, forked and finished apart, and read off its plan."""
    env = MallocGameEnv(replace(task, simulator=BuiltinSimulator(RandomCosts(costs))))
    env.reset()
    half = sum(env.step(2)[1] for _ in range(env.problem.num_decisions // 2))
    fork = env.fork()
    base = all_backing_report(env.task).latency_s
    for game in (env, fork):
        total, info = play(game, seed, half)
        evaluated = evaluate_plan(game.task, game.plan())
        assert info["latency_s"] == evaluated.latency_s == game.report().latency_s == game.latency_s
        assert total == pytest.approx(100 * (1 - evaluated.latency_s / base), abs=1e-7 * evaluated.latency_s / base)


def test_games_side_by_side_earn_what_a_game_alone_earns():
    single = MallocGameEnv(GAME, simulator=Contrary())
    vector = MallocGameVectorEnv(3, workload=GAME, simulator=Contrary())
    rng = np.random.default_rng(1)
    script = rng.integers(0, 3, (vector.problem.num_decisions, 3))
    vector.reset()
    steps = [vector.step(actions) for actions in script]
    assert steps[-1][2].all()
    for game in range(3):
        single.reset()
        alone = [single.step(int(action)) for action in script[:, game]]
        assert [step[1] for step in alone] == [step[1][game] for step in steps]
        assert steps[-1][4]["latency_s"][game] == alone[-1][4]["latency_s"] == single.latency_s
        assert alone[-2][4]["latency_s"] == steps[-2][4]["latency_s"][game], "estimated until the end"


def test_where_fast_memory_costs_a_game_that_avoids_it_is_best():
    returns = {}
    for action in (1, 2):
        env = MallocGameEnv(GAME, simulator=Contrary())
        env.reset()
        returns[action] = sum(env.step(action)[1] for _ in range(env.problem.num_decisions))
    plain = MallocGameEnv(GAME)
    plain.reset()
    assert sum(plain.step(1)[1] for _ in range(plain.problem.num_decisions)) > 0 > returns[1]
    assert returns[2] == pytest.approx(0, abs=1e-9)


def test_a_game_asks_once():
    """Each plan is timed once, and the baseline once: a black box may be slow."""
    env = gym.make("MallocGame-v0", workload=GAME, simulator=Contrary(), skip_forced=True)
    simulator = env.unwrapped.simulator
    for _ in range(2):
        env.reset()
        total, _ = play(env, 0)
    assert simulator.asked == 3
    report = env.unwrapped.report()
    assert total == pytest.approx(100 * (1 - report.latency_s / all_backing_report(env.unwrapped.task).latency_s))


@examples(40)
@given(tasks(programs(max_ops=6)), SEEDS)
def test_a_map_costs_what_its_report_says(task, seed):
    """The report agrees, of a subclass of the built-in simulator too: in one step, among many, and of the plan."""
    env = OneShotEnv(replace(task, simulator=Contrary()))
    env.reset()
    assignments = np.random.default_rng(seed).integers(0, task.accelerator.num_levels, (2, env.problem.num_decisions))
    together = env.score(assignments)[1].latency_s
    for assignment, latency in zip(assignments, together, strict=True):
        assert env.step(assignment)[4]["latency_s"] == env.report().latency_s == latency
