"""Every registered environment: the checkers of Gymnasium and Stable-Baselines3, determinism, pickling, forks."""

import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import memplace_env
from memplace_env.plan import validate
from memplace_env.registration import ONE_SHOT
from memplace_env.workload.zoo import zoo_names

GENERIC = {"MemPlace-v0": {"workload": "synthetic:diamond?ops=9&seed=1"}}
IDS = sorted(env_id for env_id in gym.registry if env_id.startswith("MemPlace"))


@pytest.fixture(params=IDS)
def env(request):
    made = gym.make(request.param, **GENERIC.get(request.param, {}))
    yield made
    made.close()


def test_every_zoo_workload_has_an_id():
    assert set(IDS) == {"MemPlace-v0", *(f"MemPlace-{name}-v0" for name in zoo_names())}
    assert set(ONE_SHOT) == set(zoo_names())
    memplace_env.register_envs()
    assert gym.make("memplace_env:MemPlace-ResNet50-v0").spec.kwargs["workload"] == "ResNet50"


def test_gymnasium_checker(env):
    check_env(env.unwrapped, skip_render_check=True)


def test_stable_baselines3_checker(env):
    with warnings.catch_warnings():
        # Advice, not a fault: nodes and edges are two-dimensional, since a graph network wants them so.
        warnings.filterwarnings("ignore", "Your observation (nodes|edge_index) has an unconventional shape")
        sb3_check_env(env, skip_render_check=True)


def test_determinism_and_fork(env):
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(3):
        action = env.action_space.sample()
        first = env.step(action)
        fork = env.unwrapped.fork()
        assert fork.plan() == env.unwrapped.plan()
        env.reset()
        again, forked = env.step(action), fork.step(action)
        for other in (again, forked):
            assert other[1:] == first[1:]
            assert all((other[0][key] == first[0][key]).all() for key in first[0])
        fork.step(np.zeros_like(action))
        assert (env.unwrapped.get_state() == action).all(), "a fork is independent"
    assert validate(env.unwrapped.program, env.unwrapped.accelerator, env.unwrapped.plan()) == []


def test_state_round_trip(env):
    core = env.unwrapped
    core.reset()
    before = core.plan()
    core.step(env.action_space.sample())
    state, plan = core.get_state(), core.plan()
    core.reset()
    assert core.plan() == before
    core.set_state(state)
    assert core.plan() == plan


def test_spec_and_pickle(env):
    assert gym.envs.registration.EnvSpec.from_json(env.spec.to_json()).make().action_space == env.action_space
    copy = pickle.loads(pickle.dumps(env.unwrapped))
    action = env.action_space.sample()
    assert copy.step(action)[1:] == env.unwrapped.step(action)[1:]


def test_masks_agree(env):
    observation, _ = env.reset()
    masks = env.unwrapped.action_masks()
    assert masks.shape == (env.action_space.nvec.sum(),)
    assert (masks == observation["action_mask"]).all()
    assert masks.reshape(len(env.action_space.nvec), -1).any(axis=1).all()


def test_vector_env_equals_single_envs():
    kwargs = GENERIC["MemPlace-v0"]
    native = gym.make_vec("MemPlace-v0", num_envs=5, **kwargs)
    single = SyncVectorEnv([lambda: gym.make("MemPlace-v0", **kwargs)] * 5, autoreset_mode=AutoresetMode.SAME_STEP)
    assert native.single_observation_space == single.single_observation_space
    assert native.observation_space == single.observation_space
    assert native.action_space == single.action_space
    assert_same(native.reset(seed=1), single.reset(seed=1))
    native.action_space.seed(1)
    for _ in range(4):
        actions = native.action_space.sample()
        assert_same(native.step(actions), single.step(actions))
    native.close()
    single.close()


def assert_same(ours, theirs):
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key in theirs:
            assert_same(ours[key], theirs[key])
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    elif isinstance(theirs, np.ndarray) and theirs.dtype == object:
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_array_equal(ours, theirs)
