"""Flat observations: their numbers, their range, and that other people's code takes them as they are."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import memplace_agents
import memplace_env  # noqa: F401
from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameVectorEnv
from memplace_env.envs.malloc_game.flat import flat_space as game_space
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.one_shot.flat import SEGMENTS, flat_observation
from memplace_env.program.program import TensorKind
from tests.strategies import game_tasks, tasks
from tests.test_all_envs import GENERIC
from tests.thorough import examples


def game_reference(seen):
    """Return the vector of `malloc_game.flat.flat_space` for the arrays of one Dict, by numpy alone."""
    return np.concatenate(
        [
            seen["tensor"],
            seen["progress"],
            seen["action_mask"],
            seen["bandwidth"].reshape(8, 8).mean(axis=1),
            seen["profile"].reshape(2, 8, 8, 8, 8).mean(axis=(2, 4)).ravel() / 255,
            seen["lookahead"].ravel(),
        ]
    )


@examples(40)
@given(game_tasks(), st.integers(0, 9))
def test_the_game_shows_the_same_coarser(task, seed):
    plain, flat = MallocGameEnv(task), MallocGameEnv(task, observation="flat")
    assert flat.observation_space == game_space()
    rng = np.random.default_rng(seed)
    pairs, over = [(plain.reset()[0], flat.reset()[0])], False
    while not over:
        action = int(rng.integers(3))
        (seen, *rest), (vector, *other) = plain.step(action), flat.step(action)
        assert rest == other
        pairs.append((seen, vector))
        over = rest[1]
    for seen, vector in pairs:
        assert vector in flat.observation_space
        np.testing.assert_allclose(vector, game_reference(seen), atol=1e-6)


@examples(60)
@given(tasks())
def test_the_one_shot_summary(task):
    env = OneShotEnv(task, observation="flat")
    first, again = env.reset()[0], env.step(env.action_space.sample())[0]
    assert first in env.observation_space
    assert env.observation_space.shape == (100 + 2 * task.accelerator.num_levels,)
    assert (first == again).all()
    assert not np.shares_memory(first, again)
    columns, levels = first[: 6 * SEGMENTS].reshape(6, SEGMENTS), first[100:].reshape(2, -1)
    assert columns[0].sum() == pytest.approx(1, abs=1e-5)
    assert (columns[2] > 0).any() == bool(task.program.bytes_of(TensorKind.WEIGHT))
    live, fast = max(task.program.live_bytes), task.accelerator.levels[0].capacity_bytes
    assert columns[5].max() == pytest.approx(live / (live + fast), abs=1e-6)
    assert levels[1, -1] == 0.5


def test_the_one_shot_summary_tells_programs_apart():
    seen = [flat_observation(OneShotEnv(name).problem) for name in ("ResNet50", "BERT", "MobileNetV2")]
    assert all(np.abs(a - b).max() > 0.05 for a, b in [seen[:2], seen[1:], seen[::2]])


@pytest.mark.parametrize("env_id", sorted(GENERIC))
def test_checkers(env_id):
    env = gym.make(env_id, observation="flat", **GENERIC[env_id])
    check_env(env.unwrapped, skip_render_check=True)
    sb3_check_env(env, skip_render_check=True)
    normal = gym.wrappers.NormalizeObservation(gym.make(env_id, observation="flat", **GENERIC[env_id]))
    normal.reset(seed=0)
    assert normal.step(normal.action_space.sample())[0] in normal.observation_space


def test_reused_arrays_hold_the_same():
    settings = GENERIC["MallocGame-v0"] | {"observation": "flat"}
    fresh, reused = MallocGameVectorEnv(3, **settings), MallocGameVectorEnv(3, copy=False, **settings)
    assert (fresh.reset()[0] == reused.reset()[0]).all()
    fresh.action_space.seed(0)
    first = reused.step(np.zeros(3, int))[0]
    assert fresh.step(np.zeros(3, int))[0] is not first
    for _ in range(60):
        actions = fresh.action_space.sample()
        seen = fresh.step(actions)[0]
        assert reused.step(actions)[0] is first
        assert (seen == first).all()


@pytest.mark.parametrize(("agent", "env_id"), [("random", "MemPlace-v0"), ("greedy-player", "MallocGame-v0")])
def test_agents_do_not_mind(agent, env_id):
    plain, flat = (gym.make(env_id, observation=form, **GENERIC[env_id]) for form in ("dict", "flat"))
    solve = memplace_agents.make_agent(agent).solve
    assert solve(flat, budget=20, seed=1).plan == solve(plain, budget=20, seed=1).plan
