"""Wrappers and the Stable-Baselines3 adapter."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import memplace_env  # noqa: F401
from memplace_env._lib.errors import EnvError
from memplace_env.envs.wrappers import MeasurementNoise, SB3VecEnv
from tests.test_all_envs import assert_same

WORKLOAD = {"workload": "synthetic:diamond?ops=9&seed=1"}


def make() -> gym.Env:
    return gym.make("MemPlace-v0", reward="egrl", **WORKLOAD)


GAME = {"workload": "synthetic:diamond?ops=6&seed=1&accelerator=tpu-v4i"}


def played(env, seed):
    """The return and the last info of an episode that leaves everything in the backing memory, if it may."""
    env.reset(seed=seed)
    earned, over = 0.0, False
    while not over:
        action = env.action_space.n - 1 if hasattr(env.action_space, "n") else env.action_space.nvec - 1
        _, reward, over, _, info = env.step(action)
        earned += reward
    return earned, info


@pytest.mark.parametrize(("env_id", "kwargs"), [("MemPlace-v0", WORKLOAD), ("MallocGame-v0", GAME)])
def test_noise_is_seeded_and_spares_the_plan(env_id, kwargs):
    env, exact = MeasurementNoise(gym.make(env_id, **kwargs), 0.1), gym.make(env_id, **kwargs)
    exact_s = played(exact, 0)[1]["latency_s"]
    assert played(env, 1) == played(env, 1) != played(env, 2)
    assert env.unwrapped.plan() == exact.unwrapped.plan()
    factors = np.array([played(env, seed)[1]["latency_s"] / exact_s for seed in range(200)])
    assert factors.mean() == pytest.approx(1, abs=0.03)
    assert factors.std() == pytest.approx(0.1, rel=0.2)
    assert played(MeasurementNoise(gym.make(env_id, **kwargs), 0.0), 1) == played(exact, 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*different from the unwrapped version|.*has an unconventional shape")
        check_env(env, skip_render_check=True)
        sb3_check_env(env, skip_render_check=True)


def test_the_reward_of_a_map_is_what_was_measured():
    env = MeasurementNoise(make(), 0.2)
    earned, info = played(env, 3)
    native = env.unwrapped.problem.native_report.latency_s
    assert info["fits"]
    assert earned == pytest.approx(info["speedup"]) == pytest.approx(native / info["latency_s"])
    env.reset(seed=3)
    full = np.zeros(18, dtype=int)
    _, penalty, _, _, info = env.step(full)
    assert penalty == make().unwrapped.step(full)[1] < 0
    assert info["speedup"] == pytest.approx(native / info["latency_s"])


def test_the_reward_by_any_function_is_what_was_measured():
    env = MeasurementNoise(gym.make("MemPlace-v0", reward=lambda scores: 1 / scores.latency_s**2, **WORKLOAD), 0.2)
    earned, info = played(env, 3)
    assert earned == pytest.approx(info["latency_s"] ** -2)


@pytest.mark.parametrize("skip_forced", [False, True])
def test_the_return_of_a_game_is_what_was_measured(skip_forced):
    """The return with all in the backing memory is 0 but for the noise."""
    env = MeasurementNoise(gym.make("MallocGame-v0", skip_forced=skip_forced, **GAME), 0.2)
    env.reset(seed=5)
    earned, over = 0.0, False
    while not over:
        _, reward, over, _, info = env.step(int(np.flatnonzero(env.unwrapped.action_masks())[0]))
        earned += reward
    backing_s = env.unwrapped.problem.all_backing_ps * 1e-12
    assert earned == pytest.approx(100 * (1 - info["latency_s"] / backing_s))
    assert info["latency_s"] != pytest.approx(env.unwrapped.report().latency_s)


def test_there_is_no_such_noise():
    for scale in (-0.1, 2, float("nan")):
        with pytest.raises(EnvError, match="relative standard deviation; pass 0 to 1"):
            MeasurementNoise(make(), scale)
    with pytest.raises(EnvError, match="wraps a MemPlace or MallocGame environment"):
        MeasurementNoise(gym.make("CartPole-v1"))
    with pytest.raises(EnvError, match="with noise already"):
        MeasurementNoise(MeasurementNoise(make()))


def test_sb3_adapter_steps_like_the_vector_env():
    native = gym.make_vec("MemPlace-v0", num_envs=4, **WORKLOAD)
    venv = SB3VecEnv(gym.make_vec("MemPlace-v0", num_envs=4, **WORKLOAD), seed=1)
    observation, _ = native.reset(seed=1)
    mine = venv.reset()
    assert all((mine[key] == observation[key]).all() for key in observation)
    mine["nodes"][:] = 0
    actions = np.random.default_rng(0).integers(0, 3, (4, 18))
    _, rewards, done, infos = venv.step(actions)
    expected = native.step(actions)
    np.testing.assert_allclose(rewards, expected[1], rtol=1e-6)
    assert done.all()
    assert [info["latency_s"] for info in infos] == expected[4]["latency_s"].tolist()
    assert all((info["terminal_observation"]["nodes"] == observation["nodes"][0]).all() for info in infos)
    assert not any(info["TimeLimit.truncated"] for info in infos)
    assert np.stack(venv.env_method("action_masks")).shape == (4, 54)
    assert venv.get_attr("accelerator")[0].name == "nnp-i"
    assert venv.env_is_wrapped(gym.Wrapper) == [False] * 4
    with pytest.raises(EnvError, match="colour"):
        venv.set_attr("colour", 1)
    with pytest.raises(EnvError, match="SAME_STEP"):
        SB3VecEnv(gym.make_vec("CartPole-v1", num_envs=2))
    venv.close()


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("MallocGame-v0", {"workload": "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"}),
        ("MallocGame-v0", {"workload": "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i", "observation": "flat"}),
        ("MemPlace-v0", WORKLOAD),
        ("CartPole-v1", {"vectorization_mode": "sync"}),
    ],
)
def test_sb3_adapter_is_the_same_in_every_mode(env_id, kwargs):
    """Stable-Baselines3 sees new episodes begin in the step that ends old ones, however the environment does it."""

    def played(mode):
        if "vectorization_mode" in kwargs:
            venv = SB3VecEnv(gym.make_vec(env_id, num_envs=3, vector_kwargs={"autoreset_mode": mode}, **kwargs), seed=1)
        else:
            venv = SB3VecEnv(gym.make_vec(env_id, num_envs=3, autoreset_mode=mode, **kwargs), seed=1)
        venv.action_space.seed(1)
        first = venv.reset()
        return first, [venv.step(np.array([venv.action_space.sample() for _ in range(3)])) for _ in range(60)]

    expected = played("SameStep")
    assert sum(step[2].sum() for step in expected[1]) > 3
    for mode in ("Disabled",) if env_id == "CartPole-v1" else ("Disabled", "NextStep"):
        assert_same(played(mode), expected)


@pytest.mark.parametrize(("env_id", "kwargs"), [("MemPlace-v0", WORKLOAD), ("MallocGame-v0", GAME)])
@pytest.mark.parametrize("algorithm", [PPO, MaskablePPO])
def test_any_algorithm_trains_through_the_adapter(algorithm, env_id, kwargs):
    venv = SB3VecEnv(gym.make_vec(env_id, num_envs=8, **kwargs))
    model = algorithm("MultiInputPolicy", venv, n_steps=8, batch_size=32, n_epochs=2, seed=0, device="cpu")
    model.learn(128)
    assert model.num_timesteps == 128
