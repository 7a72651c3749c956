"""The tiny ids: their optimum is the best of all episodes, no cheap rule finds it, and learning does."""

from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from stable_baselines3 import PPO

import memplace_agents
from memplace_agents.learning.training import one_thread
from memplace_agents.xla_msa import PUBLIC_SETS
from memplace_env._lib.errors import EnvError
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game.plan_actions import nearest_actions
from memplace_env.envs.registration import Formulation
from memplace_env.envs.wrappers import SB3VecEnv
from memplace_env.placement.compiler import HEURISTICS
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import TOPOLOGIES, planted, planted_optimum_ps
from tests.test_all_envs import TINY, assert_same

GAME = Formulation.GAME.traits.env_id("Tiny")
ONE_SHOT = Formulation.ONE_SHOT.traits.env_id("Tiny")
STEPS = Formulation.STEPS.traits.env_id("Tiny")


def made(env_id, **kwargs):
    return gym.make(env_id, **kwargs).unwrapped


def every_game(problem):
    """The ends of all games."""
    states = problem.new_states(1)
    for _ in range(problem.num_decisions):
        legal = problem.legal(states)
        moved = [np.ascontiguousarray(states[legal[:, action]]) for action in range(3)]
        for action, some in enumerate(moved):
            problem.play(some, np.full(len(some), action))
        states = np.concatenate(moved)
    return states


def test_the_optimum_is_the_best_of_all_games():
    env = made(GAME)
    _, info = env.reset()
    assert 10 <= env.problem.num_decisions <= 15
    ends = every_game(env.problem)
    assert len(ends) > 500
    assert env.problem.latency_s(ends).min() == info["optimal_latency_s"]


def test_the_optimum_is_the_best_of_all_assignments():
    env = made(ONE_SHOT)
    _, info = env.reset()
    decides = np.flatnonzero(env.problem.decides)
    assert 10 <= len(decides) <= 15
    levels = np.array(list(product(range(env.accelerator.num_levels), repeat=len(decides))))
    assignments = np.zeros((len(levels), env.problem.num_decisions), dtype=np.int64)
    assignments[:, decides] = levels
    rewards, scores = env.score(assignments)
    assert scores.latency_s.min() == info["optimal_latency_s"]
    assert rewards.max() == info["optimal_return"]
    assert (scores.latency_s == info["optimal_latency_s"]).mean() < 0.001


@pytest.mark.parametrize("env_id", TINY)
def test_the_exact_agent_proves_it_and_its_episode_returns_it(env_id):
    env = made(env_id)
    _, info = env.reset()
    solution = memplace_agents.Exact().solve(made(ONE_SHOT) if env_id == STEPS else env)
    assert solution.outcome == "optimal"
    assert solution.report.latency_s == info["optimal_latency_s"]
    if env_id == GAME:
        actions = nearest_actions(env.problem, solution.plan)
    elif env_id == STEPS:
        actions = env.problem.actions_of(solution.plan)
    else:
        actions = env.problem.assignments_of(solution.plan.tensor_levels(env.program)[None])
    assert sum(env.step(action)[1] for action in actions) == pytest.approx(info["optimal_return"], rel=1e-12)


def test_no_cheap_rule_finds_it():
    game, one_shot = made(GAME), made(ONE_SHOT)
    optima = {env: env.reset()[1]["optimal_latency_s"] for env in (game, one_shot)}
    rules = [HEURISTICS[name](one_shot.task) for name in ("native", "all-fastest")]
    cheap = [(one_shot, evaluate_plan(one_shot.task, plan).latency_s) for plan in rules]
    cheap.append((one_shot, memplace_agents.DensityGreedy().solve(one_shot).report.latency_s))
    players = [memplace_agents.GreedyPlayer(), *(memplace_agents.XlaMsa(public.options) for public in PUBLIC_SETS)]
    cheap += [(game, player.solve(game).report.latency_s) for player in players]
    assert all(latency > 1.02 * optima[env] for env, latency in cheap)
    random = game.problem.new_states(1000)
    game.problem.finish_randomly(random, seed=0)
    assert (game.problem.latency_s(random) == optima[game]).mean() < 0.02


