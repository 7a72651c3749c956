"""Masks in the forms in which samplers, and networks of flat observations, take them."""

import gymnasium as gym
import numpy as np
import pytest

import memplace_env  # noqa: F401 - registers the ids


@pytest.mark.parametrize("env_id", ["MallocGame-Tiny-v0", "MemPlaceSteps-Tiny-v0"])
def test_flat_observations_have_the_mask_where_the_environment_says(env_id):
    env = gym.make(env_id, observation="flat").unwrapped
    observation, _ = env.reset()
    assert (observation[env.mask_slice] == env.action_masks()).all()
    assert gym.make_vec(env_id, num_envs=2, observation="flat").unwrapped.mask_slice == env.mask_slice
    assert gym.make(env_id, observation="dict").unwrapped.mask_slice is None


def test_one_shot_masks_serve_the_sampler():
    env = gym.make("MemPlace-Tiny-v0").unwrapped
    assert env.mask_slice is None
    env.action_space.seed(0)
    mask = env.sample_mask()
    assert np.concatenate(mask).tolist() == env.action_masks().tolist()
    assert not all(one.all() for one in mask)
    for _ in range(50):
        action = env.action_space.sample(mask=mask)
        assert all(one[level] for one, level in zip(mask, action, strict=True))


@pytest.mark.parametrize("env_id", ["MallocGame-Tiny-v0", "MemPlaceSteps-Tiny-v0"])
def test_masks_of_sequential_environments_serve_the_sampler(env_id):
    for env, draws in ((gym.make(env_id), 50), (gym.make_vec(env_id, num_envs=3), 50)):
        env.reset(seed=0)
        env.action_space.seed(0)
        legal = env.unwrapped.action_masks().reshape(-1, 3)
        assert not legal.all()
        for _ in range(draws):
            actions = np.atleast_1d(env.action_space.sample(mask=env.unwrapped.sample_mask()))
            assert legal[np.arange(len(actions)), actions].all()
