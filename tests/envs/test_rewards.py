"""Rewards by name: what they add up to, that specs keep them, and the sentence for a wrong one."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from hypothesis import given
from hypothesis import strategies as st

import memplace_env  # noqa: F401
from memplace_env._lib.errors import EnvError, MemPlaceError
from memplace_env.envs.batch.sequential_env import SCALES
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot.reward import REWARDS
from tests.offenders import every
from tests.strategies import game_tasks, programs
from tests.thorough import examples

IDS = {"MemPlace-v0": REWARDS, "MallocGame-v0": SCALES}
NAMED = [(env_id, name) for env_id, names in IDS.items() for name in names]
SETTINGS = {"workload": "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i", "accelerator": "tpu-v4i"}


def episode(env):
    """Play an episode of the last actions; returns its rewards."""
    env.reset(seed=0)
    space, rewards, over = env.action_space, [], False
    while not over:
        _, reward, over, _, _ = env.step(space.n - 1 if hasattr(space, "n") else space.nvec - 1)
        rewards.append(reward)
    return rewards


@pytest.mark.parametrize(("env_id", "name"), NAMED)
def test_names_survive_specs(env_id, name):
    spec = gym.make(env_id, **SETTINGS, reward=name).spec
    copied = EnvSpec.from_json(spec.to_json())
    assert copied.kwargs["reward"] == name
    rewards = episode(gym.make(copied))
    assert rewards == episode(gym.make(spec))
    vector = gym.make_vec(env_id, num_envs=2, **SETTINGS, reward=name)
    vector.reset()
    last = vector.action_space.high if env_id == "MemPlace-v0" else vector.action_space.nvec - 1
    assert vector.step(last)[1].tolist() == [rewards[0]] * 2


@every("env_id", IDS)
@every("name", ["latency", "", None, 3, ["percent"], np.zeros(2)])
def test_other_names_are_refused(env_id, name):
    with pytest.raises(MemPlaceError, match=r"one of percent, fraction|speedup, egrl, energy, edp") as caught:
        gym.make(env_id, **SETTINGS, reward=name)
    assert len(str(caught.value)) < 200
    assert (type(caught.value) is EnvError) == (env_id == "MallocGame-v0")


@examples(30)
@given(game_tasks(programs(max_ops=6)), st.integers(0, 99))
def test_percent_is_a_hundred_times_the_fraction(task, seed):
    """Decision by decision; the fractions add up to the latency saved."""
    percent, fraction = MallocGameEnv(task), MallocGameEnv(task, reward="fraction")
    rng, total, over = np.random.default_rng(seed), 0.0, False
    percent.reset()
    fraction.reset()
    while not over:
        action = int(rng.choice(percent.legal_actions()))
        _, reward, over, _, info = fraction.step(action)
        assert percent.step(action)[1] == 100 * reward
        total += reward
    assert total == pytest.approx(1 - info["latency_s"] / (percent.problem.all_backing_ps * 1e-12), abs=1e-9)