@pytest.mark.parametrize("env_id", TINY)
def test_native_vectors_have_it_too(env_id):
    native = gym.make_vec(env_id, num_envs=3, autoreset_mode="SameStep")
    sync = SyncVectorEnv([lambda: gym.make(env_id)] * 3, autoreset_mode="SameStep")
    assert_same(native.reset(), sync.reset())
    native.action_space.seed(0)
    for _ in range(20):
        actions = native.action_space.sample()
        mine = native.step(actions)
        assert_same(mine, sync.step(actions))
        assert {"optimal_latency_s", "optimal_return"} <= mine[4].keys()


def test_the_return_is_in_the_units_of_the_reward():
    percent, fraction = (made(GAME, reward=name).reset()[1]["optimal_return"] for name in ("percent", "fraction"))
    assert percent == pytest.approx(100 * fraction)
    speedup, energy = (made(ONE_SHOT, reward=name).reset()[1]["optimal_return"] for name in ("egrl", "energy"))
    assert speedup > 1
    assert np.isnan(energy)


@pytest.mark.parametrize(
    "settings",
    [
        {"id": "MallocGame-ResNet50-intel-npu-4000-v0"},
        {"id": ONE_SHOT, "costs": "tiled"},
        {"id": ONE_SHOT, "accelerator": "intel-npu-4000"},
        {"id": ONE_SHOT, "workload": "synthetic:random?ops=6"},
    ],
)
def test_elsewhere_it_is_not_known(settings):
    with pytest.raises(EnvError, match="is not known; optimum=True is for planted programs"):
        gym.make(**{**settings, "optimum": True})


@pytest.mark.parametrize("env_id", TINY)
def test_flags_are_refused(env_id):
    with pytest.raises(EnvError, match="optimum is True or False, not 'no'"):
        gym.make(env_id, optimum="no")


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("chip", ["nnp-i", "tpu-v4i"])
def test_the_planted_optimum_is_that_of_the_exact_agent(topology, chip):
    env = made("MemPlace-v0", workload=f"synthetic:{topology}?ops=7&seed=5&accelerator={chip}", accelerator=chip)
    assert planted_optimum_ps(env.task) * PS == memplace_agents.Exact().solve(env).report.latency_s
    unnamed = resolve_task(planted(topology, ops=7, seed=5, accelerator=chip).program, chip, costs="roofline")
    assert planted_optimum_ps(unnamed) == planted_optimum_ps(env.task)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "settings", "steps"),
    [
        (GAME, {"num_envs": 64, "n_steps": 64, "learning_rate": 1e-3, "batch_size": 512}, 65_536),
        (STEPS, {"num_envs": 256, "n_steps": 22, "learning_rate": 1e-3, "batch_size": 512, "ent_coef": 0.003}, 131_072),
        (ONE_SHOT, {"num_envs": 256, "n_steps": 4, "learning_rate": 3e-3, "batch_size": 512}, 32_768),
    ],
)
def test_ppo_solves_them(env_id, settings, steps):
    """Some five processor seconds each; the policy that is learnt plays the optimum without a mask."""
    venv = SB3VecEnv(gym.make_vec(env_id, num_envs=settings.pop("num_envs"), observation="flat"))
    with one_thread():
        model = PPO("MlpPolicy", venv, n_epochs=4, gamma=1, seed=0, **settings).learn(steps)
    env = gym.make(env_id, observation="flat")
    (observation, info), earned, over = env.reset(), 0.0, False
    while not over:
        observation, reward, over, _, _ = env.step(model.predict(observation, deterministic=True)[0])
        earned += reward
    assert earned == pytest.approx(info["optimal_return"], rel=1e-9)
